"""Binary addition as a stream: 1 0 1 + 1 = 0 1 1 . with the sum's lowest digit first.

Source: Joulin & Mikolov 2015, section 5.2; the authors' program for addition.
"""

from __future__ import annotations

import numpy as np

from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded
from unbounded.tasks.streams import Sequences, SequenceSource

PLUS, EQUALS, POINT, ZERO = 0, 1, 2, 3


class BinaryAddition(SequenceSource):
    """Two binary numbers, highest digit first; then their sum, lowest digit first, and a full stop.

    n is the number of digits of both numbers together. The number of digits of the first number is
    uniform in 0..n. A number without digits is written as 0. All other numbers start with 1.
    Everything after "=" is determined, except the next sequence. (The authors' program also draws n
    = 0, which is the sum 0+0=0.)
    """

    alphabet = ("+", "=", ".", "0", "1")
    shortest = 1
    starts_alike = False

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Sequences:
        """See `SequenceSource.draw`."""
        indices = start + np.arange(size)
        length_words, words = stream.sequence_words(indices, lengths.maximum)
        total = lengths.minimum + bounded(length_words, len(lengths))
        share = bounded(stream.words(indices, np.zeros(1, dtype=np.int64))[1], total + 1)
        digits = bounded(words, 2)
        return _of_digits(digits, share, total)

    def count_of(self, n: int) -> int:
        """See `SequenceSource.count_of`.

        The result counts every pair of numbers with n digits together.
        """
        # There are 2^(k-1) numbers of k digits; a number without digits is written 0.
        return 0 if n < 1 else 2**n + (n - 1) * 2**n // 4

    def every(self, n: int) -> Sequences:
        """See `SequenceSource.every`."""
        digits, shares = [], []
        for share in range(n + 1):
            free = max(share - 1, 0), max(n - share - 1, 0)
            number = np.arange(2 ** sum(free))[:, None]
            bits = number >> np.arange(sum(free)) & 1
            # The highest digit of a number is 1.
            ones = np.ones((len(bits), 1), dtype=np.int64)
            first = np.concatenate([ones, bits[:, : free[0]]], axis=1)[:, :share]
            second = np.concatenate([ones, bits[:, free[0] :]], axis=1)[:, : n - share]
            digits.append(np.concatenate([first, second], axis=1))
            shares.append(np.full(len(bits), share))
        every = np.concatenate(shares)
        return _of_digits(np.concatenate(digits), every, np.full(len(every), n))


def _of_digits(digits: Integers, share: Integers, total: Integers) -> Sequences:
    """Sums of two numbers: the first `share` of `total` digits, and the other digits."""
    longest = int(total.max())
    first = _lowest_first(digits, np.zeros_like(share), share, longest)
    second = _lowest_first(digits, share, total - share, longest)
    answer, answer_length = _sum(first, second)
    lengths_of = (np.maximum(share, 1), np.maximum(total - share, 1), answer_length)
    return _lay_out(
        (first, second, answer), (lengths_of[0], lengths_of[1], lengths_of[2]), len(share)
    )


def _lowest_first(digits: Integers, offset: Integers, length: Integers, width: int) -> Integers:
    """The number in the `length` digits from `offset` on, lowest digit first, [K, width]."""
    place = np.arange(width)
    source = (offset + length - 1)[:, None] - place
    number = np.take_along_axis(digits, np.clip(source, 0, digits.shape[1] - 1), axis=1)
    number[place == (length - 1)[:, None]] = 1
    number[place >= length[:, None]] = 0
    return number


def _sum(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """The sum's digits, lowest first, [K, W + 1], and how many remain without leading zeros."""
    result = np.zeros((len(first), first.shape[1] + 1), dtype=np.int64)
    carry = np.zeros(len(first), dtype=np.int64)
    for place in range(first.shape[1]):
        total = first[:, place] + second[:, place] + carry
        result[:, place], carry = total & 1, total >> 1
    result[:, -1] = carry
    highest = result.shape[1] - np.argmax(result[:, ::-1], axis=1)
    return result, np.where(result.any(axis=1), highest, 1)


def _lay_out(
    numbers: tuple[Integers, Integers, Integers],
    lengths: tuple[Integers, Integers, Integers],
    size: int,
) -> Sequences:
    """Build "first + second = answer ." with operands that have the highest digit first."""
    first, second, answer = (length[:, None] for length in lengths)
    source_length = first + second + 2
    total = source_length + answer + 1
    place = np.broadcast_to(np.arange(total.max()), (size, int(total.max())))
    symbols = np.full(place.shape, POINT)
    symbols[place == first] = PLUS
    symbols[place == source_length - 1] = EQUALS
    for number, where, source in (
        (numbers[0], place < first, first - 1 - place),
        (numbers[1], (place > first) & (place < source_length - 1), source_length - 2 - place),
        (numbers[2], (place >= source_length) & (place < total - 1), place - source_length),
    ):
        picked = np.take_along_axis(number, np.clip(source, 0, number.shape[1] - 1), axis=1)
        symbols[where] = ZERO + picked[where]
    return Sequences(symbols, total[:, 0], source_length[:, 0])
