"""Checks of what a recurrent layer is called with."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.checks import FROM_LIST, check_floating, check_like, check_shape, check_tensor
from unbounded.errors import DTypeError, ShapeError


def check_call(x: Tensor, lengths: Tensor | None, like: Tensor) -> None:
    """Check inputs and lengths; the messages name them.

    Args:
        x: [T, B, I].
        lengths: int64 [B] in 0..T, or None.
        like: one of the layer's parameters.
    Raises:
        ShapeError, DTypeError, DeviceError: one of them disagrees.
    """
    steps, batch_size = x.shape[:2]
    if steps == 0 or batch_size == 0:
        raise ShapeError(f"x: expected at least one step and one sequence, got {list(x.shape)}.")
    check_floating("x", x)
    check_like("x", x, "the layer's parameters", like)
    if lengths is None:
        return
    check_tensor("lengths", lengths, FROM_LIST)
    check_shape("lengths", lengths, (batch_size,))
    if lengths.dtype != torch.int64:
        raise DTypeError(f"lengths: expected dtype int64, got {lengths.dtype}.")
    if torch.compiler.is_compiling():
        return  # the values are not known while a graph is captured
    if bool((lengths < 0).any()) or bool((lengths > steps).any()):
        raise ShapeError(
            f"lengths: expected 0..{steps} (the time axis of x), got {lengths.tolist()}."
        )
