"""Checks of a call before any pointer is taken: every fault is a Python error."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unbounded.errors import BackendError, ChoiceError, DTypeError, ShapeError
from unbounded.kernels._dispatch import why_not
from unbounded.kernels._shapes import CONTROLLERS, PARTS, STRUCTURES


class ControllerWeights(NamedTuple):
    """The weights of a controller, G gates of H units each.

    Fields:
        weight_ih: [G * H, I + R]. weight_hh: [G * H, H] or None without recurrence.
        bias_ih, bias_hh: [G * H] or None.
    """

    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None


class Checked(NamedTuple):
    """The tensors of a recurrence, contiguous; `cell` is empty where a controller has none."""

    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    head_weight: Tensor
    head_bias: Tensor
    hidden: Tensor
    cell: Tensor
    reading: Tensor
    values: Tensor
    strengths: Tensor


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    if tuple(tensor.shape) != shape:
        raise ShapeError(f"{name}: expected shape {list(shape)}, got {list(tensor.shape)}.")
    if tensor.dtype != like.dtype:
        raise DTypeError(f"{name}: expected dtype {like.dtype}, got {tensor.dtype}.")
    return tensor.contiguous()


def _expect_if(
    name: str, tensor: Tensor | None, shape: tuple[int, ...], like: Tensor
) -> Tensor | None:
    return None if tensor is None else _expect(name, tensor, shape, like)


def _expect_axes(name: str, tensor: Tensor, axes: str) -> None:
    if tensor.dim() != len(axes.split(", ")):
        raise ShapeError(f"{name}: expected shape [{axes}], got {list(tensor.shape)}.")


def check_recurrence(
    structure: str,
    controller: str,
    weights: ControllerWeights,
    head_weight: Tensor,
    head_bias: Tensor,
    initial: tuple[Tensor, ...],
) -> Checked:
    """Check everything that does not depend on the sequence.

    Raises:
        ChoiceError: no such structure or controller.
        BackendError: the kernels cannot serve these tensors.
        ShapeError, DTypeError: a tensor disagrees with the others; the message names it.
    """
    if structure not in STRUCTURES:
        raise ChoiceError("structure", structure, STRUCTURES)
    if controller not in CONTROLLERS:
        raise ChoiceError("controller", controller, CONTROLLERS)
    reason = why_not(*weights, head_weight, head_bias, *initial)
    if reason is not None:
        raise BackendError(reason)
    kind, parts = CONTROLLERS[controller], PARTS[structure]
    if len(initial) != 4 + kind.has_cell:
        raise ShapeError(
            f"initial: expected {4 + kind.has_cell} tensors for the controller {controller}, got "
            f"{len(initial)}."
        )
    hidden0, *cell, reading0, values0, strengths0 = initial
    _expect_axes("hidden", hidden0, "B, H")
    _expect_axes("values", values0, "B, N, M")
    _expect_axes("weight_ih", weights.weight_ih, "blocks * H, I + R")
    batch, hidden = hidden0.shape
    rows, width = values0.shape[1:]
    if hidden == 0 or width == 0:
        raise ShapeError("hidden, values: expected H and M of at least 1, got 0.")
    if weights.weight_hh is None and not controller.startswith("elman"):
        raise ShapeError(f"weight_hh: a controller {controller} needs it, got None.")
    reading, blocks, heads = parts * width, kind.blocks * hidden, parts * (width + 2)
    inputs = max(0, weights.weight_ih.shape[1] - reading)
    like = hidden0
    return Checked(
        _expect("weight_ih", weights.weight_ih, (blocks, inputs + reading), like),
        _expect_if("weight_hh", weights.weight_hh, (blocks, hidden), like),
        _expect_if("bias_ih", weights.bias_ih, (blocks,), like),
        _expect_if("bias_hh", weights.bias_hh, (blocks,), like),
        _expect("head_weight", head_weight, (heads, hidden), like),
        _expect("head_bias", head_bias, (heads,), like),
        hidden0.contiguous(),
        _expect("cell", cell[0], (batch, hidden), like) if cell else hidden0.new_empty(batch, 0),
        _expect("reading", reading0, (batch, reading), like),
        _expect("values", values0, (batch, rows, width), like),
        _expect("strengths", strengths0, (batch, rows), like),
    )


def check_sequence(
    x: Tensor, lengths: Tensor | None, checked: Checked
) -> tuple[Tensor, Tensor | None]:
    """Check x [T, B, I] and lengths [B] against the rest; their values are checked at run time."""
    if lengths is not None and lengths.dtype != torch.int64:
        raise DTypeError(f"lengths: expected dtype torch.int64, got {lengths.dtype}.")
    reason = why_not(x, lengths)
    if reason is not None:
        raise BackendError(reason)
    batch = checked.hidden.shape[0]
    inputs = checked.weight_ih.shape[1] - checked.reading.shape[1]
    _expect_axes("x", x, "T, B, I")
    x = _expect("x", x, (x.shape[0], batch, inputs), checked.hidden)
    if lengths is None:
        return x, None
    if tuple(lengths.shape) != (batch,):
        raise ShapeError(f"lengths: expected shape [{batch}], got {list(lengths.shape)}.")
    return x, lengths.contiguous()


def check_length_values(lengths: Tensor | None, steps: int) -> None:
    """Raise ShapeError unless every length lies in 0..steps."""
    if lengths is not None and bool(((lengths < 0) | (lengths > steps)).any()):
        raise ShapeError(
            f"lengths: expected 0..{steps} (the time axis of x), got {lengths.tolist()}."
        )
