"""A MemoryRNN that is trained piece by piece without torch's graph: state and gradients in place."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn

from unbounded import kernels
from unbounded.layers.controllers import WeightedController
from unbounded.layers.fused import (
    flatten_state,
    has_hooks,
    kernel_arguments,
    kernel_weights,
    why_not_fused,
)
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.recurrence import LoopState
from unbounded.layers.state import MemoryRNNState, joined, parted
from unbounded.memories.state_field import StateField

#: Numbers of a state beyond which copying it from piece to piece is more than a trifle.
_MOST_NUMBERS: Final = 2**18


class BoundLayer:
    """A MemoryRNN on pieces of sequences, forward and backward, whose state goes on by itself.

    The parameters are the layer's own, as they are at each call. A memory with a capacity has all
    its rows from the beginning; an empty row and none are the same.

    Args:
        layer: for which `why_not_bound` has no reason.
        batch_size: B.
    """

    def __init__(self, layer: MemoryRNN, batch_size: int) -> None:
        controller = layer.controller
        assert isinstance(controller, WeightedController)
        self._layer, self._arguments = layer, kernel_arguments(controller, layer.memory)
        self._weights = kernel_weights(controller, layer.heads)
        with torch.no_grad():
            self._first = self._full(layer.initial_loop_state(batch_size))
            self._now = [tensor.clone() for tensor in self._first]
        self._of_steps: dict[int, kernels.BoundRecurrence] = {}
        self._run = self._bound(1)
        size = controller.state_size
        hidden, (reading, *memory) = tuple(self._now[:size]), self._now[size:]
        self._state = joined([LoopState(hidden, reading, layer.memory.State(*memory))])

    @property
    def state(self) -> MemoryRNNState:
        """What is carried on: always the same tensors, which the next piece overwrites."""
        return self._state

    def take(self, state: Any) -> None:
        """Go on from a state of the layer, without its gradient; None begins anew."""
        if state is self._state:
            return
        parts = self._first
        if state is not None:
            memory, size = self._layer.memory, self._layer.controller.state_size
            (part,) = parted(state, 1, size, memory.State)
            parts = self._full(part)
        torch._foreach_copy_(self._now, [part.detach() for part in parts])

    def forward(self, x: Tensor) -> Tensor:
        """Run over x [T, B, I]; h of every step, [T, B, H], overwritten by the next piece.

        Raises:
            MemoryOverflowError: the memory is strict and lost something.
        """
        self._run = run = self._bound(len(x))
        run.x.copy_(x)
        run.forward()
        return run.outputs

    def backward(self, grad: Tensor) -> None:
        """From the gradient [T, B, H] of what the last `forward` gave to the parameters' `grad`."""
        run = self._run
        run.grad_outputs.copy_(grad)
        run.backward()
        for name, weight in self._weights._asdict().items():
            if weight is None:
                continue
            if name in run.gradients:
                weight.grad = run.gradients[name]
            else:
                # The biases of an LSTM or Elman cell are one sum; their gradients are two tensors.
                weight.grad = run.gradients["bias_ih"].clone()

    def go_on(self) -> None:
        """The state after the last piece becomes the one before the next."""
        torch._foreach_copy_(self._now, self._run.final)

    def _bound(self, steps: int) -> kernels.BoundRecurrence:
        if steps not in self._of_steps:
            self._of_steps[steps] = kernels.BoundRecurrence(
                *self._arguments, self._weights, self._now, steps
            )
        return self._of_steps[steps]

    def _full(self, state: LoopState) -> list[Tensor]:
        """The state's tensors in the kernels' order, with as many rows as the memory can have."""
        memory = self._layer.memory
        fields = [
            part if field.most_rows is None else field.padded_to(part, field.most_rows)
            for field, part in zip(memory.state_fields, state.memory, strict=True)
        ]
        full = state._replace(memory=memory.State(*fields))
        return [tensor.detach().contiguous() for tensor in flatten_state(full)]


def why_not_bound(layer: nn.Module, batch_size: int) -> str | None:
    """Why a layer cannot be trained by `BoundLayer`, or None if it can."""
    # Exact types: a subclass may compute something else.
    if type(layer) is not MemoryRNN or layer.others:
        return "it is not one MemoryRNN of one layer"
    if layer.readout is not None or layer.output_reading:
        return "its output is not the controller's own"
    if layer.initial_controller or layer.initial_memory or layer.first_write:
        return "it learns where it begins"
    if layer.backend == "reference" or has_hooks(layer):
        return "it runs on the reference, or has hooks"
    if not all(each.requires_grad and each.is_contiguous() for each in layer.parameters()):
        return "a parameter is frozen or not contiguous"
    if any(field.grows and field.most_rows is None for field in layer.memory.state_fields):
        return "its memory grows without bound"
    like = layer.heads.weight
    if like.device.type != "cpu":
        return "it is not on the CPU"
    if batch_size * sum(map(_numbers, layer.memory.state_fields)) > _MOST_NUMBERS:
        return "its state is large"
    with torch.no_grad():
        state = layer.initial_loop_state(batch_size)
        x = like.new_zeros(1, batch_size, layer.input_size)
    return why_not_fused(layer.controller, layer.heads, layer.memory, x, state)


def _numbers(field: StateField) -> int:
    rows = field.rows if field.most_rows is None else field.most_rows
    return math.prod(rows if isinstance(axis, str) else axis for axis in field.shape)
