"""Pairs of the user's own: a file with a source, a tab and its target in each line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import numpy as np

from unbounded.errors import ConfigError
from unbounded.tasks.data_file import read_lines
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded
from unbounded.tasks.transduction import END, SEPARATOR, START, Pairs, PairSource

#: Of 20 lines so many are held out for each of these splits, by the line's hash.
HELD_OUT: Final = {"test": 2, "validation": 2}
_SHARES = 20
_ADVICE: Final = "Give a file with a source, a tab and its target in each line (--data FILE)"
_MARKS: Final = (START, SEPARATOR, END)

Line = tuple[tuple[str, ...], tuple[str, ...]]


class FilePairs(PairSource):
    """The lines of a file. Which split a line is in depends on the line alone, not on its place.

    A training example is a line drawn uniformly; example i of the other splits is their line i, and
    after the last one the first comes again (`available` says how many there are).

    Args:
        path: of the file; symbols are the words of each side, or with `characters` its characters.
            White space parts words, also what Unicode counts as such (NBSP, U+2028).
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
        if self.lengths.maximum == 1 and any(len(source[0]) > 1 for source, _ in lines):
            self.notes = (
                f"each source of {path} is one word, and so one symbol; --task_options.characters "
                "true reads each character as a symbol",
            )

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
        return table.pairs(chosen)

    def available(self, split: str, lengths: LengthRange) -> int | None:
        """See `PairSource.available`."""
        return len(self._splits[split].within(lengths))


class _Ragged:
    """Rows of symbols of their own lengths, without padding.

    Fields:
        symbols: of all rows, one behind the other, int32 [S].
        sizes: of each row, int64 [B].
    """

    def __init__(self, rows: list[tuple[str, ...]], vocabulary: tuple[str, ...]) -> None:
        places = {word: place for place, word in enumerate(vocabulary)}
        self.sizes = np.array([len(row) for row in rows], dtype=np.int64)
        count = int(self.sizes.sum())
        self.symbols = np.fromiter((places[word] for row in rows for word in row), np.int32, count)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    def padded(self, rows: Integers) -> Integers:
        """These rows as an array, int64 [R, K], K at least 1; 0 beyond each row's length."""
        sizes = self.sizes[rows]
        table = np.zeros((len(rows), max(1, int(sizes.max()))), dtype=np.int64)
        own, places = np.nonzero(np.arange(table.shape[1]) < sizes[:, None])
        table[own, places] = self.symbols[self._starts[rows][own] + places]
        return table


class _Table:
    """The lines of a split as arrays."""

    def __init__(self, lines: list[Line], source: FilePairs) -> None:
        self._source = _Ragged([line[0] for line in lines], source.source_vocabulary)
        self._target = _Ragged([line[1] for line in lines], source.target_vocabulary)

    def pairs(self, rows: Integers) -> Pairs:
        """These lines, padded to the longest of them."""
        return Pairs(
            self._source.padded(rows),
            self._source.sizes[rows],
            self._target.padded(rows),
            self._target.sizes[rows],
        )

    def within(self, lengths: LengthRange) -> Integers:
        """Which lines have a source of such a length."""
        sizes = self._source.sizes
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
    def sides_of(text: str) -> list[tuple[str, ...]]:
        return [tuple(side) if characters else tuple(side.split()) for side in text.split("\t")]

    def check(text: str) -> str | None:
        if not text.strip():
            return None  # at the end; another has no tab
        sides = sides_of(text)
        if len(sides) != 2:
            return f"expected a source, one tab and a target, got {len(sides) - 1} tabs"
        mark = next((each for each in _MARKS if each in sides[0] or each in sides[1]), None)
        if mark is not None:
            return (
                f"{mark} is a mark of the task (<s> stands before a source, ||| behind it, </s> "
                "behind a target); write another symbol"
            )
        return None if sides[0] else "the source is empty"

    texts = read_lines(path, _ADVICE, check)
    while not texts[-1].strip():
        texts.pop()
    blank = [number for number, text in enumerate(texts, start=1) if not text.strip()]
    if blank:
        raise ConfigError([f"{path}, line {blank[0]}: blank; blank lines stand at the end alone"])
    return [(source, target) for source, target in map(sides_of, texts)]
