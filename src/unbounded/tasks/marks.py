"""Repeated copies and priority sort, with unary numbers in the source (a mark for each unit).

Source: Yang & Rush 2017, arXiv:1611.02854, and their program (which uses the start symbol as the
mark; here the mark is a symbol of its own).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Stream, bounded, whole_number
from unbounded.tasks.transduction import Pairs, PairSource

MARK: Final = "mark"
#: Limits for the number of copies and of items to sort. A source of k items has k (k + 1) / 2
#: symbols.
MOST_COPIES: Final = 10_000
MOST_ITEMS: Final = 1000


class RepeatedSymbols(PairSource):
    """N marks, then independent uniform symbols. The target repeats the symbols N times.

    Args:
        symbols: number of symbols, at least 1; they are named s0, s1, ...
        said: symbols of a sequence, at least 1.
    Raises:
        ConfigError: a number is not an integer, or is out of range.
    """

    def __init__(self, symbols: int = 128, said: int = 20) -> None:
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.said = whole_number("said", said, 1, 100_000)
        self.target_vocabulary = tuple(f"s{number}" for number in range(self.symbols))
        self.source_vocabulary = (*self.target_vocabulary, MARK)

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`. The length of a pair is N."""
        indices = start + np.arange(size)
        length_words, words = stream.sequence_words(indices, self.said)
        times = lengths.minimum + bounded(length_words, len(lengths))
        symbols = bounded(words, self.symbols)
        most = int(times.max())
        source = np.full((size, most + self.said), self.symbols)
        place = times[:, None] + np.arange(self.said)
        np.put_along_axis(source, place, symbols, axis=1)
        return Pairs(source, times + self.said, np.tile(symbols, (1, most)), times * self.said)

    def range_errors(self, lengths: LengthRange) -> list[str]:
        """See `PairSource.range_errors`."""
        return most_error(lengths, MOST_COPIES, "copies")


class PrioritySort(PairSource):
    """k items in random order, each as p marks (its priority p) and a symbol. The target is sorted.

    The priorities are 0 to k - 1, each once. The target starts with the symbol of the item without
    a mark. Symbols are drawn independently and uniformly.

    Args:
        symbols: number of symbols, at least 1; they are named s0, s1, ...
    Raises:
        ConfigError: `symbols` is not an integer, or is out of range.
    """

    def __init__(self, symbols: int = 128) -> None:
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.target_vocabulary = tuple(f"s{number}" for number in range(self.symbols))
        self.source_vocabulary = (*self.target_vocabulary, MARK)

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`.

        The length of a pair is k; its source has k (k + 1) / 2 symbols.
        """
        indices = start + np.arange(size)
        # The symbol and the place of an item have their own random words, which do not depend on
        # the greatest k.
        length_words, words = stream.sequence_words(indices, 2 * lengths.maximum)
        count = lengths.minimum + bounded(length_words, len(lengths))
        width = int(count.max())
        target = bounded(words[:, 0 : 2 * width : 2], self.symbols)
        is_item = np.arange(width) < count[:, None]
        order = np.where(is_item, words[:, 1 : 2 * width : 2], np.uint64(2**64 - 1))
        # shown[b, place]: the priority of the item at that place.
        shown = np.argsort(order, axis=1, kind="stable")
        ends = np.cumsum(np.where(is_item, shown + 1, 0), axis=1)
        source = np.full((size, int(ends[:, -1].max())), self.symbols)
        symbols = np.take_along_axis(target, shown, axis=1)
        rows, places = np.nonzero(is_item)
        source[rows, ends[rows, places] - 1] = symbols[rows, places]
        return Pairs(source, ends[:, -1], target, count)

    def range_errors(self, lengths: LengthRange) -> list[str]:
        """See `PairSource.range_errors`."""
        return most_error(lengths, MOST_ITEMS, "items")


def most_error(lengths: LengthRange, most: int, what: str) -> list[str]:
    """The error of a range that exceeds `most`, as a list of at most one line."""
    if lengths.maximum <= most:
        return []
    return [f"length range: expected k of at most {most} {what}, got {lengths}"]
