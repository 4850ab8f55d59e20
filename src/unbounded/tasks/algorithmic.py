"""The stream tasks of Joulin & Mikolov: counting, memorization and binary addition.

Counting has runs of letters whose lengths must agree, such as a^n b^n. Memorization has some
symbols, "=", and the same symbols reversed. Addition is 1 0 1 + 1 = 0 1 1 . with the sum's lowest
digit first.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 1 and section 5.2; the tasks 1 to 6 of the
authors' program, and its program for addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from unbounded.checks import check_choice
from unbounded.errors import ConfigError, collected
from unbounded.tasks.lengths import LengthRange, Lengths, named_ranges
from unbounded.tasks.randomness import Integers, Stream, bounded, whole_number
from unbounded.tasks.streams import Sequences, SequenceSource, StreamTask

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Form(NamedTuple):
    """A kind of sequence.

    Fields:
        free: number of first runs with drawn lengths; the rest, after the first letter of the next
            run, is determined.
        letters: least and most letters of the alphabet.
        chosen: the run whose letter is drawn from its own and later letters; None for none.
        runs: lengths of the runs, from n, m, letters and repeats.
    """

    free: int
    letters: tuple[int, int]
    chosen: int | None
    runs: Callable[[Integers, Integers, int, int], list[Integers]]


FORMS: Final[dict[str, Form]] = {
    "equal": Form(1, (2, 26), None, lambda n, m, letters, repeats: [n] * letters),
    "repeated": Form(1, (2, 26), 1, lambda n, m, letters, repeats: [n, repeats * n]),
    "sum": Form(2, (3, 3), None, lambda n, m, letters, repeats: [n, m, n + m]),
    "product": Form(2, (3, 26), 2, lambda n, m, letters, repeats: [n, m, n * m]),
    "crossed": Form(2, (4, 4), None, lambda n, m, letters, repeats: [n, m, n, m]),
}


class Counting(SequenceSource):
    """Sequences of runs of letters.

    | form | sequence | n of a length range |
    |---|---|---|
    | equal | a^n b^n, a^n b^n c^n, ... over `letters` letters | n |
    | repeated | a^n, then `repeats` n times one of the other letters | n |
    | sum | a^n b^m c^(n+m) | n + m |
    | product | a^n b^m, then n m times one of the letters from c on | n + m |
    | crossed | a^n b^m c^n d^m | n + m |

    In forms with two lengths, their sum is drawn first, and m is uniform in 1..sum - 1. The
    determined symbols start after the first letter of the second run, because that letter may come
    at any time.

    Args:
        form: one of `FORMS`.
        letters: size of the alphabet.
        repeats: for the form "repeated".

    Raises:
        ChoiceError: there is no such form.
        ConfigError: `letters` or `repeats` is not an integer, or is out of range; both together.
    """

    starts_alike = True

    def __init__(self, form: str, letters: int, repeats: int = 1) -> None:
        check_choice("form", form, FORMS)
        errors: list[str] = []
        for name, value, (least, most) in (
            ("letters", letters, FORMS[form].letters),
            ("repeats", repeats, (1, 1000)),
        ):
            with collected(errors):
                whole_number(name, value, least, most)
        if errors:
            raise ConfigError(errors)
        self.form, self.repeats = form, repeats
        self.alphabet = tuple(LETTERS[:letters])
        self.shortest = FORMS[form].free

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Sequences:
        form = FORMS[self.form]
        indices = start + np.arange(size)
        first, second = stream.words(indices, np.zeros(1, dtype=np.int64))
        n: Integers = lengths.minimum + bounded(first, len(lengths))
        m = np.zeros_like(n)
        if form.free == 2:
            m = 1 + bounded(second, n - 1)
            n = n - m
        letter = np.zeros_like(n)
        if form.chosen is not None:
            words = stream.words(indices, np.ones(1, dtype=np.int64))[0]
            letter = bounded(words, len(self.alphabet) - form.chosen)
        return self._of_runs(n, m, letter)

    def count_of(self, n: int) -> int:
        """See `SequenceSource.count_of`.

        The result is the product of the choices of lengths and of a letter.
        """
        form = FORMS[self.form]
        return max(0, n - 1 if form.free == 2 else int(n > 0)) * self._choices

    def every(self, n: int) -> Sequences:
        if FORMS[self.form].free == 2:
            second = np.arange(1, n)
            first = n - second
        else:
            first, second = np.full(1, n), np.zeros(1, dtype=np.int64)
        letters = np.tile(np.arange(self._choices), len(first))
        first, second = (np.repeat(runs, self._choices) for runs in (first, second))
        return self._of_runs(first, second, letters)

    @property
    def _choices(self) -> int:
        """Number of letters that the run with a drawn letter may have."""
        chosen = FORMS[self.form].chosen
        return 1 if chosen is None else len(self.alphabet) - chosen

    def _of_runs(self, n: Integers, m: Integers, letter: Integers) -> Sequences:
        """Build K sequences from their n, m and indices of letters, each [K]."""
        form = FORMS[self.form]
        runs = np.stack(form.runs(n, m, len(self.alphabet), self.repeats), axis=1)
        ends = np.cumsum(runs, axis=1)
        place = np.arange(ends[:, -1].max())
        # The index of the run at a place is the number of runs that ended before this place.
        symbols = (place[None, :, None] >= ends[:, None, :-1]).sum(axis=2)
        if form.chosen is not None:
            symbols += np.where(symbols == form.chosen, letter[:, None], 0)
        return Sequences(symbols, ends[:, -1], ends[:, form.free - 1] + 1)


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


#: Ranges of n: below 20 for training, up to 60 for the test. The authors' program never draws 1.
TRAIN: Final = "2:19"
TEST: Final = "2:60"
#: Number of sequences in a stream. With 32 streams an epoch has about the authors' 2000 sequences.
SEQUENCES: Final = 60


def _streams(
    name: str,
    make: Callable[[], SequenceSource],
    sequences: int,
    train_lengths: Lengths,
    test_lengths: Lengths,
    loss: str = "all",
) -> StreamTask:
    """Build a stream task from its parts; collect all errors."""
    errors: list[str] = []
    with collected(errors):
        source = make()
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return StreamTask(name, source, sequences, train, test, loss)


def anbn(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count: sequences a^n b^n, one after the other.

    Args:
        sequences: number of sequences in a stream.
        train_lengths: n of the split "train".
        test_lengths: n of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 1.
    """
    return _streams("anbn", lambda: Counting("equal", 2), sequences, train_lengths, test_lengths)


