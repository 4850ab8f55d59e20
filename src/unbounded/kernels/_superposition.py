"""The fused recurrence over superposition stacks or lists: checks, gradients, face in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import BackendError, ShapeError
from unbounded.kernels._autograd import needed, through_reference
from unbounded.kernels._checks import (
    ControllerWeights,
    check_controller,
    check_sequence,
    expect,
    expect_axes,
    expect_if,
)
from unbounded.kernels._dispatch import why_not
from unbounded.kernels._registry import apply
from unbounded.kernels._shapes import CONTROLLERS
from unbounded.kernels._superposition_operators import SUPERPOSITION, SUPERPOSITION_BACKWARD
from unbounded.kernels._superposition_shapes import BASIC_ACTIONS, MixtureOptions

Results = tuple[Tensor, tuple[Tensor, ...], Tensor]


class CheckedCells(NamedTuple):
    """The tensors of a recurrence, contiguous; `cell` is empty where a controller has none."""

    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    head_weight: Tensor
    head_bias: Tensor | None
    hidden: Tensor
    cell: Tensor
    reading: Tensor
    memory: Tensor


class Superposition(torch.autograd.Function):
    """The operators with their gradients; tensors as of `unbounded::superposition`."""

    @staticmethod
    def forward(
        ctx: Any,
        reference: Callable[..., Any] | None,
        structure: str,
        controller: str,
        lengths: Tensor | None,
        capacity: int,
        strict: bool,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, ...]:
        x, *rest = tensors
        with torch.autocast("cpu", enabled=False):
            results = SUPERPOSITION(
                structure, controller, x, lengths, *rest, capacity, strict, True
            )
        ctx.reference, ctx.structure, ctx.controller = reference, structure, controller
        ctx.capacity = capacity
        ctx.save_for_backward(lengths, *tensors, *results)
        ctx.set_materialize_grads(False)
        return tuple(results[:5])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        lengths, *saved = ctx.saved_tensors
        tensors, results = saved[:11], saved[11:]
        x, weight_ih, weight_hh, _, bias_hh, head_weight, _, *initial = tensors
        needs = ctx.needs_input_grad[6:]
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return (None,) * 6 + through_reference(ctx, lengths, tensors, needs, grads)
        contiguous = [None if grad is None else grad.contiguous() for grad in grads]
        # What the operator asks of torch is not for autocast to make half precision.
        with torch.autocast("cpu", enabled=False):
            made = SUPERPOSITION_BACKWARD(
                ctx.structure, ctx.controller, [x, weight_ih, head_weight, *initial], lengths,
                weight_hh, results, contiguous, ctx.capacity, needs[0], any(needs[1:7]), needs[10],
            )  # fmt: skip
        return (None,) * 6 + needed(ctx.controller, bias_hh, made, needs)


def check_superposition(
    structure: str,
    controller: str,
    weights: ControllerWeights,
    head_weight: Tensor,
    head_bias: Tensor | None,
    initial: tuple[Tensor, ...],
    options: MixtureOptions,
) -> CheckedCells:
    """Check everything that does not depend on the sequence.

    Raises:
        ChoiceError: no such controller. BackendError: the kernels cannot serve these tensors.
        ShapeError, DTypeError: a tensor disagrees with the others; the message names it.
    """
    kind = check_controller(controller, weights)
    check_options(options)
    reason = why_not(*weights, head_weight, head_bias, *initial)
    if reason is not None:
        raise BackendError(reason)
    if len(initial) != 3 + kind.has_cell:
        raise ShapeError(
            f"initial: expected {3 + kind.has_cell} tensors for the controller {controller}, got "
            f"{len(initial)}."
        )
    hidden0, *cell, reading0, memory0 = initial
    for name, tensor, axes in (
        ("hidden", hidden0, "B, H"),
        ("reading", reading0, "B, S * k"),
        ("cells", memory0, "B, S, N"),
        ("weight_ih", weights.weight_ih, "blocks * H, I + S * k"),
        ("head_weight", head_weight, "S * (A + 1), H"),
    ):
        expect_axes(name, tensor, axes)
    batch, hidden = hidden0.shape
    _, count, rows = memory0.shape
    if 0 in (hidden, count):
        raise ShapeError("hidden, cells: expected H and S of at least 1, got 0.")
    actions = check_actions(structure, head_weight.shape[0] / count - 1)
    check_cells(structure, rows)
    reading = count * options.depth
    blocks, inputs = kind.blocks * hidden, max(0, weights.weight_ih.shape[1] - reading)
    like = hidden0
    return CheckedCells(
        expect("weight_ih", weights.weight_ih, (blocks, inputs + reading), like),
        expect_if("weight_hh", weights.weight_hh, (blocks, hidden), like),
        expect_if("bias_ih", weights.bias_ih, (blocks,), like),
        expect_if("bias_hh", weights.bias_hh, (blocks,), like),
        expect("head_weight", head_weight, (count * (actions + 1), hidden), like),
        expect_if("head_bias", head_bias, (count * (actions + 1),), like),
        hidden0.contiguous(),
        expect("cell", cell[0], (batch, hidden), like) if cell else hidden0.new_empty(batch, 0),
        expect("reading", reading0, (batch, reading), like),
        expect("cells", memory0, (batch, count, rows), like),
    )


def check_options(options: MixtureOptions) -> None:
    """Raise ShapeError unless depth is at least 1 and capacity, if there is one, at least depth."""
    if options.depth < 1 or (options.capacity is not None and options.capacity < options.depth):
        raise ShapeError(
            "options: expected a depth of at least 1 and a capacity of at least that, got "
            f"{options}."
        )


def check_actions(structure: str, actions: float) -> int:
    """Return how many actions there are; raise unless the structure has so many."""
    basic = BASIC_ACTIONS[structure]
    if actions not in (basic, basic + 1):
        raise ShapeError(
            f"head_weight, action: a {structure} has {basic} actions, with NO-OP {basic + 1}, for "
            f"each of the structures and then a value for each; got {actions:g} actions."
        )
    return int(actions)


def check_cells(structure: str, cells: int) -> None:
    """Raise ShapeError unless there may be so many cells."""
    if structure == "superposition_list" and cells % 2 == 0:
        raise ShapeError(f"cells: expected an odd number N with HEAD in the middle, got {cells}.")


def superposition(
    structure: str,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weights: ControllerWeights,
    head_weight: Tensor,
    head_bias: Tensor | None,
    initial: tuple[Tensor, ...],
    reference: Callable[..., tuple[Tensor, ...]] | None,
    options: MixtureOptions,
) -> Results:
    """`recurrence` of a superposition stack or list; `reference` takes and returns flat tensors."""
    checked = check_superposition(
        structure, controller, weights, head_weight, head_bias, initial, options
    )
    x, lengths = check_sequence(x, lengths, checked)
    tensors = (x, *checked)
    most, strict = options.capacity or 0, options.strict
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        results = apply(
            Superposition, reference, structure, controller, lengths, most, strict, *tensors
        )
    else:
        results = SUPERPOSITION(structure, controller, x, lengths, *checked, most, strict, False)
    outputs, hidden_last, cell_last, reading_last, memory_last = results[:5]
    cells = (cell_last,) if CONTROLLERS[controller].has_cell else ()
    return outputs, (hidden_last, *cells, reading_last, memory_last), memory_last
