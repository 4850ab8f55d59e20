"""The one check of a call before any pointer is taken: every fault is a Python error."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from unbounded.errors import DTypeError, ShapeError
from unbounded.kernels.structures.structure import Buffer, Shape

_DTYPES = (torch.float32, torch.float64)


def check_dtype(name: str, tensor: Tensor) -> None:
    """Raise DTypeError unless the kernels take a tensor's dtype."""
    if tensor.dtype not in _DTYPES:
        raise DTypeError(f"{name}: expected one of {list(_DTYPES)}, got {tensor.dtype}.")


def require(
    tensors: Mapping[str, Tensor | None],
    shapes: Mapping[str, Shape | Buffer],
    like: Tensor,
    optional: Collection[str] = (),
) -> None:
    """Raise unless tensors are contiguous, on the device of `like`, of its dtype and these shapes.

    Args:
        tensors: by name.
        shapes: by name; one of a Buffer may be of integers.
        optional: names of those that may be None.
    """
    for name, tensor in tensors.items():
        if tensor is None and name in optional:
            continue
        if tensor is None:
            raise ShapeError(f"{name}: expected a tensor, got None.")
        wanted = shapes[name]
        buffer = wanted if isinstance(wanted, Buffer) else Buffer(wanted)
        if tensor.shape != buffer.shape:
            got = list(tensor.shape)
            raise ShapeError(f"{name}: expected shape {list(buffer.shape)}, got {got}.")
        dtype = torch.int32 if buffer.is_integer else like.dtype
        if tensor.dtype != dtype:
            raise DTypeError(f"{name}: expected dtype {dtype}, got {tensor.dtype}.")
        if not tensor.is_contiguous() or tensor.device != like.device:
            raise ShapeError(f"{name}: expected a contiguous tensor on {like.device}.")


def check_lengths(lengths: Tensor | None, batch: int, steps: int | None = None) -> None:
    """Raise unless lengths are contiguous int64 [B] and lie in 0..T.

    Args:
        steps: T; None leaves the values alone, which a forward pass has looked at. The kernels keep
            to 0..T whatever they are.
    """
    if lengths is None:
        return
    if lengths.dtype != torch.int64:
        raise DTypeError(f"lengths: expected dtype torch.int64, got {lengths.dtype}.")
    if lengths.shape != (batch,) or not lengths.is_contiguous():
        raise ShapeError(f"lengths: expected contiguous [{batch}], got {list(lengths.shape)}.")
    if steps is not None and bool(((lengths < 0) | (lengths > steps)).any()):
        raise ShapeError(
            f"lengths: expected 0..{steps} (the time axis of x), got {lengths.tolist()}."
        )
