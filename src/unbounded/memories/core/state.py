"""Functions that detach, move and index states between two calls.

A state is a NamedTuple of tensors or of further states. These functions work on any state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeVar

import torch
import torch.utils._pytree
from torch import Tensor

from unbounded.checks import check_place
from unbounded.errors import DeviceError, DTypeError, ShapeError

StateT = TypeVar("StateT", bound=tuple[Any, ...])
TupleT = TypeVar("TupleT", bound=tuple[Any, ...])


def portable(state_type: type[TupleT]) -> type[TupleT]:
    """Enable torch to save and load a NamedTuple: torch.save, weights_only, torch.export.save.

    The function is a class decorator. Files name the type by its module and qualified name.
    """
    torch.serialization.add_safe_globals([state_type])
    name = f"{state_type.__module__}.{state_type.__qualname__}"
    # Torch has no public function for this, but its error message names this function.
    torch.utils._pytree._register_namedtuple(state_type, serialized_type_name=name)
    return state_type


def map_state(function: Callable[[Tensor], Tensor], state: StateT) -> StateT:
    """Apply `function` to every tensor of a state and keep its structure.

    Raises:
        DTypeError: it is no nested tuple of tensors.
    """
    result: StateT = _mapped(function, state)
    return result


def _mapped(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    if isinstance(state, Tensor):  # a custom model's state may be a single tensor
        return function(state)
    if not isinstance(state, tuple | list):
        raise DTypeError(
            f"state: expected a tuple of tensors as a layer returns it, got {type(state).__name__}."
        )
    make = getattr(type(state), "_make", type(state))
    return make([_mapped(function, field) for field in state])


def state_tensors(state: tuple[Any, ...]) -> list[Tensor]:
    """The tensors of a state, in order."""
    tensors: list[Tensor] = []
    for field in state:
        tensors += state_tensors(field) if isinstance(field, tuple) else [field]
    return tensors


def detach_state(state: StateT) -> StateT:
    """Detach a state from its computation, as between chunks of truncated BPTT."""
    return map_state(Tensor.detach, state)


def move_state(
    state: StateT,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> StateT:
    """Move a state to a device and a floating dtype; None keeps the device or the dtype.

    Raises:
        DTypeError: the dtype is not a floating one.
    """
    check_place(device, dtype)

    def moved(tensor: Tensor) -> Tensor:
        if tensor.is_meta and device is not None and torch.device(device).type != "meta":
            raise DeviceError(
                f"state: expected tensors with values, got one on the meta device, for {device}."
            )
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    return map_state(moved, state)


@singledispatch
def index_state(state: StateT, rows: Tensor | slice | list[int]) -> StateT:
    """Select sequences from a batch of states.

    Args:
        state: every tensor [B, ...]; a layer's [L, B, H] are indexed along their second axis.
        rows: indices int64 [B'], a bool mask [B], a list of indices or a slice.
    Returns:
        the state of the picked sequences, every tensor [B', ...] or [L, B', H].
    Raises:
        DTypeError, ShapeError: `rows` is invalid, such as a single number, which would remove the
            axis.
    """
    check_rows(rows)
    return map_state(lambda tensor: picked(tensor, rows, 0), state)


def picked(tensor: Tensor, rows: Any, axis: int) -> Tensor:
    """Index axis 0 or 1 of a tensor.

    Raises:
        ShapeError: the tensor has no such rows.
    """
    try:
        return tensor[rows] if axis == 0 else tensor[:, rows]
    except (IndexError, RuntimeError) as error:
        count = tensor.shape[axis] if tensor.dim() > axis else 0
        raise ShapeError(
            f"rows: expected sequences of {count}, got {str(rows)[:60]} ({error})."
        ) from None


def check_rows(rows: object) -> None:
    """Raise unless `rows` selects sequences and keeps their axis.

    Raises:
        DTypeError: it is not a list, a slice, or a tensor or array with an axis; or its dtype
            cannot be an index. ShapeError: it has several axes.
    """
    if isinstance(rows, slice):
        return
    if isinstance(rows, list):
        if not all(hasattr(row, "__index__") and not isinstance(row, Tensor) for row in rows):
            raise DTypeError(f"rows: expected integers or bools [B'], got {str(rows)[:60]}.")
        return
    if getattr(rows, "ndim", 0) == 0:
        raise DTypeError(f"rows: expected a list, a slice or a tensor [B'], got {rows!r}.")
    kind = str(getattr(rows, "dtype", ""))
    if not ("int" in kind or "bool" in kind):
        raise DTypeError(f"rows: expected integers or bools [B'], got {kind}.")
    if getattr(rows, "ndim", 1) > 1:
        raise ShapeError(f"rows: expected one axis, [B'], got {list(getattr(rows, 'shape', ()))}.")
