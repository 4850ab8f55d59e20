"""Uniform Dyck words and uniform balanced words that are none; counts of both.

A word of semi-length n has n steps up (u, 0) and n steps down (d, 1). It is a Dyck word if its path
never goes below height 0; all others are balanced but no Dyck words.

Source: the cycle lemma (Dvoretzky & Motzkin 1947) and the reflection principle (Andre 1887), as in
the program of Deleu & Dureau 2016, arXiv:1612.00827.
"""

from __future__ import annotations

from math import comb

import numpy as np

from unbounded.tasks.randomness import Integers, Words

UP, DOWN = 0, 1
_LAST = np.uint64(2**64 - 1)


def dyck_count(semi_length: int) -> int:
    """Number of Dyck words with n steps up: the Catalan number C(2n, n) / (n + 1)."""
    return comb(2 * semi_length, semi_length) // (semi_length + 1)


def other_count(semi_length: int) -> int:
    """Number of balanced words with n steps up that are no Dyck words: C(2n, n - 1)."""
    return comb(2 * semi_length, semi_length - 1)


def dyck_paths(words: Words, semi_lengths: Integers) -> Integers:
    """Uniform Dyck words: n ups and n + 1 downs in random order, cut at their first lowest point.

    Exactly one of the 2n + 1 rotations of such an order is a Dyck word and a step down (the cycle
    lemma), and every Dyck word belongs to as many orders.

    Args:
        words: random words, uint64 [B, at least 2 N + 1]; a row depends on its first 2n + 1 alone.
        semi_lengths: n of each row, int64 [B], in 1..N.
    Returns:
        steps 0 (up) or 1 (down), int64 [B, 2 N]; 0 beyond 2n.
    """
    steps, width = _ordered(words, semi_lengths, semi_lengths), 2 * int(semi_lengths.max())
    size = 2 * semi_lengths + 1
    heights = np.cumsum(1 - 2 * steps, axis=1)
    beyond = np.arange(steps.shape[1]) >= size[:, None]
    lowest = np.where(beyond, np.iinfo(np.int64).max, heights).argmin(axis=1)
    rotated = (lowest[:, None] + 1 + np.arange(width)) % size[:, None]
    path = np.take_along_axis(steps, rotated, axis=1)
    return _cut(path, semi_lengths)


def other_paths(words: Words, semi_lengths: Integers) -> Integers:
    """Uniform balanced words that are no Dyck words: all steps after the first below 0 are flipped.

    Orders of n - 1 ups and n + 1 downs reach height -1. Flipping every later step is a bijection to
    the balanced words whose path goes below 0 (the reflection principle).

    Args:
        words: random words, uint64 [B, at least 2 N]; a row depends on its first 2n alone.
        semi_lengths: n of each row, int64 [B], in 1..N.
    Returns:
        steps 0 (up) or 1 (down), int64 [B, 2 N]; 0 beyond 2n.
    """
    steps = _ordered(words, semi_lengths - 1, semi_lengths)[:, : 2 * int(semi_lengths.max())]
    below = (np.cumsum(1 - 2 * steps, axis=1) < 0).argmax(axis=1)
    is_after = np.arange(steps.shape[1]) > below[:, None]
    return _cut(np.where(is_after, 1 - steps, steps), semi_lengths)


def _ordered(words: Words, ups: Integers, semi_lengths: Integers) -> Integers:
    """A uniform order of `ups` steps up and n + 1 down, int64 [B, 2 N + 1]; then 1."""
    size = ups + semi_lengths + 1
    width = 2 * int(semi_lengths.max()) + 1
    drawn = np.where(np.arange(width) < size[:, None], words[:, :width], _LAST)
    # The places of the smallest words are a uniform subset: ties have probability below 2**-44.
    order = np.argsort(drawn, axis=1, kind="stable")
    steps = np.full(drawn.shape, DOWN, dtype=np.int64)
    rows, ranks = np.nonzero(np.arange(width) < ups[:, None])
    steps[rows, order[rows, ranks]] = UP
    return steps


def _cut(path: Integers, semi_lengths: Integers) -> Integers:
    return np.where(np.arange(path.shape[1]) < 2 * semi_lengths[:, None], path, UP)
