"""What is said where a memory drops cells of a sequence that is longer than its capacity."""

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
    """No `RoomWarning` within: a stream of many sequences needs room for the longest alone."""
    token = _DROPS_ARE_MEANT.set(True)
    try:
        yield
    finally:
        _DROPS_ARE_MEANT.reset(token)


def warn_of_drops(memory: Memory[Any, Any], steps: int) -> None:
    """Warn, once for each number of steps, where a memory drops cells of so long a sequence.

    Args:
        memory: whose capacity is looked at.
        steps: of the longest sequence, from its beginning. Of a state that is carried on it is not
            known how many cells it holds without waiting for the device, so it is not asked.
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
