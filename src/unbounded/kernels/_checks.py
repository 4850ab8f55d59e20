"""The check of a call before any pointer is taken: every error is raised in Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from unbounded import checks
from unbounded.errors import DTypeError, ShapeError
from unbounded.memories.core.state_field import Shape
from unbounded.memories.core.structure import Buffer

TensorT = TypeVar("TensorT", bound=Tensor | None)

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
    """Raise unless tensors are contiguous, of these shapes, and of the device and dtype of `like`.

    Args:
        tensors: by name.
        shapes: by name; a Buffer may be of integers.
        optional: names of tensors that may be None.
    """
    for name, tensor in tensors.items():
        if tensor is None and name in optional:
            continue
        if tensor is None:
            raise ShapeError(f"{name}: expected a tensor, got None.")
        expected = shapes[name]
        buffer = expected if isinstance(expected, Buffer) else Buffer(expected)
        if tensor.shape != buffer.shape:
            got = list(tensor.shape)
            raise ShapeError(f"{name}: expected shape {list(buffer.shape)}, got {got}.")
        dtype = torch.int32 if buffer.is_integer else like.dtype
        if tensor.dtype != dtype:
            raise DTypeError(f"{name}: expected dtype {dtype}, got {tensor.dtype}.")
        if not tensor.is_contiguous() or tensor.device != like.device:
            raise ShapeError(f"{name}: expected a contiguous tensor on {like.device}.")


def named(what: str, tensors: Sequence[TensorT], names: Collection[str]) -> dict[str, TensorT]:
    """Tensors by name.

    Raises:
        ShapeError: the numbers of tensors and names differ; the message begins with `what`.
    """
    if len(tensors) != len(names):
        raise ShapeError(f"{what}: expected {len(names)} tensors, got {len(tensors)}.")
    return dict(zip(names, tensors, strict=True))


def check_lengths(lengths: Tensor | None, batch: int, steps: int | None = None) -> None:
    """Check as `unbounded.checks.check_lengths`, and that lengths are contiguous."""
    checks.check_lengths(lengths, batch, steps)
    if lengths is not None and not lengths.is_contiguous():
        raise ShapeError("lengths: expected a contiguous tensor.")
