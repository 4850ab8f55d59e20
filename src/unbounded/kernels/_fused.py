"""The interface of the fused kernels: a whole sequence with or without controller and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unbounded.errors import BackendError
from unbounded.kernels import gpu
from unbounded.kernels._autograd import (
    RecurrenceFunction,
    Reference,
    Tensors,
    UnrollFunction,
    contiguous,
)
from unbounded.kernels._availability import check_expected, why_not
from unbounded.kernels._controllers import Weights
from unbounded.kernels._recurrence import RECURRENCE
from unbounded.kernels._registry import SESSIONS, Session, apply
from unbounded.kernels._structures import kernel_of, negative_field, why_no_kernel
from unbounded.kernels._unroll import UNROLL
from unbounded.memories import Memory
from unbounded.memories.core.backend import FusedKernels, register_kernels
from unbounded.memories.core.structure import Structure

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

    The weights are packed once; later changes of a parameter have no effect. A step costs the
    products and the rows it touches, however long the memory is.

    Args:
        structure, activations, controller, weights, initial: as for `recurrence`.
        room: expected number of steps; it is doubled when exceeded.

    Raises:
        ChoiceError, ShapeError, DTypeError: as for `recurrence`.
        BackendError: the device has no sessions.
    """
    kind = weights.weight_ih.device.type
    if kind not in SESSIONS:
        raise BackendError(f"open_session: no kernel for {kind} is run a few steps at a time.")
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
