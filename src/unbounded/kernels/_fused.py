"""The interface of the fused kernels: whole sequences, steps of a session, and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import BackendError
from unbounded.kernels import gpu
from unbounded.kernels._availability import (
    check_expected,
    negative_field,
    why_no_kernel,
    why_not,
)
from unbounded.kernels._controllers import Weights, weights_with_gradients
from unbounded.kernels._recurrence import (
    RECURRENCE,
    RECURRENCE_BACKWARD,
    Gradients,
    Needs,
)
from unbounded.kernels._reference_gradients import (
    Reference,
    contiguous,
    is_for_reference,
    through_reference,
)
from unbounded.kernels._registry import SESSIONS, Session, apply
from unbounded.kernels._structures import kernel_of
from unbounded.kernels._unroll import UNROLL, UNROLL_BACKWARD
from unbounded.memories import Memory
from unbounded.memories.core.backend import FusedKernels, register_kernels
from unbounded.memories.core.structure import Structure

_STATIC = 6  # number of arguments of RecurrenceFunction before tensors


class Tensors(NamedTuple):
    """The tensors of a recurrence that may have gradients, in the order of its arguments."""

    x: Tensor
    weights: Weights
    state: Sequence[Tensor]

    @classmethod
    def of(cls, flat: Sequence[Any]) -> Tensors:
        """Group a flat sequence of tensors or of their gradients."""
        rest = iter(flat)
        x = next(rest)
        return cls(x, Weights._make(islice(rest, len(Weights._fields))), list(rest))

    @property
    def flat(self) -> tuple[Tensor | None, ...]:
        """Return all tensors in one sequence."""
        return (self.x, *self.weights, *self.state)


def save(ctx: Any, *groups: Sequence[Tensor | None]) -> None:
    """Save groups of tensors for the backward pass."""
    ctx.group_sizes = tuple(map(len, groups))
    ctx.save_for_backward(*chain(*groups))


def saved(ctx: Any) -> Iterator[list[Any]]:
    """Return the saved groups in order."""
    tensors = iter(ctx.saved_tensors)
    return (list(islice(tensors, size)) for size in ctx.group_sizes)


class RecurrenceFunction(torch.autograd.Function):
    """`unbounded::recurrence` with its gradients.

    The tensors are in the order of `Tensors.flat`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        reference: Reference | None,
        structure: str,
        options: tuple[int, ...],
        activations: tuple[str, ...],
        controller: str,
        lengths: Tensor | None,
        *flat: Tensor | None,
    ) -> tuple[Tensor, ...]:
        tensors = Tensors.of(flat)
        with torch.autocast(tensors.x.device.type, enabled=False):
            results, kept = RECURRENCE(
                structure, options, activations, controller, tensors.x, lengths, tensors.weights,
                tensors.state, saves=True,
            )  # fmt: skip
        ctx.reference, ctx.call = reference, (structure, options, activations, controller)
        save(ctx, (lengths,), flat, results, kept)
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (lengths,), flat, results, kept = saved(ctx)
        x, weights, state = Tensors.of(flat)
        needed = ctx.needs_input_grad[_STATIC:]
        if is_for_reference(grads):
            return (None,) * _STATIC + through_reference(
                "recurrence", ctx.reference, lambda run: run(lengths, x, weights, state), flat,
                needed, grads,
            )  # fmt: skip
        of_x, of_weights, of_state = Tensors.of(needed)
        needs = Needs(bool(of_x), any(of_weights), any(of_state))
        # Autocast must not change the precision of torch calls in the operator.
        with torch.autocast(x.device.type, enabled=False):
            gradients = RECURRENCE_BACKWARD(
                *ctx.call, x, lengths, weights, state, results=results, kept=kept,
                grads=contiguous(grads), needs=list(needs),
            )  # fmt: skip
        all_grads = _flat_gradients(ctx.call[-1], Gradients(*gradients), weights, state)
        return (None,) * _STATIC + tuple(
            grad if need else None for grad, need in zip(all_grads, needed, strict=True)
        )


