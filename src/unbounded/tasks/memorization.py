"""Memorization as a stream: some symbols, "=", the same symbols reversed.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 1; task 4 of the authors' program.
"""

from __future__ import annotations

import numpy as np

from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded, whole_number
from unbounded.tasks.streams import Sequences, SequenceSource

SEPARATOR = "="


class Memorization(SequenceSource):
    """Sequences such as 1 2 2 = 2 2 1: n symbols drawn uniformly, then their reversal.

    Everything after "=" is determined, except the first symbol of the next sequence.

    Args:
        symbols: size of the dictionary, at least 1; the paper has two.

    Raises:
        ConfigError: `symbols` is not an integer, or is out of range.
    """

    shortest = 1
    starts_alike = False

    def __init__(self, symbols: int = 2) -> None:
        self.symbols = whole_number("symbols", symbols, 1, 2**20)
        self.alphabet = (SEPARATOR, *(str(number) for number in range(1, self.symbols + 1)))

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Sequences:
        """See `SequenceSource.draw`. A sequence has the same symbols in every range."""
        length_words, words = stream.sequence_words(start + np.arange(size), lengths.maximum)
        n = lengths.minimum + bounded(length_words, len(lengths))
        drawn = 1 + bounded(words, self.symbols)
        return _mirrored(drawn, n)

    def count_of(self, n: int) -> int:
        """See `SequenceSource.count_of`. The result counts every string of n symbols."""
        return int(self.symbols**n) if n >= self.shortest else 0

    def every(self, n: int) -> Sequences:
        """See `SequenceSource.every`."""
        number = np.arange(self.count_of(n))[:, None]
        drawn = 1 + number // self.symbols ** np.arange(n) % self.symbols
        return _mirrored(drawn, np.full(len(drawn), n))


def _mirrored(drawn: Integers, n: Integers) -> Sequences:
    """The first n [K] symbols of rows [K, L], the separator, and the same symbols reversed."""
    place = np.arange(2 * n.max() + 1)
    # The distance from "=" determines the symbol, both before and after "=".
    from_separator = np.abs(place - n[:, None])
    source = np.clip(n[:, None] - from_separator, 0, drawn.shape[1] - 1)
    symbols = np.take_along_axis(drawn, source, axis=1)
    symbols[from_separator == 0] = 0
    return Sequences(symbols, 2 * n + 1, n + 1)
