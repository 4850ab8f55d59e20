"""The fused unroll of superposition memories: a stack or list alone, on explicit instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from unbounded.errors import BackendError, ShapeError, say_once
from unbounded.kernels._autograd import differentiate_reference
from unbounded.kernels._buffers import check_dtype, require
from unbounded.kernels._checks import expect, expect_axes
from unbounded.kernels._dispatch import why_not
from unbounded.kernels._library import Call, run_unroll
from unbounded.kernels._registry import apply, define
from unbounded.kernels._shapes import DTYPES
from unbounded.kernels._superposition import check_actions, check_cells, check_options
from unbounded.kernels._superposition_shapes import MixtureOptions, MixtureSizes, sizes_of

_KEPT: Final = ("planes", "checkpoints")


def _sizes(
    structure: str, instructions: Tensor, memory0: Tensor, depth: int, capacity: int, strict: bool
) -> MixtureSizes:
    if instructions.dim() != 3:
        raise ShapeError(f"instructions: expected 3 axes, got {list(instructions.shape)}.")
    if memory0.dim() != 3:
        raise ShapeError(f"memory0: expected 3 axes, got {list(memory0.shape)}.")
    count = memory0.shape[1]
    return sizes_of(structure, instructions.shape[2], count * depth, memory0, capacity, strict)


def _require(
    sizes: MixtureSizes, instructions: Tensor, memory0: Tensor, tensors: dict[str, Tensor | None]
) -> None:
    check_dtype("instructions", instructions)
    batch, steps, _ = instructions.shape
    made = _results(sizes, torch.empty_like(instructions, device="meta"))
    shapes = {name: tuple(tensor.shape) for name, tensor in made.items()}
    shapes["instructions"] = (batch, steps, sizes.number * (sizes.actions + 1))
    shapes["memory0"] = (batch, sizes.number, sizes.cells)
    require({"instructions": instructions, "memory0": memory0, **tensors}, shapes, instructions)


def _results(sizes: MixtureSizes, instructions: Tensor) -> dict[str, Tensor]:
    batch, steps, _ = instructions.shape
    new = instructions.new_empty
    return {
        "readings": new(batch, steps, sizes.number * sizes.depth),
        "memory_last": new(batch, sizes.number, sizes.grown(steps)),
        **sizes.saved(instructions, batch, steps, saves=True),
    }


def _run(
    sizes: MixtureSizes, instructions: Tensor, tensors: dict[str, Tensor | None], backward: bool
) -> None:
    call = Call()
    sizes.set(call, instructions.shape[1])
    call.batch, call.saves = instructions.shape[0], 1
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(call, name, tensor.data_ptr())
    run_unroll(sizes.code, backward, DTYPES[instructions.dtype], call)


def _unroll(
    structure: str, instructions: Tensor, memory0: Tensor, depth: int, capacity: int, strict: bool
) -> list[Tensor]:
    sizes = _sizes(structure, instructions, memory0, depth, capacity, strict)
    _require(sizes, instructions, memory0, {})
    batch, steps, _ = instructions.shape
    results = _results(sizes, instructions)
    overflow = sizes.overflow(instructions, batch, steps)
    given = {"instructions": instructions, "memory0": memory0, "overflow": overflow}
    _run(sizes, instructions, {**given, **results}, False)
    sizes.check_overflow(overflow)
    return list(results.values())


def _unroll_fake(
    structure: str, instructions: Tensor, memory0: Tensor, depth: int, capacity: int, strict: bool
) -> list[Tensor]:
    sizes = _sizes(structure, instructions, memory0, depth, capacity, strict)
    return list(_results(sizes, instructions).values())


def _unroll_backward(
    structure: str,
    instructions: Tensor,
    memory0: Tensor,
    kept: list[Tensor],
    grad_readings: Tensor,
    grad_memory: Tensor | None,
    depth: int,
    capacity: int,
) -> list[Tensor]:
    sizes = _sizes(structure, instructions, memory0, depth, capacity, False)
    saved = dict(zip(_KEPT, kept, strict=True))
    grads = {"readings": grad_readings, "memory_last": grad_memory}
    _require(sizes, instructions, memory0, {**saved, **grads})
    made = {
        "grad_instructions": torch.empty_like(instructions),
        "grad_memory0": torch.empty_like(memory0),
    }
    given = {
        "memory0": memory0,
        "grad_outputs": grad_readings,
        "grad_memory_last": grad_memory,
        **saved,
        **made,
    }
    _run(sizes, instructions, given, True)
    return list(made.values())


def _unroll_backward_fake(
    structure: str, instructions: Tensor, memory0: Tensor, *others: object
) -> list[Tensor]:
    return [torch.empty_like(instructions), torch.empty_like(memory0)]


SUPERPOSITION_UNROLL = define(
    "superposition_unroll",
    "(str structure, Tensor instructions, Tensor memory0, int depth, int capacity, bool strict) "
    "-> Tensor[]",
    _unroll,
    _unroll_fake,
)
SUPERPOSITION_UNROLL_BACKWARD = define(
    "superposition_unroll_backward",
    "(str structure, Tensor instructions, Tensor memory0, Tensor[] kept, Tensor grad_readings, "
    "Tensor? grad_memory, int depth, int capacity) -> Tensor[]",
    _unroll_backward,
    _unroll_backward_fake,
)


class SuperpositionUnroll(torch.autograd.Function):
    """`unbounded::superposition_unroll` with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        reference: Callable[..., tuple[Tensor, ...]] | None,
        structure: str,
        options: MixtureOptions,
        instructions: Tensor,
        memory0: Tensor,
    ) -> tuple[Tensor, Tensor]:
        readings, memory, *kept = SUPERPOSITION_UNROLL(
            structure, instructions, memory0, options.depth, options.capacity or 0, options.strict
        )
        ctx.reference, ctx.structure, ctx.options = reference, structure, options
        ctx.save_for_backward(instructions, memory0, *kept)
        ctx.set_materialize_grads(False)
        return readings, memory

    @staticmethod
    def backward(
        ctx: Any, grad_readings: Tensor | None, grad_memory: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        instructions, memory0, *kept = ctx.saved_tensors
        needs, options = ctx.needs_input_grad[3:], ctx.options
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            if ctx.reference is None:
                raise BackendError(
                    "the fused unroll has no double backward and was given no reference to fall "
                    "back on; use backend='reference'"
                )
            say_once(
                "backward with create_graph=True: the fused unroll has no double backward, so the "
                "gradients come from the reference path"
            )
            fields = _taken_apart(instructions, memory0.shape[1])
            made = differentiate_reference(
                ctx.reference(ctx.structure, fields, (memory0,)), (grad_readings, grad_memory),
                (instructions, memory0), needs,
            )  # fmt: skip
            return (None, None, None, *made)
        if grad_readings is None:
            batch, steps, _ = instructions.shape
            grad_readings = memory0.new_zeros(batch, steps, memory0.shape[1] * options.depth)
        made = SUPERPOSITION_UNROLL_BACKWARD(
            ctx.structure, instructions, memory0, kept, grad_readings.contiguous(),
            None if grad_memory is None else grad_memory.contiguous(), options.depth,
            options.capacity or 0,
        )  # fmt: skip
        wanted = (grad if need else None for grad, need in zip(made, needs, strict=True))
        return (None, None, None, *wanted)


def _taken_apart(instructions: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Actions [B, T, S, A] and values [B, T, S] of [B, T, S A + S]."""
    batch, steps, _ = instructions.shape
    actions = instructions[..., :-count].reshape(batch, steps, count, -1)
    return actions, instructions[..., -count:]


def unroll_superposition(
    structure: str,
    instruction: tuple[Tensor, ...],
    initial: tuple[Tensor, ...],
    reference: Callable[..., tuple[Tensor, ...]] | None,
    options: MixtureOptions,
) -> tuple[Tensor, Tensor]:
    """`unroll` of a superposition stack or list; see there."""
    check_options(options)
    reason = why_not(*instruction, *initial)
    if reason is not None:
        raise BackendError(reason)
    for name, found, wanted in (("instruction", instruction, 2), ("initial", initial, 1)):
        if len(found) != wanted:
            raise ShapeError(
                f"{name}: expected {wanted} field(s) for a {structure}, got {len(found)}."
            )
    (actions, values), (memory0,) = instruction, initial
    expect_axes("action", actions, "B, T, S, A")
    expect_axes("cells", memory0, "B, S, N")
    batch, steps, count, weights = actions.shape
    check_actions(structure, weights)
    check_cells(structure, memory0.shape[2])
    memory0 = expect("cells", memory0, (batch, count, memory0.shape[2]), actions)
    values = expect("value", values, (batch, steps, count), actions)
    instructions = torch.cat((actions.flatten(2), values), -1)
    if torch.is_grad_enabled() and (instructions.requires_grad or memory0.requires_grad):
        results = apply(SuperpositionUnroll, reference, structure, options, instructions, memory0)
    else:
        results = SUPERPOSITION_UNROLL(
            structure, instructions, memory0, options.depth, options.capacity or 0, options.strict
        )
    return results[0], results[1]
