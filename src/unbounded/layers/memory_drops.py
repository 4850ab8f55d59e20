"""Warnings about memories that drop cells of sequences longer than their capacity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from unbounded.checks import is_traced
from unbounded.errors import RoomWarning, say_once
from unbounded.memories import Memory, SuperpositionMemory

_DROPS_ARE_MEANT: ContextVar[bool] = ContextVar("drops_are_meant", default=False)


@contextmanager
def drops_are_meant() -> Iterator[None]:
    """Suppress `RoomWarning`: a stream of many sequences needs room for the longest one only."""
    token = _DROPS_ARE_MEANT.set(True)
    try:
        yield
    finally:
        _DROPS_ARE_MEANT.reset(token)


def warn_of_drops(memory: Memory[Any, Any], steps: int) -> None:
    """Warn, once for each number of steps, if a memory drops cells of sequences of this length.

    Args:
        memory: the memory with the capacity.
        steps: of the longest sequence, from its first step. For a carried state the number of its
            cells is unknown without synchronizing the device, so it is not checked.
    """
    most = memory.dropped_beyond
    # A graph holds no warning.
    if most is None or torch.compiler.is_compiling() or is_traced():
        return
    if most >= steps or _DROPS_ARE_MEANT.get():
        return
    advice = "Make the memory with a larger capacity."
    if isinstance(memory, SuperpositionMemory):
        advice = "model, _ = unbounded.models.with_room(model, steps) gives a model with room."
    say_once(
        f"inputs: expected at most {most} steps, the capacity of {type(memory).__name__}, "
        f"got {steps}. Cells beyond it are dropped. {advice}",
        RoomWarning,
    )
