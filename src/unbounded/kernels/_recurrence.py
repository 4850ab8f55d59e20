"""The fused recurrence of controller, heads and memory: its face in Python."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unbounded.kernels._autograd import Recurrence
from unbounded.kernels._checks import ControllerWeights, check_recurrence, check_sequence
from unbounded.kernels._operators import RECURRENCE
from unbounded.kernels._registry import apply
from unbounded.kernels._shapes import CONTROLLERS, SUPERPOSITIONS
from unbounded.kernels._superposition import superposition
from unbounded.kernels._superposition_shapes import MixtureOptions, refuse_options

Results = tuple[Tensor, tuple[Tensor, ...], Tensor]


def recurrence(
    structure: str,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weights: ControllerWeights,
    head_weight: Tensor,
    head_bias: Tensor | None,
    initial: tuple[Tensor, ...],
    *,
    reference: Callable[..., Results] | None = None,
    options: MixtureOptions | None = None,
) -> Results:
    """Controller, heads and memory over a whole sequence, fused.

    Args:
        structure: "stack", "queue", "deque", "superposition_stack" or "superposition_list".
        controller: "lstm", "gru", "elman_tanh", "elman_sigmoid" or "elman_relu".
        x: [T, B, I].
        lengths: int64 [B] in 0..T, or None; beyond its length a row keeps its state and puts out 0.
        weights: of the controller, whose input is concat(x_t, r_{t-1}).
        head_weight: [K, H]; rows in the order of the memory's instruction.
        head_bias: [K] or None.
        initial: hidden [B, H], (cell [B, H]), reading [B, R], values [B, N, M], strengths [B, N];
            strengths are not negative. Superposition stacks and lists have cells [B, S, N] instead
            of values and strengths; how many actions there are follows from K.
        reference: the same function in plain torch, with the same arguments and results; used
            where gradients must themselves be differentiable.
        options: of a superposition stack or list; None takes the defaults.

    Returns:
        hidden [T, B, H], the final state laid out as `initial`, and its values
        [B, N + T, M] (deque: [B, N + 2T, M]), or its cells.

    Raises:
        BackendError: the kernels cannot serve the call; the message says why.
        ShapeError: an axis disagrees; the message names the argument.
        DTypeError: a dtype disagrees.
        MemoryOverflowError: a cell was lost, and the options say `strict`.
    """
    flat = None if reference is None else _flat_reference(reference)
    if structure in SUPERPOSITIONS:
        return superposition(
            structure, controller, x, lengths, weights, head_weight, head_bias, initial,
            flat, options or MixtureOptions(),
        )  # fmt: skip
    refuse_options(structure, options)
    if head_bias is None:
        head_bias = head_weight.new_zeros(head_weight.shape[0])
    checked = check_recurrence(structure, controller, weights, head_weight, head_bias, initial)
    x, lengths = check_sequence(x, lengths, checked)
    tensors = (x, *checked)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        results = apply(
            Recurrence,
            flat,
            structure,
            controller,
            lengths,
            *tensors,
        )
    else:
        results = RECURRENCE(structure, controller, x, lengths, *checked, False)
    outputs, hidden_last, cell_last, reading_last, values, strengths = results[:6]
    cells = (cell_last,) if CONTROLLERS[controller].has_cell else ()
    return outputs, (hidden_last, *cells, reading_last, values, strengths), values


def _flat_reference(reference: Callable[..., Results]) -> Callable[..., tuple[Tensor, ...]]:
    def flat(
        structure: str, controller: str, lengths: Tensor | None, tensors: list[Tensor]
    ) -> tuple[Tensor, ...]:
        x, weight_ih, weight_hh, bias_ih, bias_hh, head_weight, head_bias, *initial = tensors
        if not CONTROLLERS[controller].has_cell:
            del initial[1]
        outputs, final, _ = reference(
            structure, controller, x, lengths,
            ControllerWeights(weight_ih, weight_hh, bias_ih, bias_hh),
            head_weight, head_bias, tuple(initial),
        )  # fmt: skip
        if CONTROLLERS[controller].has_cell:
            return (outputs, *final)
        return (outputs, final[0], x.new_empty(x.shape[1], 0), *final[1:])

    return flat
