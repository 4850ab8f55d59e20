"""Pairs of the user's own: a file with a source, a tab and its target in each line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import numpy as np

from unbounded.errors import ConfigError
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded
from unbounded.tasks.transduction import Pairs, PairSource

#: Of 20 lines so many are held out for each of these splits, by the line's hash.
HELD_OUT: Final = {"test": 2, "validation": 2}
_SHARES = 20
# So many faulty lines are named; one mistake is often in all of them.
_NAMED = 5

Line = tuple[tuple[str, ...], tuple[str, ...]]


class FilePairs(PairSource):
    """The lines of a file. Which split a line is in depends on the line alone, not on its place.

    A training example is a line drawn uniformly; example i of the other splits is their line i, and
    after the last one the first comes again (`available` says how many there are).

    Args:
        path: of the file; symbols are the words of each side, or with `characters` its characters.
        characters: whether each character is a symbol; blanks are symbols too then.

    Raises:
        ConfigError: the file cannot be read, a line is no pair, or a split has no line; all faults
            together, by line.
    """

    def __init__(self, path: str | Path, characters: bool = False) -> None:
        self.path = Path(path)
        lines = _read(self.path, characters)
        #: Of the lines as they are understood, in their order.
        self.data_digest = hashlib.sha256(repr(lines).encode()).hexdigest()
        splits: dict[str, list[Line]] = {"train": [], **{name: [] for name in HELD_OUT}}
        for line in lines:
            splits[_split_of(line)].append(line)
        empty = [name for name, own in splits.items() if not own]
        if empty:
            raise ConfigError(
                [
                    f"{path}: {len(lines)} lines leave none for {' and '.join(empty)}: of "
                    f"{_SHARES} lines about {HELD_OUT['test']} are held out for each of "
                    f"{' and '.join(HELD_OUT)}, equal ones together; give more lines"
                ]
            )
        # What is only in the lines held out is a symbol too, and never learned.
        self.source_vocabulary = tuple(sorted({word for source, _ in lines for word in source}))
        self.target_vocabulary = tuple(sorted({word for _, target in lines for word in target}))
        self._splits = {name: _Table(own, self) for name, own in splits.items()}
        sizes = [len(source) for source, _ in lines]
        #: Lengths of the sources.
        self.lengths = LengthRange(min(sizes), max(sizes))

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`."""
        table = self._splits[stream.split]
        rows = table.within(lengths)
        if not len(rows):
            raise ConfigError(
                [f"lengths: {self.path} has no line for {stream.split} with a source of {lengths}"]
            )
        indices = start + np.arange(size)
        if stream.split == "train":
            chosen = rows[bounded(stream.length_words(indices), len(rows))]
        else:
            chosen = rows[indices % len(rows)]
        return Pairs(*(field[chosen] for field in table.pairs))

    def available(self, split: str, lengths: LengthRange) -> int | None:
        """See `PairSource.available`."""
        return len(self._splits[split].within(lengths))


class _Table:
    """The lines of a split as arrays."""

    def __init__(self, lines: list[Line], source: FilePairs) -> None:
        sides = []
        for side, vocabulary in enumerate((source.source_vocabulary, source.target_vocabulary)):
            places = {word: place for place, word in enumerate(vocabulary)}
            sizes = np.array([len(line[side]) for line in lines], dtype=np.int64)
            table = np.zeros((len(lines), max(1, int(sizes.max()))), dtype=np.int64)
            for row, line in enumerate(lines):
                table[row, : sizes[row]] = [places[word] for word in line[side]]
            sides += [table, sizes]
        self.pairs = Pairs(*sides)

    def within(self, lengths: LengthRange) -> Integers:
        """Which lines have a source of such a length."""
        sizes = self.pairs.source_lengths
        return np.flatnonzero((sizes >= lengths.minimum) & (sizes <= lengths.maximum))


def _split_of(line: Line) -> str:
    """The split that a line is in."""
    text = "\t".join(" ".join(side) for side in line)
    share = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _SHARES
    for name, held_out in HELD_OUT.items():
        if share < held_out:
            return name
        share -= held_out
    return "train"


def _read(path: Path, characters: bool) -> list[Line]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            [
                f"{path}: {error.strerror or error}. Give a file with a source, a tab and its "
                "target in each line (--data FILE)"
            ]
        ) from error
    if not content.strip():
        raise ConfigError([f"{path} is empty: give a source, a tab and its target in each line"])
    lines: list[Line] = []
    faults: list[str] = []
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            sides = text.rstrip("\r").split("\t")
        except UnicodeDecodeError as error:
            faults.append(f"{path}, line {number}: not UTF-8: byte {error.start} of the line")
            continue
        if len(sides) != 2:
            faults.append(
                f"{path}, line {number}: expected a source, one tab and a target, got "
                f"{len(sides) - 1} tabs"
            )
            continue
        source, target = (tuple(side) if characters else tuple(side.split()) for side in sides)
        if source:
            lines.append((source, target))
        else:
            faults.append(f"{path}, line {number}: the source is empty")
    more = len(faults) - _NAMED
    if more > 0:
        faults = [*faults[:_NAMED], f"{path}: {more} more lines are no pairs"]
    if faults:
        raise ConfigError(faults)
    return lines
