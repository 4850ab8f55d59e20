"""The fused unroll: a memory alone, on explicit instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unbounded.errors import BackendError, ChoiceError, DTypeError, ShapeError, say_once
from unbounded.kernels._autograd import differentiate_reference
from unbounded.kernels._buffers import require, require_unroll
from unbounded.kernels._dispatch import why_not
from unbounded.kernels._library import Call, run_unroll
from unbounded.kernels._registry import apply, define
from unbounded.kernels._shapes import DTYPES, PARTS, STRUCTURES, SUPERPOSITIONS
from unbounded.kernels._superposition_shapes import MixtureOptions, refuse_options
from unbounded.kernels._superposition_unroll import unroll_superposition

Results = tuple[Tensor, ...]
_KEPT = ("deaths", "kept", "grave_rows", "grave_strengths", "live_range")


def _new_results(
    structure: str, values: Tensor, push_pop: Tensor
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    batch, steps, _ = push_pop.shape
    rows, parts = values.shape[1], PARTS[structure]
    new, zeros = values.new_empty, values.new_zeros
    kept = {
        "deaths": new(batch, steps, parts, dtype=torch.int32),
        "kept": new(batch, steps, parts),
        "grave_rows": zeros(batch, rows, dtype=torch.int32),
        "grave_strengths": zeros(batch, rows),
        "live_range": new(batch, 3, dtype=torch.int32),
    }
    return new(batch, steps, parts * values.shape[2]), new(batch, rows), kept


def _call(structure: str, values: Tensor, push_pop: Tensor, tensors: dict[str, Tensor]) -> Call:
    batch, rows, width = values.shape
    call = Call()
    call.batch, call.steps, call.width = batch, push_pop.shape[1], width
    call.capacity = call.steps
    call.initial_rows = rows - PARTS[structure] * call.steps
    call.values, call.instructions = values.data_ptr(), push_pop.data_ptr()
    for name, tensor in tensors.items():
        setattr(call, name, tensor.data_ptr())
    return call


def _unroll(structure: str, values: Tensor, push_pop: Tensor, strengths0: Tensor) -> list[Tensor]:
    require_unroll(structure, values, push_pop, strengths0)
    readings, strengths, kept = _new_results(structure, values, push_pop)
    tensors = {"readings": readings, "strengths": strengths, "strengths0": strengths0, **kept}
    call = _call(structure, values, push_pop, tensors)
    run_unroll(STRUCTURES[structure], False, DTYPES[values.dtype], call)
    return [readings, strengths, *kept.values()]


def _unroll_fake(
    structure: str, values: Tensor, push_pop: Tensor, strengths0: Tensor
) -> list[Tensor]:
    readings, strengths, kept = _new_results(structure, values, push_pop)
    return [readings, strengths, *kept.values()]


def _unroll_backward(
    structure: str,
    values: Tensor,
    push_pop: Tensor,
    strengths0: Tensor,
    strengths: Tensor,
    kept: list[Tensor],
    grad_readings: Tensor,
    grad_strengths: Tensor | None,
) -> list[Tensor]:
    require_unroll(structure, values, push_pop, strengths0)
    batch, all_rows, width = values.shape
    steps, parts = push_pop.shape[1], PARTS[structure]
    shapes = {
        "deaths": (batch, steps, parts),
        "kept": (batch, steps, parts),
        "grave_rows": (batch, all_rows),
        "grave_strengths": (batch, all_rows),
        "live_range": (batch, 3),
        "strengths": (batch, all_rows),
        "grad_readings": (batch, steps, parts * width),
        "grad_strengths": (batch, all_rows),
    }
    given = (*kept, strengths, grad_readings, grad_strengths)
    require(dict(zip(shapes, given, strict=True)), shapes, values)
    rows = all_rows - parts * steps
    made = {
        "grad_values": torch.zeros_like(values),
        "grad_instructions": torch.empty_like(push_pop),
        "grad_strengths0": values.new_empty(values.shape[0], rows),
    }
    tensors = dict(zip(_KEPT, kept, strict=True))
    tensors |= {
        "strengths0": strengths0,
        "strengths": strengths,
        "grad_outputs": grad_readings,
        **made,
    }
    if grad_strengths is not None:
        tensors["grad_strengths_last"] = grad_strengths
    call = _call(structure, values, push_pop, tensors)
    run_unroll(STRUCTURES[structure], True, DTYPES[values.dtype], call)
    return list(made.values())


def _unroll_backward_fake(
    structure: str,
    values: Tensor,
    push_pop: Tensor,
    strengths0: Tensor,
    strengths: Tensor,
    kept: list[Tensor],
    grad_readings: Tensor,
    grad_strengths: Tensor | None,
) -> list[Tensor]:
    rows = values.shape[1] - PARTS[structure] * push_pop.shape[1]
    return [
        torch.empty_like(values),
        torch.empty_like(push_pop),
        values.new_empty(values.shape[0], rows),
    ]


UNROLL = define(
    "unroll",
    "(str structure, Tensor values, Tensor push_pop, Tensor strengths0) -> Tensor[]",
    _unroll,
    _unroll_fake,
)
UNROLL_BACKWARD = define(
    "unroll_backward",
    "(str structure, Tensor values, Tensor push_pop, Tensor strengths0, Tensor strengths, "
    "Tensor[] kept, "
    "Tensor grad_readings, Tensor? grad_strengths) -> Tensor[]",
    _unroll_backward,
    _unroll_backward_fake,
)


class Unroll(torch.autograd.Function):
    """`unbounded::unroll` with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        reference: Callable[..., Results] | None,
        structure: str,
        values: Tensor,
        push_pop: Tensor,
        strengths0: Tensor,
    ) -> tuple[Tensor, Tensor]:
        readings, strengths, *kept = UNROLL(structure, values, push_pop, strengths0)
        ctx.reference, ctx.structure = reference, structure
        ctx.save_for_backward(values, push_pop, strengths0, strengths, *kept)
        ctx.set_materialize_grads(False)
        return readings, strengths

    @staticmethod
    def backward(
        ctx: Any, grad_readings: Tensor | None, grad_strengths: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        values, push_pop, strengths0, strengths, *kept = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            if ctx.reference is None:
                raise BackendError(
                    "the fused unroll has no double backward and no reference to fall back on; use "
                    "backend='reference'"
                )
            say_once(
                "backward with create_graph=True: the fused unroll has no double backward, so the "
                "gradients come from the reference path"
            )
            instruction, values0 = _taken_apart(ctx.structure, values, push_pop)
            readings, _, final = ctx.reference(ctx.structure, instruction, (values0, strengths0))
            made = differentiate_reference(
                (readings, final), (grad_readings, grad_strengths),
                (values, push_pop, strengths0), needs,
            )  # fmt: skip
            return (None, None, *made)
        if grad_readings is None:
            batch, steps, _ = push_pop.shape
            grad_readings = values.new_zeros(batch, steps, PARTS[ctx.structure] * values.shape[2])
        made = UNROLL_BACKWARD(
            ctx.structure, values, push_pop, strengths0, strengths, kept,
            grad_readings.contiguous(),
            None if grad_strengths is None else grad_strengths.contiguous(),
        )  # fmt: skip
        wanted = (grad if need else None for grad, need in zip(made, needs, strict=True))
        return (None, None, *wanted)


def _put_together(
    structure: str, instruction: tuple[Tensor, ...], values0: Tensor
) -> tuple[Tensor, Tensor]:
    """Every row of the final values, and pushes and pops as [B, T, 2 parts]."""
    if structure == "deque":
        top, top_push, top_pop, bottom, bottom_push, bottom_pop = instruction
        values = torch.cat((bottom.flip(1), values0, top), 1)
        return values, torch.stack((top_push, top_pop, bottom_push, bottom_pop), -1)
    value, push, pop = instruction
    return torch.cat((values0, value), 1), torch.stack((push, pop), -1)


def _taken_apart(
    structure: str, values: Tensor, push_pop: Tensor
) -> tuple[tuple[Tensor, ...], Tensor]:
    steps = push_pop.shape[1]
    push, pop, *bottom = push_pop.unbind(-1)
    top = values[:, values.shape[1] - steps :]
    if structure == "deque":
        fields = (top, push, pop, values[:, :steps].flip(1), *bottom)
        return fields, values[:, steps : values.shape[1] - steps]
    return (top, push, pop), values[:, : values.shape[1] - steps]


def unroll(
    structure: str,
    instruction: tuple[Tensor, ...],
    initial: tuple[Tensor, ...],
    *,
    reference: Callable[..., Results] | None = None,
    options: MixtureOptions | None = None,
) -> Results:
    """Run a memory over a sequence of instructions, fused.

    Args:
        structure: "stack", "queue", "deque", "superposition_stack" or "superposition_list".
        instruction: the fields in the memory's order, values [B, T, M], pushes and pops [B, T];
            pushes and pops are not negative. Of superpositions: actions [B, T, S, A] and values
            [B, T, S].
        initial: values [B, N, M] and strengths [B, N], or cells [B, S, N].
        reference: the same function in plain torch; used where gradients must themselves be
            differentiable.
        options: of a superposition stack or list; None takes the defaults.

    Returns:
        readings [B, T, R] and the final values and strengths, or cells.

    Raises:
        BackendError: the kernels cannot serve the call; the message says why.
        ShapeError, DTypeError: a tensor disagrees; the message names it.
        MemoryOverflowError: a cell was lost, and the options say `strict`.
    """
    if structure in SUPERPOSITIONS:
        return unroll_superposition(
            structure, instruction, initial, reference, options or MixtureOptions()
        )
    if structure not in STRUCTURES:
        raise ChoiceError("structure", structure, [*STRUCTURES, *SUPERPOSITIONS])
    refuse_options(structure, options)
    reason = why_not(*instruction, *initial)
    if reason is not None:
        raise BackendError(reason)
    parts = PARTS[structure]
    if len(instruction) != 3 * parts:
        raise ShapeError(
            f"instruction: expected {3 * parts} fields for a {structure}, got {len(instruction)}."
        )
    values0, strengths0 = initial
    if values0.dim() != 3 or values0.shape[2] == 0:
        raise ShapeError(f"values: expected shape [B, N, M], got {list(values0.shape)}.")
    batch, rows, width = values0.shape
    if instruction[0].dim() != 3:
        raise ShapeError(f"value: expected shape [B, T, M], got {list(instruction[0].shape)}.")
    steps = instruction[0].shape[1]
    expected: list[tuple[str, Tensor, tuple[int, ...]]] = [("strengths", strengths0, (batch, rows))]
    for field, name in enumerate(("value", "push", "pop") * parts):
        axes = (batch, steps, width) if name == "value" else (batch, steps)
        expected.append((name, instruction[field], axes))
    for name, tensor, shape in expected:
        if tuple(tensor.shape) != shape:
            raise ShapeError(f"{name}: expected shape {list(shape)}, got {list(tensor.shape)}.")
        if tensor.dtype != values0.dtype:
            raise DTypeError(f"{name}: expected dtype {values0.dtype}, got {tensor.dtype}.")
    values, push_pop = _put_together(structure, instruction, values0)
    values, push_pop, strengths0 = (
        values.contiguous(),
        push_pop.contiguous(),
        strengths0.contiguous(),
    )
    needs_grad = values.requires_grad or push_pop.requires_grad or strengths0.requires_grad
    if torch.is_grad_enabled() and needs_grad:
        readings, strengths = apply(Unroll, reference, structure, values, push_pop, strengths0)
    else:
        readings, strengths = UNROLL(structure, values, push_pop, strengths0)[:2]
    return readings, values, strengths
