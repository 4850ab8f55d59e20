"""Warn if a memory has too few rows, and remove unused rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from unbounded.checks import is_batched, is_traced
from unbounded.errors import RoomWarning, say_once
from unbounded.memories import Memory, SuperpositionMemory
from unbounded.rnn.recurrence import RecurrenceState

_DROPS_ARE_MEANT: ContextVar[bool] = ContextVar("drops_are_meant", default=False)


@contextmanager
def drops_are_meant() -> Iterator[None]:
    """Suppress `RoomWarning`, because a stream needs room only for its longest sequence."""
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
    # A graph cannot contain a warning.
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


#: Number of added rows after which a memory is trimmed.
_TRIM_ROWS = 64


def trimmed(
    memory: Memory[Any, Any], state: RecurrenceState, steps: int, like: Tensor
) -> RecurrenceState:
    """Return the state without rows of the memory that can no longer be read.

    Rows are trimmed once for every _TRIM_ROWS added rows, if calls have that many steps. A state
    with a gradient is not trimmed, because its N may matter to the caller. No state is trimmed
    while a graph is captured or under vmap.

    Args:
        memory: the memory of the state.
        state: of one layer, tensors [B, ...].
        steps: T of the next call.
        like: a tensor with the expected dtype and device of the state.
    Raises:
        ShapeError, DTypeError, DeviceError: the memory's state is invalid.
    """
    parts = state.memory
    if torch.compiler.is_compiling() or any(p.requires_grad or is_batched(p) for p in parts):
        return state
    for field, part in zip(memory.state_fields, state.memory, strict=False):
        rows = field.rows_of(part) if field.grows and part.dim() > 1 else 0
        added = steps * sum(field.growth)
        if rows // _TRIM_ROWS > max(0, rows - added) // _TRIM_ROWS:
            memory.check_state(state.memory, state.read_vector.shape[0], like)
            return state._replace(memory=memory.trim(state.memory))
    return state
