"""Sweeps over the values of several options: a part runs each time, the rest is slow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sweep(*axes: Iterable[Any], fast: Callable[..., bool]) -> list[Any]:
    """Every combination of the axes' values; those for which `fast` is False are slow."""
    cases = list(itertools.product(*axes))
    assert any(fast(*values) for values in cases), "no case of the sweep is fast"
    return [
        pytest.param(*values, marks=() if fast(*values) else pytest.mark.slow) for values in cases
    ]


def diagonal(*axes: Iterable[Any], share: int) -> list[Any]:
    """Every combination of the axes' values; one in `share` is fast, and each value in some.

    A case is fast if the sum of its positions in the axes is a multiple of `share`.
    """
    listed = [list(axis) for axis in axes]
    cases = list(itertools.product(*(range(len(axis)) for axis in listed)))
    is_fast = {places: sum(places) % share == 0 for places in cases}
    for axis, values in enumerate(listed):
        covered = {places[axis] for places in cases if is_fast[places]}
        assert len(covered) == len(values), f"a value of axis {axis} is in no fast case"
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(listed, places, strict=True)),
            marks=() if is_fast[places] else pytest.mark.slow,
        )
        for places in cases
    ]
