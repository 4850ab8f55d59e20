"""Layers that are trained piece by piece without torch's graph: state and gradients in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn

from unbounded import kernels
from unbounded.layers.alone import REGISTER, REGISTER_ACTIVATIONS, beside_register
from unbounded.layers.controller_rnn import ControllerRNN
from unbounded.layers.controllers import CONTROLLERS, WeightedController
from unbounded.layers.deep_lstm import DeepLSTM
from unbounded.layers.fused import (
    flatten_state,
    kernel_arguments,
    kernel_weights,
    why_not_fused,
)
from unbounded.layers.in_place import InPlace, set_gradients
from unbounded.layers.lstm_layer import LSTMLayer, lstm_weights
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.plain_layer import PlainLayer
from unbounded.layers.recurrence import LoopState
from unbounded.layers.state import joined, parted
from unbounded.memories.state_field import StateField

#: Numbers of a state beyond which copying it from piece to piece is more than a trifle.
_MOST_NUMBERS: Final = 2**18


class BoundLayer(Protocol):
    """A layer on pieces of B sequences, forward and backward, whose state goes on by itself.

    The parameters are the layer's own, as they are at each call.
    """

    @property
    def state(self) -> Any:
        """What is carried on, as the layer returns it: the same tensors, written by `go_on`."""

    def take(self, state: Any) -> None:
        """Go on from a state of the layer, without its gradient; None begins anew."""

    def forward(self, x: Tensor) -> Tensor:
        """Run over x [T, B, I]; h of every step, [T, B, H], overwritten by the next piece.

        Raises:
            MemoryOverflowError: the memory is strict and lost something.
        """

    def backward(self, grad: Tensor) -> None:
        """From the gradient [T, B, H] of what the last `forward` gave to the parameters' `grad`."""

    def go_on(self) -> None:
        """The state after the last piece becomes the one before the next."""


def bound_layer(layer: nn.Module, batch_size: int) -> BoundLayer | None:
    """A layer with its tensors in place, or None where it must go through torch's graph.

    Args:
        layer: without hooks, which would not run.
        batch_size: B.
    """
    if not all(each.is_contiguous() for each in layer.parameters()):
        return None
    # Exact types: a subclass may compute something else.
    if type(layer) is MemoryRNN:
        return None if why_not_bound(layer, batch_size) else BoundMemory(layer, batch_size)
    if isinstance(layer, PlainLayer) and layer.backend == "reference":
        return None
    if type(layer) is DeepLSTM and layer.initial is None:
        if any(type(each) is not LSTMLayer for each in layer.layers):
            return None
        weights = [kernels.ControllerWeights(*lstm_weights(each)) for each in layer.layers]
        return _bound_controllers("lstm", weights, layer.skip_input, batch_size)
    if type(layer) is ControllerRNN and layer.initial is None:
        controller = layer.controller
        is_known = type(controller) in CONTROLLERS.values()
        if is_known and isinstance(controller, WeightedController) and controller.kernel_name:
            name = controller.kernel_name
            return _bound_controllers(name, [controller.weights], None, batch_size)
    return None


class BoundMemory:
    """A `BoundLayer` of a MemoryRNN.

    A memory with a capacity has all its rows from the beginning; an empty row and none are the
    same.

    Args:
        layer: for which `why_not_bound` has no reason.
        batch_size: B.
    """

    def __init__(self, layer: MemoryRNN, batch_size: int) -> None:
        controller = layer.controller
        assert isinstance(controller, WeightedController)
        self._memory, self._state_size = layer.memory, controller.state_size
        self._weights = kernel_weights(controller, layer.heads)
        with torch.no_grad():
            self._first = self._full(layer.initial_loop_state(batch_size))
        self._run = InPlace(*kernel_arguments(controller, layer.memory), self._weights, self._first)
        hidden, (reading, *memory) = self._run.split(controller.state_size)
        self.state = joined([LoopState(hidden, reading, layer.memory.State(*memory))])

    def take(self, state: Any) -> None:
        """As of `BoundLayer`."""
        if state is self.state:
            return
        parts = self._first
        if state is not None:
            (part,) = parted(state, 1, self._state_size, self._memory.State)
            parts = self._full(part)
        self._run.take(parts)

    def forward(self, x: Tensor) -> Tensor:
        """As of `BoundLayer`."""
        return self._run.forward(x)

    def backward(self, grad: Tensor) -> None:
        """As of `BoundLayer`."""
        set_gradients(self._weights, self._run.backward(grad))

    def go_on(self) -> None:
        """As of `BoundLayer`."""
        self._run.go_on()

    def _full(self, state: LoopState) -> list[Tensor]:
        """The state's tensors in the kernels' order, with as many rows as the memory can have."""
        fields = [
            part if field.most_rows is None else field.padded_to(part, field.most_rows)
            for field, part in zip(self._memory.state_fields, state.memory, strict=True)
        ]
        full = state._replace(memory=self._memory.State(*fields))
        return [tensor.detach().contiguous() for tensor in flatten_state(full)]


