"""Checks of a call before any pointer is taken: every fault is a Python error."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unbounded.errors import BackendError, ChoiceError, DTypeError, ShapeError
from unbounded.kernels._dispatch import why_not
from unbounded.kernels._shapes import (
    CONTROLLERS,
    PARTS,
    STRUCTURES,
    SUPERPOSITIONS,
    ControllerKind,
)


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


class Sized(Protocol):
    """What a sequence must agree with."""

    @property
    def weight_ih(self) -> Tensor:
        """[blocks * H, I + R]."""

    @property
    def hidden(self) -> Tensor:
        """[B, H]."""

    @property
    def reading(self) -> Tensor:
        """[B, R]."""


def expect(name: str, tensor: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return a tensor contiguous; raise unless it has this shape and the dtype of `like`."""
    if tuple(tensor.shape) != shape:
        raise ShapeError(f"{name}: expected shape {list(shape)}, got {list(tensor.shape)}.")
    if tensor.dtype != like.dtype:
        raise DTypeError(f"{name}: expected dtype {like.dtype}, got {tensor.dtype}.")
    return tensor.contiguous()


def expect_if(
    name: str, tensor: Tensor | None, shape: tuple[int, ...], like: Tensor
) -> Tensor | None:
    """As `expect`, of a tensor that may be None."""
    return None if tensor is None else expect(name, tensor, shape, like)


def expect_axes(name: str, tensor: Tensor, axes: str) -> None:
    """Raise ShapeError unless a tensor has as many axes as are named."""
    if tensor.dim() != len(axes.split(", ")):
        raise ShapeError(f"{name}: expected shape [{axes}], got {list(tensor.shape)}.")


def check_controller(controller: str, weights: ControllerWeights) -> ControllerKind:
    """Return what is known of a controller; raise unless it exists and has what it needs."""
    if controller not in CONTROLLERS:
        raise ChoiceError("controller", controller, CONTROLLERS)
    if weights.weight_hh is None and not controller.startswith("elman"):
        raise ShapeError(f"weight_hh: a controller {controller} needs it, got None.")
    return CONTROLLERS[controller]


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
        raise ChoiceError("structure", structure, [*STRUCTURES, *SUPERPOSITIONS])
    kind, parts = check_controller(controller, weights), PARTS[structure]
    reason = why_not(*weights, head_weight, head_bias, *initial)
    if reason is not None:
        raise BackendError(reason)
    if len(initial) != 4 + kind.has_cell:
        raise ShapeError(
            f"initial: expected {4 + kind.has_cell} tensors for the controller {controller}, got "
            f"{len(initial)}."
        )
    hidden0, *cell, reading0, values0, strengths0 = initial
    expect_axes("hidden", hidden0, "B, H")
    expect_axes("values", values0, "B, N, M")
    expect_axes("weight_ih", weights.weight_ih, "blocks * H, I + R")
    batch, hidden = hidden0.shape
    rows, width = values0.shape[1:]
    if hidden == 0 or width == 0:
        raise ShapeError("hidden, values: expected H and M of at least 1, got 0.")
    reading, blocks, heads = parts * width, kind.blocks * hidden, parts * (width + 2)
    inputs = max(0, weights.weight_ih.shape[1] - reading)
    like = hidden0
    return Checked(
        expect("weight_ih", weights.weight_ih, (blocks, inputs + reading), like),
        expect_if("weight_hh", weights.weight_hh, (blocks, hidden), like),
        expect_if("bias_ih", weights.bias_ih, (blocks,), like),
        expect_if("bias_hh", weights.bias_hh, (blocks,), like),
        expect("head_weight", head_weight, (heads, hidden), like),
        expect("head_bias", head_bias, (heads,), like),
        hidden0.contiguous(),
        expect("cell", cell[0], (batch, hidden), like) if cell else hidden0.new_empty(batch, 0),
        expect("reading", reading0, (batch, reading), like),
        expect("values", values0, (batch, rows, width), like),
        expect("strengths", strengths0, (batch, rows), like),
    )


def check_sequence(
    x: Tensor, lengths: Tensor | None, checked: Sized
) -> tuple[Tensor, Tensor | None]:
    """Check x [T, B, I] and lengths [B] against the rest; their values are checked at run time."""
    if lengths is not None and lengths.dtype != torch.int64:
        raise DTypeError(f"lengths: expected dtype torch.int64, got {lengths.dtype}.")
    reason = why_not(x, lengths)
    if reason is not None:
        raise BackendError(reason)
    batch = checked.hidden.shape[0]
    inputs = checked.weight_ih.shape[1] - checked.reading.shape[1]
    expect_axes("x", x, "T, B, I")
    x = expect("x", x, (x.shape[0], batch, inputs), checked.hidden)
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
