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
