"""Runs of letters whose lengths must agree: a^n b^n and its relatives, as streams.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 1; the tasks 1, 2, 3, 5 and 6 of the
authors' program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from unbounded.errors import ChoiceError, ConfigError, collected
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded, whole_number
from unbounded.tasks.streams import Sequences, SequenceSource

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
        if form not in FORMS:
            raise ChoiceError("form", form, FORMS)
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
        """See `SequenceSource.draw`."""
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
        """See `SequenceSource.every`."""
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
