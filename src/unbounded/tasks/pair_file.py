"""Pairs from a user's file: each line has a source, a tab and its target."""

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

#: Number of lines out of 20 that are held out for each of these splits, by the line's hash.
HELD_OUT: Final = {"test": 2, "validation": 2}
_SHARES = 20
_ADVICE: Final = "Give a file with a source, a tab and its target in each line (--data FILE)"
_MARKS: Final = (START, SEPARATOR, END)

Line = tuple[tuple[str, ...], tuple[str, ...]]


class FilePairs(PairSource):
    """The lines of a file. A line's split depends only on the text of the line, not on its place.

    A training example is a line drawn uniformly. Example i of another split is line i of that
    split. After the last line, the lines start again from the first. `available` returns their
    number.

    Args:
        path: the file. Symbols are the words of each side, or with `characters` its characters.
            White space separates words, Unicode's too (NBSP, U+2028).
        characters: whether each character is a symbol; blanks are then symbols too.

    Raises:
        ConfigError: the file cannot be read, a line is not a pair, or a split has no line; all
            errors together, by line.
    """

    def __init__(self, path: str | Path, characters: bool = False) -> None:
        self.path = Path(path)
        lines = _read(self.path, characters)
        #: SHA-256 of the parsed lines, in order.
        self.data_digest = hashlib.sha256(repr(lines).encode()).hexdigest()
        splits: dict[str, list[Line]] = {"train": [], **{name: [] for name in HELD_OUT}}
        for line in lines:
            splits[_split_of(line)].append(line)
        empty = [name for name, split_lines in splits.items() if not split_lines]
        if empty:
            raise ConfigError(
                f"{path}: {len(lines)} lines leave no line for {' and '.join(empty)}: of "
                f"{_SHARES} lines about {HELD_OUT['test']} are held out for each of "
                f"{' and '.join(HELD_OUT)}, and equal lines stay together; give more lines"
            )
        # Symbols that only held-out lines have are in the vocabulary too, but are never learned.
        self.source_vocabulary = tuple(sorted({word for source, _ in lines for word in source}))
        self.target_vocabulary = tuple(sorted({word for _, target in lines for word in target}))
        self._splits = {name: _Table(split_lines, self) for name, split_lines in splits.items()}
        sizes = [len(source) for source, _ in lines]
        #: The lengths of the source sequences.
        self.lengths = LengthRange(min(sizes), max(sizes))
        if self.lengths.maximum == 1 and any(len(source[0]) > 1 for source, _ in lines):
            self.notes = (
                f"each source of {path} is one word, and so one symbol; --task.characters "
                "true reads each character as a symbol",
            )

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        table = self._splits[stream.split]
        rows = table.within(lengths)
        if not len(rows):
            raise ConfigError(
                f"lengths: {self.path} has no line for {stream.split} with a source of length "
                f"{lengths}"
            )
        indices = start + np.arange(size)
        if stream.split == "train":
            chosen = rows[bounded(stream.length_words(indices), len(rows))]
        else:
            chosen = rows[indices % len(rows)]
        return table.pairs(chosen)

    def available(self, split: str, lengths: LengthRange) -> int | None:
        return len(self._splits[split].within(lengths))


class _Ragged:
    """Rows of symbols of different lengths, without padding.

    Fields:
        symbols: of all rows, concatenated, int32 [S].
        sizes: of each row, int64 [B].
    """

    def __init__(self, rows: list[tuple[str, ...]], vocabulary: tuple[str, ...]) -> None:
        places = {word: place for place, word in enumerate(vocabulary)}
        self.sizes = np.array([len(row) for row in rows], dtype=np.int64)
        count = int(self.sizes.sum())
        self.symbols = np.fromiter((places[word] for row in rows for word in row), np.int32, count)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    def padded(self, rows: Integers) -> Integers:
        """Return rows as an array, int64 [R, K], with K at least 1 and 0 beyond a row's length."""
        sizes = self.sizes[rows]
        table = np.zeros((len(rows), max(1, int(sizes.max()))), dtype=np.int64)
        targets_row, places = np.nonzero(np.arange(table.shape[1]) < sizes[:, None])
        table[targets_row, places] = self.symbols[self._starts[rows][targets_row] + places]
        return table


class _Table:
    """The lines of a split as arrays."""

    def __init__(self, lines: list[Line], source: FilePairs) -> None:
        self._source = _Ragged([line[0] for line in lines], source.source_vocabulary)
        self._target = _Ragged([line[1] for line in lines], source.target_vocabulary)

    def pairs(self, rows: Integers) -> Pairs:
        """Return lines as pairs, padded to the longest line."""
        return Pairs(
            self._source.padded(rows),
            self._source.sizes[rows],
            self._target.padded(rows),
            self._target.sizes[rows],
        )

    def within(self, lengths: LengthRange) -> Integers:
        """The lines with a source length in the range."""
        sizes = self._source.sizes
        return np.flatnonzero((sizes >= lengths.minimum) & (sizes <= lengths.maximum))


def _split_of(line: Line) -> str:
    """The split of a line."""
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
            return None  # a blank line at the end; others are errors below
        sides = sides_of(text)
        if len(sides) != 2:
            return f"expected a source, one tab and a target, got {len(sides) - 1} tabs"
        mark = next((symbol for symbol in _MARKS if symbol in sides[0] or symbol in sides[1]), None)
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
        raise ConfigError(
            f"{path}, line {blank[0]}: blank; only the end of the file may have blank lines"
        )
    return [(source, target) for source, target in map(sides_of, texts)]
