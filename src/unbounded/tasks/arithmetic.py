"""Doubling and adding decimal numbers, as pairs of digits, with the lowest digit first.

Source: Yang 2016, arXiv:1602.08671; Yang & Rush 2017, arXiv:1611.02854.
"""

from __future__ import annotations

import numpy as np

from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.transduction import Pairs, PairSource

DIGITS = tuple("0123456789")


class Doubled(PairSource):
    """A number of k digits, uniform in 0 .. 10^k - 1, and twice that in k + 1 digits.

    Both numbers are zero-padded and written lowest digit first, as in both papers. (The second
    paper's program writes the highest digit first.)
    """

    source_vocabulary = target_vocabulary = DIGITS

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`. The length of a pair is k."""
        digits, count = _digits(stream, start, size, lengths, 1)
        return Pairs(digits, count, carried(2 * digits), count + 1)

    def count_of(self, length: int, symbols: int) -> int:
        """See `PairSource.count_of`.

        The result counts every number whose digits are below `symbols`.
        """
        return int(min(symbols, 10) ** length) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Pairs:
        """See `PairSource.every`."""
        digits = all_strings(min(symbols, 10), length)
        count = np.full(len(digits), length)
        return Pairs(digits, count, carried(2 * digits), count + 1)


class Added(PairSource):
    """Two numbers of k digits, each uniform in 0 .. 10^k - 1, and their sum in k + 1 digits.

    The source alternates their digits, x_1 y_1 x_2 y_2 ..., the lowest first. The sum is
    zero-padded and starts with its lowest digit.
    """

    source_vocabulary = target_vocabulary = DIGITS

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`. The length of a pair is k; the source has 2k digits."""
        digits, count = _digits(stream, start, size, lengths, 2)
        sums = digits[:, 0::2] + digits[:, 1::2]
        return Pairs(digits, 2 * count, carried(sums), count + 1)

    def count_of(self, length: int, symbols: int) -> int:
        """See `PairSource.count_of`.

        All pairs of numbers whose digits are below `symbols` are counted.
        """
        return int(min(symbols, 10) ** (2 * length)) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Pairs:
        """See `PairSource.every`."""
        digits = all_strings(min(symbols, 10), 2 * length)
        count = np.full(len(digits), length)
        sums = digits[:, 0::2] + digits[:, 1::2]
        return Pairs(digits, 2 * count, carried(sums), count + 1)


def _digits(
    stream: Stream, start: int, size: int, lengths: LengthRange, numbers: int
) -> tuple[Integers, Integers]:
    """Random digits [B, numbers K], with 0 beyond `numbers` times k in each row, and k [B]."""
    indices = start + np.arange(size)
    length_words, words = stream.sequence_words(indices, numbers * lengths.maximum)
    count = lengths.minimum + bounded(length_words, len(lengths))
    width = numbers * int(count.max())
    digits = bounded(words[:, :width], 10)
    return np.where(np.arange(width) < numbers * count[:, None], digits, 0), count


def carried(sums: Integers) -> Integers:
    """Carry the tens to the next place: digits [B, K + 1] of sums [B, K], 0..19."""
    digits = np.zeros((len(sums), sums.shape[1] + 1), dtype=np.int64)
    carry = np.zeros(len(sums), dtype=np.int64)
    for place in range(sums.shape[1]):
        total = sums[:, place] + carry
        digits[:, place], carry = total % 10, total // 10
    digits[:, -1] = carry
    return digits