def anbncn(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count twice: a^n b^n c^n.

    Args, errors and source as for `anbn`.
    """
    return _streams("anbncn", lambda: Counting("equal", 3), sequences, train_lengths, test_lengths)


def anbncndn(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count three times: a^n b^n c^n d^n.

    Args, errors and source as for `anbn`.
    """
    return _streams(
        "anbncndn", lambda: Counting("equal", 4), sequences, train_lengths, test_lengths
    )


def anb2n(
    letters: int = 2,
    repeats: int = 2,
    sequences: int = SEQUENCES,
    train_lengths: Lengths = TRAIN,
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Count in steps: a^n b^(2n).

    Args:
        letters: size of the alphabet; the second run is of one of the letters after a.
        repeats: ratio of the runs' lengths; 3 gives a^n b^(3n).

    Everything else is as for `anbn`.
    """
    return _streams(
        "anb2n",
        lambda: Counting("repeated", letters, repeats),
        sequences,
        train_lengths,
        test_lengths,
    )


def anbmc_sum(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Add in unary: a^n b^m c^(n+m); lengths are n + m.

    Args, errors and source as for `anbn`.
    """
    return _streams("anbmc_sum", lambda: Counting("sum", 3), sequences, train_lengths, test_lengths)


def anbmc_product(
    letters: int = 3,
    sequences: int = SEQUENCES,
    train_lengths: Lengths = TRAIN,
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Multiply in unary: a^n b^m c^(n m); lengths are n + m.

    Args:
        letters: size of the alphabet; the last run is of one of the letters after b.

    Everything else is as for `anbn`. This task is not in the paper, but is task 5 of the authors'
    program. The program scores only sequences whose last run has the last letter; here all
    sequences are scored.
    """
    return _streams(
        "anbmc_product",
        lambda: Counting("product", letters),
        sequences,
        train_lengths,
        test_lengths,
    )


def anbmcndm(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count two crossed: a^n b^m c^n d^m; lengths are n + m.

    Args and errors as for `anbn`. The task is not in the paper, but is task 6 of the authors'
    program.
    """
    return _streams(
        "anbmcndm", lambda: Counting("crossed", 4), sequences, train_lengths, test_lengths
    )


def memorization(
    symbols: int = 2,
    sequences: int = SEQUENCES,
    train_lengths: Lengths = TRAIN,
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Reverse: n symbols, "=", the symbols from the last to the first.

    Args:
        symbols: size of the dictionary.

    Everything else is as for `anbn`.
    """
    return _streams(
        "memorization", lambda: Memorization(symbols), sequences, train_lengths, test_lengths
    )


def binary_addition(
    loss: str = "answer",
    sequences: int = 10,
    train_lengths: Lengths = "1:19",
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Add in binary: 101+1=011. with the sum's lowest digit first; lengths are digits in all.

    Args:
        loss: "answer" (as the authors) counts the steps after "=", "all" every step.
        sequences: number of sequences in a stream; the authors empty the stacks after every 10.

    Everything else is as for `anbn`. Source: Joulin & Mikolov 2015, section 5.2.
    """
    return _streams("binary_addition", BinaryAddition, sequences, train_lengths, test_lengths, loss)
