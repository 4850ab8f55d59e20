"""A fused recurrence whose tensors keep their places: what a small model's training step needs.

Beside the kernels a call of `recurrence` costs the making of some thirty tensors, their checks and
a graph of gradients: of a small network on one sequence, most of its time. Here all that is done
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
from unbounded.kernels.structures import Structure


class BoundRecurrence:
    """Controller, heads and memory over T steps, forward and backward, on tensors of its own.

    The caller fills `x`, and `grad_outputs` before a backward pass, in place. The backward pass is
    that of the last forward pass; the gradient of the state is neither taken in nor made.

    Args:
        structure: the memory, of as many rows after T steps as `initial` has.
        activations, controller: as of `recurrence`.
        weights: parameters, contiguous; they are read where they are, in each call.
        initial: the state in which a call begins, contiguous; read where it is, in each call.
        steps: T, at least 1.
        of_x: whether a backward pass makes the gradient of `x`.
    Fields:
        x: [T, B, I]. outputs: h of every step, [T, B, H]. grad_outputs: of them.
        final: the state after the last step, laid out as `initial`.
        gradients: of the weights, by name; a bias_hh that is added to a bias_ih has none.
        grad_x: of `x`, or None.
    Raises:
        ShapeError, DTypeError: a tensor disagrees with the others, or the memory grows.
    """

    def __init__(
        self,
        structure: Structure,
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
        weights = Weights._make(each if each is None else each.detach() for each in weights)
        like, batch = weights.weight_ih, initial[0].shape[0]
        self.x = like.new_zeros(steps, batch, like.shape[-1] - structure.reading)
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
        made = Forward.new(sizes, like)
        self.outputs, self.final = made.results["outputs"], [made.results[name] for name in last]
        self.grad_outputs = like.new_zeros(self.outputs.shape)
        gradients = new_gradients(call, sizes, Needs(x=of_x, weights=True, state=False))
        self.gradients: Final = dict(
            zip(weights_with_gradients(controller, weights), gradients.weights, strict=True)
        )
        self.grad_x: Final = gradients.x[0] if of_x else None
        self._structure, self._faults = structure, made.faults
        buffers = sizes.kept
        self._begin_zero = [made.kept[name] for name in buffers if buffers[name].begins_zero]
        self._begin_zero += [] if made.faults is None else [made.faults]
        self._forward = forward_call(sizes, call, tensors, made)
        of_results = dict.fromkeys(sizes.results) | {"outputs": self.grad_outputs}
        self._backward, beside = backward_call(
            sizes, call, {**tensors, **made.results, **made.kept}, of_results, gradients
        )
        self._names = (structure.name, controller, like.element_size())
        # A call holds addresses, and no tensors.
        self._alive = (weights, list(initial), made, beside)

    def forward(self) -> None:
        """From `x`, the weights and the initial state to `outputs` and `final`.

        Raises:
            MemoryOverflowError: the memory is strict and lost something.
        """
        for tensor in self._begin_zero:
            tensor.zero_()
        handle = Handle(*self._names, self._forward)
        handle.run(self._forward)
        handle.finish(self._forward)
        self._structure.check_faults(self._faults)

    def backward(self) -> None:
        """From `grad_outputs` to `gradients`."""
        run_backward(*self._names, self._backward)
