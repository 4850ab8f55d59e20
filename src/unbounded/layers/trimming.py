"""What a long stream lets go of between two calls: rows that never come back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbounded.checks import is_batched
from unbounded.layers.recurrence import LoopState
from unbounded.memories import Memory

#: How many more rows a memory has before those are looked for that never come back.
_TRIM_ROWS = 64


def trimmed(memory: Memory[Any, Any], state: LoopState, steps: int, like: Tensor) -> LoopState:
    """The state with a memory that holds no rows that never come back.

    Looked for once in _TRIM_ROWS rows, if calls are of so many steps; not in a state that has a
    gradient, where N may matter to the caller, nor while a graph is captured or under vmap.

    Args:
        memory: whose state it is.
        state: of one layer, [B, ...] each.
        steps: T of the call that begins there.
        like: a tensor whose dtype and device the state must have.
    Raises:
        ShapeError, DTypeError, DeviceError: the memory's part of the state disagrees with it.
    """
    parts = state.memory
    if torch.compiler.is_compiling() or any(p.requires_grad or is_batched(p) for p in parts):
        return state
    for field, part in zip(memory.state_fields, state.memory, strict=False):
        rows = field.rows_of(part) if field.grows and part.dim() > 1 else 0
        added = steps * sum(field.growth)
        if rows // _TRIM_ROWS > max(0, rows - added) // _TRIM_ROWS:
            memory.check_state(state.memory, state.reading.shape[0], like)
            return state._replace(memory=memory.trim(state.memory))
    return state
