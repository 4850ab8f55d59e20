"""A fused recurrence on static buffers, for the training step of a small model.

A call of `recurrence` also creates about thirty tensors, checks them and builds a graph of
gradients. For a small network on one sequence this takes most of the time. Here it is done once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.kernels._checks import require
from unbounded.kernels._controllers import Weights, weights_with_gradients
from unbounded.kernels._library import Handle, run_backward
from unbounded.kernels._recurrence import (
    Forward,
    Needs,
    RecurrenceCall,
    backward_call,
    forward_call,
    new_gradients,
)
from unbounded.memories.core.structure import Structure


class StaticRecurrence:
    """Controller, heads and memory over T steps, forward and backward, on static buffers.

    The caller fills `x`, and `grad_outputs` before a backward pass, in place. The backward pass is
    that of the last forward pass; gradients of the state are neither used nor computed.

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