class BoundControllers:
    """A `BoundLayer` of controllers without a memory, each on the one below it.

    Beside each controller stands a register of one number, as in `run_alone`.

    Args:
        name: the kernels' name of the controller.
        weights: of each layer, parameters.
        skip_input: whether layers beyond the first see the input too; None for one layer whose
            state is no tuple of layers.
        batch_size: B.
    """

    def __init__(
        self,
        name: str,
        weights: Sequence[kernels.ControllerWeights],
        skip_input: bool | None,
        batch_size: int,
    ) -> None:
        self._weights, self._skip = list(weights), skip_input
        kind = kernels.CONTROLLERS[name]
        self._wide, self._runs = [], []
        for k, of_layer in enumerate(self._weights):
            into = of_layer.weight_ih.detach()
            units = len(into) // kind.blocks
            wide = into.new_zeros(len(into), into.shape[1] + 1)
            self._wide.append(wide)
            sizes = [units for _ in kind.state] + [1, 1]
            first = [into.new_zeros(batch_size, size) for size in sizes]
            self._runs.append(
                InPlace(
                    REGISTER,
                    REGISTER_ACTIVATIONS,
                    name,
                    beside_register(of_layer, wide, units),
                    first,
                    of_x=k > 0,
                )
            )
        self._size = len(kind.state)
        states = tuple(run.split(self._size)[0] for run in self._runs)
        self.state: tuple[Any, ...] = states[0] if skip_input is None else states

    def take(self, state: Any) -> None:
        """As of `BoundLayer`."""
        if state is self.state:
            return
        states = [state] if self._skip is None else state
        for k, run in enumerate(self._runs):
            run.take(None if state is None else [*states[k], *run.split(self._size)[1]])

    def forward(self, x: Tensor) -> Tensor:
        """As of `BoundLayer`."""
        hidden = x
        for k, run in enumerate(self._runs):
            self._wide[k][:, :-1].copy_(self._weights[k].weight_ih)
            below = torch.cat([x, hidden], dim=-1) if k and self._skip else hidden
            hidden = run.forward(below)
        return hidden

    def backward(self, grad: Tensor) -> None:
        """As of `BoundLayer`."""
        for run, weights in zip(reversed(self._runs), reversed(self._weights), strict=True):
            made = run.backward(grad)
            set_gradients(weights, {**made, "weight_ih": made["weight_ih"][:, :-1].contiguous()})
            if run.grad_x is not None:
                grad = run.grad_x[..., -grad.shape[-1] :]

    def go_on(self) -> None:
        """As of `BoundLayer`."""
        for run in self._runs:
            run.go_on()


def why_not_bound(layer: MemoryRNN, batch_size: int) -> str | None:
    """Why a MemoryRNN cannot be a `BoundMemory`, or None if it can."""
    if layer.others or layer.readout is not None or layer.output_reading:
        return "its output is not the controller's own"
    if layer.initial_controller or layer.initial_memory or layer.first_write:
        return "it learns where it begins"
    if layer.backend == "reference":
        return "it is to run on the reference"
    fields = layer.memory.state_fields
    if any(field.grows and field.most_rows is None for field in fields):
        return "its memory grows without bound"
    if batch_size * sum(map(_numbers, fields)) > _MOST_NUMBERS:
        return "its state is large"
    like = layer.heads.weight
    if like.device.type != "cpu":
        return "it is not on the CPU"
    with torch.no_grad():
        state = layer.initial_loop_state(batch_size)
        x = like.new_zeros(1, batch_size, layer.input_size)
    return why_not_fused(layer.controller, layer.heads, layer.memory, x, state)


def _numbers(field: StateField) -> int:
    rows = field.rows if field.most_rows is None else field.most_rows
    return math.prod(rows if isinstance(axis, str) else axis for axis in field.shape)


def _bound_controllers(
    name: str,
    weights: Sequence[kernels.ControllerWeights],
    skip_input: bool | None,
    batch_size: int,
) -> BoundControllers | None:
    if weights[0].weight_ih.device.type != "cpu":
        return None
    tensors = (each for of_layer in weights for each in of_layer)
    if kernels.why_not("recurrence", None, *tensors) is not None:
        return None
    return BoundControllers(name, weights, skip_input, batch_size)
