"""Gradients of the fused recurrence, and the way to the reference where a kernel has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unbounded.errors import BackendError, say_once
from unbounded.kernels._operators import RECURRENCE
from unbounded.kernels._operators_backward import RECURRENCE_BACKWARD


class Recurrence(torch.autograd.Function):
    """The operators with their gradients; arguments are those of `unbounded::recurrence`."""

    @staticmethod
    def forward(
        ctx: Any,
        reference: Callable[..., Any] | None,
        structure: str,
        controller: str,
        lengths: Tensor | None,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, ...]:
        x, weight_ih, weight_hh, bias_ih, bias_hh, head_weight, head_bias, *initial = tensors
        with torch.autocast("cpu", enabled=False):
            results = RECURRENCE(
                structure, controller, x, lengths, weight_ih, weight_hh, bias_ih, bias_hh,
                head_weight, head_bias, *initial, True,
            )  # fmt: skip
        ctx.reference, ctx.structure, ctx.controller = reference, structure, controller
        ctx.save_for_backward(lengths, *tensors, *results)
        ctx.set_materialize_grads(False)
        return tuple(results[:6])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        lengths, *saved = ctx.saved_tensors
        tensors, results = saved[:12], saved[12:]
        x, weight_ih, weight_hh, _, bias_hh, head_weight, _, *initial = tensors
        needs = ctx.needs_input_grad[4:]
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return (None,) * 4 + through_reference(ctx, lengths, tensors, needs, grads)
        contiguous = [None if grad is None else grad.contiguous() for grad in grads]
        # What the operator asks of torch is not for autocast to make half precision.
        with torch.autocast("cpu", enabled=False):
            made = RECURRENCE_BACKWARD(
                ctx.structure, ctx.controller,
                [x, weight_ih, head_weight, *initial], lengths, weight_hh,
                results, contiguous, needs[0], any(needs[1:7]),
            )  # fmt: skip
        return (None,) * 4 + needed(ctx.controller, bias_hh, made, needs)


def needed(
    controller: str, bias_hh: Tensor | None, made: list[Tensor], needs: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """What a backward operator made, for the tensors that need it.

    Args:
        bias_hh: the controller's second bias, if it has one.
        made: gradients of x, weight_ih, weight_hh, the joint bias, bias_hh of a GRU, head weight,
            head bias, initial state.
        needs: of x, weight_ih, weight_hh, bias_ih, bias_hh, head weight and bias, initial state.
    """
    *first, of_bias, of_bias_hh = made[:5]
    if controller != "gru" and bias_hh is not None:
        # The biases of an LSTM or Elman cell are one sum; their gradients must not be one tensor.
        of_bias_hh = of_bias.clone()
    given = (*first, of_bias, of_bias_hh, *made[5:])
    return tuple(grad if need else None for grad, need in zip(given, needs, strict=True))


def through_reference(
    ctx: Any,
    lengths: Tensor | None,
    tensors: list[Tensor | None],
    needs: tuple[bool, ...],
    grads: tuple[Tensor | None, ...],
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, from the reference in plain torch."""
    if ctx.reference is None:
        raise BackendError(
            "the fused recurrence has no double backward and was given no reference to fall back "
            "on; use backend='reference'"
        )
    say_once(
        "backward with create_graph=True: the fused recurrence has no double backward, so the "
        "gradients come from the reference path"
    )
    results = ctx.reference(ctx.structure, ctx.controller, lengths, tensors)
    return differentiate_reference(results, grads, tensors, needs)


def differentiate_reference(
    results: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    tensors: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Gradients of `tensors` where needed, as functions that can be differentiated again."""
    pairs = [
        (result, grad) for result, grad in zip(results, grads, strict=True) if grad is not None
    ]
    wanted = [t for t, need in zip(tensors, needs, strict=True) if need and t is not None]
    made = iter(
        torch.autograd.grad(
            [result for result, _ in pairs],
            wanted,
            [grad for _, grad in pairs],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple(next(made) if need else None for need in needs)
