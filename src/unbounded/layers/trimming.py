"""Removal of rows that cannot come back, between two calls on a long stream."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbounded.checks import is_batched
from unbounded.layers.recurrence import LoopState
from unbounded.memories import Memory

#: Number of added rows after which a memory is trimmed.
_TRIM_ROWS = 64


def trimmed(memory: Memory[Any, Any], state: LoopState, steps: int, like: Tensor) -> LoopState:
    """Return the state without rows of the memory that cannot come back.

    A trim happens once in _TRIM_ROWS rows, if calls have that many steps. A state with a gradient,
    where N may matter to the caller, is not trimmed; nor is any while a graph is captured or under
    vmap.

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
