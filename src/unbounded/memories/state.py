"""What one does with a state between two calls: detach it, move it, pick sequences out of it.

A state is a NamedTuple of tensors and of further states; these functions work on any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeVar

import torch
import torch.utils._pytree
from torch import Tensor

StateT = TypeVar("StateT", bound=tuple[Any, ...])
TupleT = TypeVar("TupleT", bound=tuple[Any, ...])


def portable(state_type: type[TupleT]) -> type[TupleT]:
    """Let torch write a NamedTuple and read it again: torch.save, weights_only, torch.export.save.

    A class decorator; its name in files is that of its module and its own.
    """
    torch.serialization.add_safe_globals([state_type])
    name = f"{state_type.__module__}.{state_type.__qualname__}"
    # The only way there is; torch's own message names it.
    torch.utils._pytree._register_namedtuple(state_type, serialized_type_name=name)
    return state_type


def map_state(function: Callable[[Tensor], Tensor], state: StateT) -> StateT:
    """Apply `function` to every tensor of a state and keep its structure."""
    fields = [
        map_state(function, field) if isinstance(field, tuple) else function(field)
        for field in state
    ]
    make = getattr(type(state), "_make", type(state))
    result: StateT = make(fields)
    return result


def state_tensors(state: tuple[Any, ...]) -> list[Tensor]:
    """The tensors of a state, in order."""
    tensors: list[Tensor] = []
    for field in state:
        tensors += state_tensors(field) if isinstance(field, tuple) else [field]
    return tensors


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


@singledispatch
def index_state(state: StateT, rows: Tensor | slice | list[int]) -> StateT:
    """Pick sequences out of a batch of states.

    Args:
        state: every tensor [B, ...]; the layers' [L, B, H] are taken along their second axis.
        rows: indices int64 [B'], a bool mask [B], a list of indices or a slice.
    Returns:
        the state of the picked sequences, every tensor [B', ...] or [L, B', H].
    """
    return map_state(lambda tensor: tensor[rows], state)
