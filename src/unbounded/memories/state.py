"""What one does with a state between two calls: detach it, move it, pick sequences out of it.

A state is a NamedTuple of tensors and of further states; these functions work on any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

StateT = TypeVar("StateT", bound=tuple[Any, ...])


def map_state(function: Callable[[Tensor], Tensor], state: StateT) -> StateT:
    """Apply `function` to every tensor of a state and keep its structure."""
    fields = [
        map_state(function, field) if isinstance(field, tuple) else function(field)
        for field in state
    ]
    make = getattr(type(state), "_make", type(state))
    result: StateT = make(fields)
    return result


def detach_state(state: StateT) -> StateT:
    """Cut a state off from the computation that made it, as between chunks of truncated BPTT."""
    return map_state(Tensor.detach, state)


def move_state(
    state: StateT,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> StateT:
    """Move a state to a device and a floating dtype; None leaves that as it is."""
    return map_state(lambda tensor: tensor.to(device=device, dtype=dtype), state)


def index_state(state: StateT, rows: Tensor | slice | list[int]) -> StateT:
    """Pick sequences out of a batch of states.

    Args:
        state: every tensor [B, ...].
        rows: indices int64 [B'], a bool mask [B], a list of indices or a slice.
    Returns:
        the state of the picked sequences, every tensor [B', ...].
    """
    return map_state(lambda tensor: tensor[rows], state)
