"""The two grammars written again by hand, recursively: no code shared with `src`.

Word classes stand for their words: "si" for si1 ... si33.
"""

from collections import defaultdict
from fractions import Fraction
from functools import cache

import numpy as np


def _combine(parts, probability):
    """Distribution over (source, target) of a rule: `parts` are distributions, in source order.

    The target order is the source order; the one rule that inverts is written out where it is.
    """
    result = {((), ()): probability}
    for part in parts:
        longer = defaultdict(Fraction)
        for (source, target), p in result.items():
            for (more_source, more_target), q in part.items():
                longer[source + more_source, target + more_target] += p * q
        result = longer
    return result


def _word(source, target):
    return {((source,), (target,)): Fraction(1)}


def _sum(distributions):
    total = defaultdict(Fraction)
    for distribution in distributions:
        for pair, p in distribution.items():
            total[pair] += p
    return dict(total)


@cache
def svo_s(n):
    options = [_combine([svo_s(k), svo_s(n - k)], Fraction(1, 5)) for k in range(1, n)]
    options += [svo_clause(n)]
    if n == 1:
        options.append(_combine([_word("si", "so")], Fraction(3, 5)))
    return _sum(options)


@cache
def svo_clause(n):
    return _sum(
        _combine(
            [svo_s(k), _word("rpi", "rpo"), svo_s(n - 2 - k), _word("vi", "vo")], Fraction(1, 5)
        )
        for k in range(1, n - 2)
    )


@cache
def svo_o(n):
    options = [_combine([svo_o(k), svo_o(n - k)], Fraction(1, 5)) for k in range(1, n)]
    options += [svo_clause(n)]
    if n == 1:
        options.append(_combine([_word("oi", "oo")], Fraction(3, 5)))
    return _sum(options)


@cache
def svo_a(n):
    total = defaultdict(Fraction)
    for k in range(1, n - 1):
        for (s_source, s_target), p in svo_s(k).items():
            for (o_source, o_target), q in svo_o(n - 1 - k).items():
                pair = ((*s_source, "vi", *o_source), (*s_target, *o_target, "vo"))
                total[pair] += p * q
    return dict(total)


_NOUN = [
    ("the", "der", "me", "mg"),
    ("the", "die", "fe", "fg"),
    ("the", "das", "ne", "ng"),
    ("a", "ein", "me", "mg"),
    ("a", "eine", "fe", "fg"),
    ("a", "ein", "ne", "ng"),
]


def gender_s():
    return {((a, b), (c, d)): Fraction(1, 6) for a, c, b, d in _NOUN}


@cache
def gender_b(n):
    options = [
        _combine([gender_b(k), _word("or", "oder"), gender_b(n - 1 - k)], Fraction(1, 4))
        for k in range(1, n - 1)
    ]
    options += [_combine([gender_b(k), gender_v(n - k)], Fraction(1, 2)) for k in range(1, n)]
    if n == 5:
        options.append(_combine([gender_s(), _word("and", "und"), gender_s()], Fraction(1, 4)))
    return _sum(options)


@cache
def gender_v(n):
    if n == 1:
        return _combine([_word("we", "wg")], Fraction(1, 4))
    return _combine([_word("we", "wg"), gender_b(n - 1)], Fraction(3, 4))


SHORT = {"svo_sov": svo_a, "gender": gender_b}


def marked_lengths(name, longest):
    """P(length n and j marks) for n, j <= longest, float64: relative clauses, or "or"s.

    By power series in z (length) and w (marks): S = S S/5 + w z^2 S S/5 + 3z/5 and so on, solved by
    repeated substitution, each of which makes at least one more coefficient exact.
    """
    size = longest + 1

    def times(x, y):
        rows, columns = (2 * size - 1,) * 2
        return np.fft.irfft2(
            np.fft.rfft2(x, (rows, columns)) * np.fft.rfft2(y, (rows, columns)), (rows, columns)
        )[:size, :size]

    def shift(x, z, w):
        moved = np.zeros_like(x)
        moved[z:, w:] = x[: size - z, : size - w]
        return moved

    one = np.zeros((size, size))
    one[0, 0] = 1.0
    z = shift(one, 1, 0)
    if name == "svo_sov":
        s = o = np.zeros((size, size))
        for _ in range(3 * size):
            square = times(s, s) / 5
            s, o = (
                square + shift(square, 2, 1) + 0.6 * z,
                times(o, o) / 5 + shift(square, 2, 1) + 0.6 * z,
            )
        return shift(times(s, o), 1, 0)
    b = np.zeros((size, size))
    for _ in range(3 * size):
        v = 0.75 * shift(b, 1, 0) + 0.25 * z
        b = shift(times(b, b), 1, 1) / 4 + shift(one, 5, 0) / 4 + times(b, v) / 2
    return b
