"""Gradients of both operators, and the way to the reference where a kernel has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.checks import is_batched
from unbounded.errors import BackendError, say_once
from unbounded.kernels._controllers import Weights, weights_with_gradients
from unbounded.kernels._recurrence import (
    RECURRENCE,
    RECURRENCE_BACKWARD,
    Gradients,
    Needs,
)
from unbounded.kernels._unroll import UNROLL, UNROLL_BACKWARD

#: From the tensors of a call to its results, in plain torch; see `recurrence` and `unroll`.
Reference = Callable[..., Sequence[Tensor]]

_STATIC = 6  # arguments of RecurrenceFunction before the tensors


class Tensors(NamedTuple):
    """The tensors of a recurrence that may have gradients, in the order of its arguments."""

    x: Tensor
    weights: Weights
    state: Sequence[Tensor]

    @classmethod
    def of(cls, flat: Sequence[Any]) -> Tensors:
        """Put together what `flat` has laid out one after the other; of gradients too."""
        rest = iter(flat)
        x = next(rest)
        return cls(x, Weights._make(islice(rest, len(Weights._fields))), list(rest))

    @property
    def flat(self) -> tuple[Tensor | None, ...]:
        """One after the other."""
        return (self.x, *self.weights, *self.state)


def save(ctx: Any, *groups: Sequence[Tensor | None]) -> None:
    """Keep groups of tensors for the backward pass."""
    ctx.group_sizes = tuple(map(len, groups))
    ctx.save_for_backward(*chain(*groups))


def saved(ctx: Any) -> Iterator[list[Any]]:
    """The groups that were kept, in order."""
    tensors = iter(ctx.saved_tensors)
    return (list(islice(tensors, size)) for size in ctx.group_sizes)


class RecurrenceFunction(torch.autograd.Function):
    """`unbounded::recurrence` with its gradients; the tensors are `Tensors.flat`."""

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
        needs_each = ctx.needs_input_grad[_STATIC:]
        if _is_for_reference(grads):
            return (None,) * _STATIC + through_reference(
                "recurrence", ctx.reference, lambda run: run(lengths, x, weights, state), flat,
                needs_each, grads,
            )  # fmt: skip
        of_x, of_weights, of_state = Tensors.of(needs_each)
        needs = Needs(bool(of_x), any(of_weights), any(of_state))
        # What the operator asks of torch is not for autocast to make half precision.
        with torch.autocast(x.device.type, enabled=False):
            made = RECURRENCE_BACKWARD(
                *ctx.call, x, lengths, weights, state, results=results, kept=kept,
                grads=contiguous(grads), needs=list(needs),
            )  # fmt: skip
        all_grads = _beside(ctx.call[-1], Gradients(*made), weights, state)
        return (None,) * _STATIC + tuple(
            grad if need else None for grad, need in zip(all_grads, needs_each, strict=True)
        )


def _beside(
    controller: str, made: Gradients, weights: Weights, state: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """The gradients in the order of `Tensors.flat`, None where the operator made none."""
    of_weights: dict[str, Tensor | None] = dict.fromkeys(Weights._fields)
    if made.weights:
        names = weights_with_gradients(controller, weights)
        of_weights |= zip(names, made.weights, strict=True)
        of_bias = of_weights["bias_ih"]
        if of_weights["bias_hh"] is None and weights.bias_hh is not None and of_bias is not None:
            # The biases of an LSTM or Elman cell are one sum; their gradients are two tensors.
            of_weights["bias_hh"] = of_bias.clone()
    of_x: list[Tensor | None] = [*made.x] or [None]
    of_state: list[Tensor | None] = [*made.state] or [None for _ in state]
    return (*of_x, *of_weights.values(), *of_state)


class UnrollFunction(torch.autograd.Function):
    """`unbounded::unroll` with its gradients; tensors are instruction and state."""

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
        if _is_for_reference(grads):
            return (None,) * 4 + through_reference(
                "unroll", ctx.reference, lambda run: run(instruction, state),
                (*instruction, *state), needs, grads,
            )  # fmt: skip
        of_readings, *of_state = contiguous(grads)
        if of_readings is None:
            of_readings = torch.zeros_like(results[0])
        of_instruction, of_state0 = UNROLL_BACKWARD(
            *ctx.call, instruction, state, results=results, kept=kept,
            grads=[of_readings, *of_state],
        )  # fmt: skip
        made = (*of_instruction, *of_state0)
        return (None,) * 4 + tuple(
            grad if need else None for grad, need in zip(made, needs, strict=True)
        )


def contiguous(grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The same gradients, contiguous."""
    return [None if grad is None else grad.contiguous() for grad in grads]


def _is_for_reference(grads: Sequence[Tensor | None]) -> bool:
    """Whether a backward pass is one that no kernel can do."""
    if torch.compiler.is_compiling():
        return False
    return torch.is_grad_enabled() or any(grad is not None and is_batched(grad) for grad in grads)


def through_reference(
    what: str,
    reference: Reference | None,
    call: Callable[[Reference], Sequence[Tensor]],
    tensors: Sequence[Tensor | None],
    needs: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients from the reference in plain torch, which can be differentiated again if asked for.

    Args:
        what: the kernel's name for messages. reference: or None.
        call: calls the reference with the tensors of the call.
        tensors: those that gradients are asked for. needs: which of them.
        grads: of the results, None where there is none; of vmap many at once.
    Raises:
        BackendError: there is no reference.
    """
    again = torch.is_grad_enabled()
    asked, lack = (
        ("with create_graph=True", "has no double backward")
        if again
        else ("for many gradients at once (vmap, is_grads_batched)", "takes one")
    )
    if reference is None:
        raise BackendError(
            f"backward {asked}: the fused {what} {lack} and was given no reference to fall back "
            "on; use backend='reference'"
        )
    say_once(
        f"backward {asked}: the fused {what} {lack}, so the gradients come from the reference path"
    )
    with torch.enable_grad():
        results = call(reference)
    pairs = [
        (result, grad) for result, grad in zip(results, grads, strict=True) if grad is not None
    ]
    wanted = [t for t, need in zip(tensors, needs, strict=True) if need and t is not None]
    made = iter(
        torch.autograd.grad(
            [result for result, _ in pairs],
            wanted,
            [grad for _, grad in pairs],
            create_graph=again,
            allow_unused=True,
        )
    )
    return tuple(next(made) if need else None for need in needs)