def _flat_gradients(
    controller: str, gradients: Gradients, weights: Weights, state: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Return gradients in the order of `Tensors.flat`; None where the operator has none."""
    of_weights: dict[str, Tensor | None] = dict.fromkeys(Weights._fields)
    if gradients.weights:
        names = weights_with_gradients(controller, weights)
        of_weights |= zip(names, gradients.weights, strict=True)
        of_bias = of_weights["bias_ih"]
        if of_weights["bias_hh"] is None and weights.bias_hh is not None and of_bias is not None:
            # The biases of an LSTM or Elman cell are summed; their equal gradients are two tensors.
            of_weights["bias_hh"] = of_bias.clone()
    of_x: list[Tensor | None] = [*gradients.x] or [None]
    of_state: list[Tensor | None] = [*gradients.state] or [None for _ in state]
    return (*of_x, *of_weights.values(), *of_state)


class UnrollFunction(torch.autograd.Function):
    """`unbounded::unroll` with its gradients. Its tensors: instruction and state."""

    @staticmethod
    def forward(
        ctx: Any,
        reference: Reference | None,
        structure: str,
        options: tuple[int, ...],
        fields: int,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        rest = iter(tensors)
        instruction, state = list(islice(rest, fields)), list(rest)
        results, kept = UNROLL(structure, options, instruction, state)
        ctx.reference, ctx.call = reference, (structure, options)
        save(ctx, instruction, state, results, kept)
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        instruction, state, results, kept = saved(ctx)
        needs = ctx.needs_input_grad[4:]
        if is_for_reference(grads):
            return (None,) * 4 + through_reference(
                "unroll", ctx.reference, lambda run: run(instruction, state),
                (*instruction, *state), needs, grads,
            )  # fmt: skip
        of_read_vectors, *of_state = contiguous(grads)
        if of_read_vectors is None:
            of_read_vectors = torch.zeros_like(results[0])
        of_instruction, of_state0 = UNROLL_BACKWARD(
            *ctx.call, instruction, state, results=results, kept=kept,
            grads=[of_read_vectors, *of_state],
        )  # fmt: skip
        gradients = (*of_instruction, *of_state0)
        return (None,) * 4 + tuple(
            grad if need else None for grad, need in zip(gradients, needs, strict=True)
        )


gpu.register()


def recurrence(
    structure: Structure[Any],
    activations: Sequence[str],
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weights: Weights,
    initial: Sequence[Tensor],
    *,
    reference: Reference | None = None,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Run controller, heads and memory over a whole sequence, fused.

    Args:
        structure: the memory, as `kernel_of` returns it.
        activations: of the heads, in the order of the memory's instruction.
        controller: "lstm", "gru", "elman_tanh", "elman_sigmoid" or "elman_relu".
        x: [T, B, I].
        lengths: int64 [B] in 0..T, or None; beyond its length a row keeps its state, and its h and
            r are 0.
        weights: of the controller, whose input is concat(x_t, r_{t-1}), and of the heads.
        initial: hidden [B, H], (cell [B, H]), read vector [B, R] and the fields of the memory's
            state; fields in `structure.nonnegative` must be at least 0.
        reference: maps (lengths, x, weights, initial) to outputs, read vectors and the final state
            in plain torch; used for second derivatives.

    Returns:
        hidden [T, B, H] and read vectors [T, B, R] of every step, and the final state laid out as
        `initial`.

    Raises:
        ChoiceError: unknown controller or activation.
        ShapeError, DTypeError: a tensor disagrees with the others; the message names it.
        MemoryOverflowError: a memory with overflow="error" lost a cell.
    """
    tensors = Tensors.of(contiguous((x, *weights, *initial)))
    lengths = None if lengths is None else lengths.contiguous()
    call = (structure.name, structure.options, tuple(activations), controller)
    # A program of torch.export has no backward pass, so it saves nothing for one.
    is_exporting = torch.compiler.is_compiling() and torch.compiler.is_exporting()
    needs_grad = any(t is not None and t.requires_grad for t in tensors.flat)
    if torch.is_grad_enabled() and needs_grad and not is_exporting:
        outputs, read_vectors, *final = apply(
            RecurrenceFunction, reference, *call, lengths, *tensors.flat
        )
    else:
        (outputs, read_vectors, *final), _ = RECURRENCE(
            *call, tensors.x, lengths, tensors.weights, tensors.state, saves=False
        )
    return outputs, read_vectors, tuple(final)


def open_session(
    structure: Structure[Any],
    activations: Sequence[str],
    controller: str,
    weights: Weights,
    initial: Sequence[Tensor],
    *,
    room: int = 256,
) -> Session:
    """Start a recurrence that runs a few steps at a time, without gradients.

    The weights are packed once; later changes of a parameter have no effect. The time of a step
    depends on its products and on the rows it uses, but not on the memory's length.

    Args:
        structure, activations, controller, weights, initial: as for `recurrence`.
        room: expected number of steps; it is doubled when exceeded.

    Raises:
        ChoiceError, ShapeError, DTypeError: as for `recurrence`.
        BackendError: the device has no sessions.
    """
    kind = weights.weight_ih.device.type
    if kind not in SESSIONS:
        raise BackendError(
            f"open_session: on {kind} a kernel runs complete sequences, not a few steps at a time."
        )
    session = SESSIONS[kind]
    return session(structure, activations, controller, weights, initial, room)


def unroll(
    structure: Structure[Any],
    instruction: Sequence[Tensor],
    initial: Sequence[Tensor],
    *,
    reference: Reference | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a memory over a sequence of instructions, fused.

    Args:
        structure: the memory.
        instruction: the fields in the memory's order, [B, T, ...].
        initial: the fields of its state; those in `structure.nonnegative` must be at least 0.
        reference: maps (instruction, initial) to read vectors and the final state in plain torch;
            used for second derivatives.

    Returns:
        read vectors [B, T, R] and the final state.

    Raises:
        ShapeError, DTypeError: a tensor disagrees with the others; the message names it.
        MemoryOverflowError: a memory with overflow="error" lost a cell.
    """
    call = (structure.name, structure.options)
    fields, state = contiguous(instruction), contiguous(initial)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in fields + state):
        read_vectors, *final = apply(UnrollFunction, reference, *call, len(fields), *fields, *state)
    else:
        (read_vectors, *final), _ = UNROLL(*call, fields, state)
    return read_vectors, tuple(final)


def _why_not_unroll(
    memory: Memory[Any, Any], instructions: tuple[Tensor, ...], state: tuple[Tensor, ...]
) -> str | None:
    structure = kernel_of(memory)
    reason = why_no_kernel(memory)
    if structure is None or reason is not None:
        return reason
    reason = why_not("unroll", structure, *instructions, *state)
    return reason or negative_field(structure, instructions, state)


def _unroll_memory(
    memory: Memory[Any, Any],
    instructions: tuple[Tensor, ...],
    state: tuple[Tensor, ...],
    reference: Reference,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    structure = kernel_of(memory)
    if structure is None:
        raise BackendError(str(why_no_kernel(memory)))
    return unroll(structure, instructions, state, reference=reference)


register_kernels(FusedKernels(_why_not_unroll, _unroll_memory, check_expected))
