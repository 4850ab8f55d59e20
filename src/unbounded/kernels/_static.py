"""A fused recurrence and an output layer on static buffers, for the training step of a small model.

A call of `recurrence` also creates about thirty tensors, checks them and builds a graph of
gradients. For a small network on one sequence this takes most of the time, and so do torch's
separate calls for the output layer and its cross entropy. The classes of this module do this work
only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import DTypeError, ShapeError
from unbounded.kernels._call import OutputCall
from unbounded.kernels._controllers import Weights, weights_with_gradients
from unbounded.kernels._library import Handle, most_symbols, run_backward, run_output_loss
from unbounded.kernels._recurrence import (
    Forward,
    Needs,
    RecurrenceCall,
    backward_call,
    forward_call,
    new_gradients,
)
from unbounded.kernels._sizes import check_dtype, require
from unbounded.memories.core.structure import Structure


class StaticRecurrence:
    """Controller, heads and memory over T steps, forward and backward, on static buffers.

    The caller fills `x` in place, and also `grad_outputs` before a backward pass. The backward pass
    belongs to the last forward pass. Gradients of the state are neither used nor computed.

    Args:
        structure: the memory, which after T steps must have as many rows as `initial`.
        activations, controller: as for `recurrence`.
        weights: contiguous parameters, which each call reads in place.
        initial: the initial state of a call, contiguous, which each call reads in place.
        steps: T, at least 1.
        of_x: whether a backward pass computes the gradient of `x`.
    Fields:
        x: [T, B, I]. outputs: h of every step, [T, B, H]. grad_outputs: gradient of `outputs`.
        final: the state after the last step, laid out as `initial`.
        gradients: of the weights, by name; a bias_hh that is added to a bias_ih has none.
        grad_x: of `x`, or None.
    Raises:
        ShapeError, DTypeError: a tensor disagrees with the others, or the memory grows.
    """

    def __init__(
        self,
        structure: Structure[Any],
        activations: Sequence[str],
        controller: str,
        weights: Weights,
        initial: Sequence[Tensor],
        steps: int,
        *,
        of_x: bool = False,
    ) -> None:
        if steps < 1:
            raise ShapeError(f"steps: expected at least 1, got {steps}.")
        weights = Weights._make(w if w is None else w.detach() for w in weights)
        like, batch = weights.weight_ih, initial[0].shape[0]
        self.x = like.new_zeros(steps, batch, like.shape[-1] - structure.read_vector)
        call = RecurrenceCall(
            structure.name, structure.options, tuple(activations), controller, self.x, None,
            weights, list(initial),
        )  # fmt: skip
        sizes = call.sizes
        tensors = call.checked(sizes)
        last = [f"{name}_last" for name in sizes.state]
        require(
            dict(zip(last, initial, strict=True)),
            {name: sizes.results[name] for name in last},
            like,
        )
        written = Forward.new(sizes, like)
        self.outputs, self.final = (
            written.results["outputs"],
            [written.results[name] for name in last],
        )
        self.grad_outputs = like.new_zeros(self.outputs.shape)
        gradients = new_gradients(call, sizes, Needs(x=of_x, weights=True, state=False))
        self.gradients: Final = dict(
            zip(weights_with_gradients(controller, weights), gradients.weights, strict=True)
        )
        self.grad_x: Final = gradients.x[0] if of_x else None
        self._structure, self._errors = structure, written.errors
        buffers = sizes.kept
        self._zeroed = [written.kept[name] for name in buffers if buffers[name].starts_zero]
        self._zeroed += [] if written.errors is None else [written.errors]
        self._forward = forward_call(sizes, call, tensors, written)
        of_results = dict.fromkeys(sizes.results) | {"outputs": self.grad_outputs}
        self._backward, further = backward_call(
            sizes, call, {**tensors, **written.results, **written.kept}, of_results, gradients
        )
        self._names = (structure.name, controller, like.element_size())
        # A call holds addresses, not tensors.
        self._alive = (weights, list(initial), written, further)

    def forward(self) -> None:
        """Compute `outputs` and `final` from `x`, the weights and the initial state.

        Raises:
            MemoryOverflowError: a memory with overflow="error" lost a cell.
        """
        for tensor in self._zeroed:
            tensor.zero_()
        handle = Handle(*self._names, self._forward)
        handle.run(self._forward)
        handle.finish(self._forward)
        self._structure.check_errors(self._errors)

    def backward(self) -> None:
        """Compute `gradients` from `grad_outputs`."""
        run_backward(*self._names, self._backward)


class OutputResult(NamedTuple):
    """Result of `StaticOutput.run`.

    Fields:
        nats: the summed cross entropy where the mask is True; one number.
        logits: [T, B, V].
        grad_outputs: [T, B, H], gradient of the sum times the scale.
    """

    nats: Tensor
    logits: Tensor
    grad_outputs: Tensor


class StaticOutput:
    """Compute logits = weight h + bias, their summed cross entropy, and all gradients in one call.

    Args:
        weight: [V, H], V at most `most_symbols()`; on the CPU, float32 or float64, contiguous. Each
            call reads it in place.
        bias: [V], likewise, or None.
    Fields:
        grad_weight, grad_bias: of the last call, always the same tensors; None without a bias.
    Raises:
        ShapeError, DTypeError: there are more symbols, or the bias disagrees with the weight.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        symbols, hidden = weight.shape
        if symbols > most_symbols():
            raise ShapeError(f"weight: expected at most {most_symbols()} symbols, got {symbols}.")
        check_dtype("weight", weight)
        require({"weight": weight}, {"weight": (symbols, hidden)}, weight)
        if bias is not None:
            require({"bias": bias}, {"bias": (symbols,)}, weight)
        self.grad_weight = torch.empty_like(weight)
        self.grad_bias = None if bias is None else torch.empty_like(bias)
        self._call = call = OutputCall(hidden=hidden, symbols=symbols)
        call.weight, call.grad_weight = weight.data_ptr(), self.grad_weight.data_ptr()
        if bias is not None and self.grad_bias is not None:
            call.bias, call.grad_bias = bias.data_ptr(), self.grad_bias.data_ptr()
        self._weight, self._bias = weight, bias  # kept alive, because a call holds only addresses

    def run(self, outputs: Tensor, targets: Tensor, mask: Tensor, scale: float) -> OutputResult:
        """Compute the summed loss and its gradients times `scale`.

        Args:
            outputs: h of every step, [T, B, H], contiguous.
            targets: [B, T] of symbols 0 to V - 1 where the mask is True; int64.
            mask: [B, T], the steps that count; bool.
        Raises:
            ShapeError, DTypeError: a tensor disagrees with the others.
            IndexError: a target under the mask is not a symbol.
        """
        call = self._call
        steps, batch = outputs.shape[:2]
        require({"outputs": outputs}, {"outputs": (steps, batch, call.hidden)}, self._weight)
        if targets.shape != (batch, steps) or mask.shape != (batch, steps):
            raise ShapeError(
                f"targets, mask: expected [{batch}, {steps}], got {list(targets.shape)} and "
                f"{list(mask.shape)}."
            )
        if targets.dtype != torch.int64 or mask.dtype != torch.bool:
            raise DTypeError(
                f"targets, mask: expected int64 and bool, got {targets.dtype} and {mask.dtype}."
            )
        result = OutputResult(
            outputs.new_empty(()),
            outputs.new_empty(steps, batch, call.symbols),
            torch.empty_like(outputs),
        )
        call.steps, call.batch, call.scale = steps, batch, scale
        call.target_strides[:] = targets.stride()
        call.mask_strides[:] = mask.stride()
        call.outputs, call.targets, call.mask = (
            tensor.data_ptr() for tensor in (outputs, targets, mask)
        )
        call.nats, call.logits, call.grad_outputs = (tensor.data_ptr() for tensor in result)
        run_output_loss(outputs.element_size(), call)
        return result
