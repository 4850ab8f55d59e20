"""The delta rule of a DeltaNet or DeltaProduct, fused with the convolution before it.

Two torch operators, `unbounded::delta_rule` and its backward pass. They accept contiguous tensors
and have no autograd formula; the function `delta_rule` adds it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.kernels._call import DeltaCall, point
from unbounded.kernels._library import run_delta_rule
from unbounded.kernels._reference_gradients import (
    Reference,
    contiguous,
    is_for_reference,
    through_reference,
)
from unbounded.kernels._registry import apply, define, implement
from unbounded.kernels._sizes import check_dtype, require

#: Tokens between two copies of H, from which the backward pass starts; also in csrc/delta_rule.h.
BLOCK: Final = 16


class DeltaInputs(NamedTuple):
    """The inputs of the delta rule: B sequences of T tokens, with n steps each; heads of size D.

    Fields:
        projected: [B, T, C] with C = (1 + 2 n) heads D: the queries of all heads, then the keys of
            each step, then the values of each step.
        recent: [B, taps - 1, C], the inputs of the convolution before the first token; [B, 0, C]
            without a convolution.
        weights: of the convolution, [taps, C]; None without one.
        strengths: [B, T, n, heads].
        state: H, [B, heads, D, D].
    """

    projected: Tensor
    recent: Tensor
    weights: Tensor | None
    strengths: Tensor
    state: Tensor

    def call(self) -> DeltaCall:
        """Check the tensors, and create a call with them.

        Raises:
            ShapeError, DTypeError: one disagrees with the others; the message names it.
        """
        for name, tensor, dimensions in (
            ("projected", self.projected, 3),
            ("recent", self.recent, 3),
            ("strengths", self.strengths, 4),
            ("state", self.state, 4),
        ):
            if tensor.dim() != dimensions:
                got = list(tensor.shape)
                raise ShapeError(f"{name}: expected {dimensions} dimensions, got {got}.")
        batch, tokens = self.projected.shape[:2]
        steps, heads = self.strengths.shape[2:]
        size = self.state.shape[-1]
        channels = (1 + 2 * steps) * heads * size
        taps = 0 if self.weights is None else len(self.weights)
        shapes = {
            "projected": (batch, tokens, channels),
            "recent": (batch, max(0, taps - 1), channels),
            "weights": (taps, channels),
            "strengths": (batch, tokens, steps, heads),
            "state": (batch, heads, size, size),
        }
        check_dtype("projected", self.projected)
        require(self._asdict(), shapes, self.projected, ("weights",))
        call = DeltaCall(batch=batch, tokens=tokens, heads=heads, size=size, steps=steps, taps=taps)
        point(call, self._asdict())
        return call


class DeltaResults(NamedTuple):
    """What the operator returns.

    Fields:
        read: o of every token, [B, T, heads, D]. state_last: H after the last token.
        differences: v - H^T k of every step, [B, heads, T, n, D]; empty unless saving.
        checkpoints: H after every BLOCK tokens, [B, heads, T // BLOCK, D, D]; empty unless saving.
    """

    read: Tensor
    state_last: Tensor
    differences: Tensor
    checkpoints: Tensor


def _new_results(inputs: DeltaInputs, saves: bool) -> DeltaResults:
    projected, _, _, strengths, state = inputs
    (batch, tokens), (steps, heads) = projected.shape[:2], strengths.shape[2:]
    size, new = state.shape[-1], projected.new_empty
    return DeltaResults(
        new(batch, tokens, heads, size),
        new(batch, heads, size, size),
        new((batch, heads, tokens, steps, size) if saves else 0),
        new((batch, heads, tokens // BLOCK, size, size) if saves else 0),
    )


def _forward(*inputs: Any, saves: bool) -> DeltaResults:
    given = DeltaInputs(*inputs)
    call, results = given.call(), _new_results(given, saves)
    point(call, results._asdict())
    run_delta_rule(False, given.projected.element_size(), call)
    return results


def _forward_fake(*inputs: Any, saves: bool) -> DeltaResults:
    return _new_results(DeltaInputs(*inputs), saves)


def _new_gradients(inputs: DeltaInputs) -> list[Tensor]:
    weights = inputs.projected.new_empty(0)
    if inputs.weights is not None:
        weights = weights.new_empty(len(inputs.projected), *inputs.weights.shape)
    projected, recent, _, strengths, state = inputs
    return [
        torch.empty_like(projected), torch.empty_like(recent), weights,
        torch.empty_like(strengths), torch.empty_like(state),
    ]  # fmt: skip


def _backward(
    *inputs: Any,
    results: list[Tensor],
    grad_read: Tensor,
    grad_state_last: Tensor | None,
) -> list[Tensor]:
    given, forward = DeltaInputs(*inputs), DeltaResults(*results)
    call, gradients = given.call(), _new_gradients(given)
    shapes = {
        name: tuple(tensor.shape) for name, tensor in _new_results(given, True)._asdict().items()
    }
    require(forward._asdict(), shapes, given.projected)
    of_results = {"read": grad_read, "state_last": grad_state_last}
    require(of_results, shapes, given.projected, ("state_last",))
    names = [f"grad_{name}" for name in DeltaInputs._fields]
    point(call, forward._asdict())
    point(call, {f"grad_{name}": tensor for name, tensor in of_results.items()})
    point(call, dict(zip(names, gradients, strict=True)))
    run_delta_rule(True, given.projected.element_size(), call)
    return gradients


def _backward_fake(*inputs: Any, **_: Any) -> list[Tensor]:
    return _new_gradients(DeltaInputs(*inputs))


_INPUTS: Final = (
    "(Tensor projected, Tensor recent, Tensor? weights, Tensor strengths, Tensor state, *, "
)
DELTA_RULE = define(
    "delta_rule",
    f"{_INPUTS}bool saves) -> "
    "(Tensor read, Tensor state_last, Tensor differences, Tensor checkpoints)",
    _forward_fake,
)
DELTA_RULE_BACKWARD = define(
    "delta_rule_backward",
    f"{_INPUTS}Tensor[] results, Tensor grad_read, Tensor? grad_state_last) -> Tensor[]",
    _backward_fake,
)
implement("delta_rule", "cpu", _forward)
implement("delta_rule_backward", "cpu", _backward)


class DeltaFunction(torch.autograd.Function):
    """`unbounded::delta_rule` with its gradients."""

    @staticmethod
    def forward(ctx: Any, reference: Reference, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        results = DELTA_RULE(*inputs, saves=True)
        ctx.reference = reference
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(False)
        read, state_last, *_ = results
        return read, state_last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        count, saved = len(DeltaInputs._fields), ctx.saved_tensors
        inputs, results = saved[:count], saved[count:]
        needs = ctx.needs_input_grad[1:]
        if is_for_reference(grads):
            of_reference = through_reference(
                "delta rule", ctx.reference, lambda run: run(*inputs), inputs, needs, grads
            )
            return (None, *of_reference)
        grad_read, grad_state_last = contiguous(grads)
        if grad_read is None:
            grad_read = torch.zeros_like(results[0])
        gradients: list[Tensor] = DELTA_RULE_BACKWARD(
            *inputs, results=list(results), grad_read=grad_read, grad_state_last=grad_state_last
        )
        projected, recent, weights, *rest = gradients
        summed = None if inputs[2] is None else weights.sum(0)
        every = (projected, recent, summed, *rest)
        needed = [grad if need else None for grad, need in zip(every, needs, strict=True)]
        return (None, *needed)


def delta_rule(inputs: DeltaInputs, *, reference: Reference) -> tuple[Tensor, Tensor]:
    """Run the convolution and the delta rule over all tokens, fused.

    Args:
        inputs: see there.
        reference: maps the fields of `inputs` to the results in plain torch; used for second
            derivatives.
    Returns:
        o of every token, [B, T, heads, D], and H after the last token, [B, heads, D, D].
    Raises:
        ShapeError, DTypeError: a tensor disagrees with the others; the message names it.
    """
    given = contiguous(inputs)
    # A program of torch.export has no backward pass, so it saves nothing for one.
    is_exporting = torch.compiler.is_compiling() and torch.compiler.is_exporting()
    needs_grad = any(tensor is not None and tensor.requires_grad for tensor in given)
    if torch.is_grad_enabled() and needs_grad and not is_exporting:
        read, state = apply(DeltaFunction, reference, *given)
    else:
        read, state, _, _ = DELTA_RULE(*given, saves=False)
    return read, state
