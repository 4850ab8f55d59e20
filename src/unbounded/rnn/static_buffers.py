"""Layers for static-buffer steps, which run chunks without torch's graph or new tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn

from unbounded import kernels
from unbounded.memories.core import StateField
from unbounded.rnn.baselines import ControllerRNN, DeepLSTM, LSTMLayer, PlainLayer, lstm_weights
from unbounded.rnn.controllers import CONTROLLERS, WeightedController
from unbounded.rnn.fused import (
    FusedLoop,
    empty_register,
    flatten_state,
    fused_controller,
    fused_layer,
    why_not_fused,
)
from unbounded.rnn.memory_layer import MemoryLayer
from unbounded.rnn.memory_rnn import MemoryRNN
from unbounded.rnn.recurrence import RecurrenceState
from unbounded.rnn.state import joined, parted

_KEPT: Final = 2


class CarriedRecurrence:
    """Recurrences over different numbers of steps, with one carried state.

    Buffers are kept for the last two numbers of steps: one for full chunks, one for a batch's last
    chunk.

    Args:
        loop: the loop, whose weights each call reads in place.
        initial: the initial state of a sequence.
        of_x: whether a backward pass computes the gradient of x.
    """

    def __init__(
        self,
        loop: FusedLoop,
        initial: Sequence[Tensor],
        *,
        of_x: bool = False,
    ) -> None:
        self._initial, self._state = initial, [tensor.clone() for tensor in initial]
        self._loop, self._of_x = loop, of_x
        self._by_steps: dict[int, kernels.StaticRecurrence] = {}
        self._run = self._recurrence(1)

    def split(self, size: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The first `size` tensors of the state, and the rest."""
        return tuple(self._state[:size]), tuple(self._state[size:])

    def set_state(self, state: Sequence[Tensor] | None) -> None:
        """Set the carried state, in the layout of the initial state; None for the initial state."""
        torch._foreach_copy_(self._state, list(self._initial if state is None else state))

    def forward(self, x: Tensor) -> Tensor:
        """Run over x [T, B, I]. Return h of every step, [T, B, H], which later calls overwrite."""
        self._run = run = self._recurrence(len(x))
        run.x.copy_(x)
        run.forward()
        return run.outputs

    def backward(self, grad: Tensor) -> dict[str, Tensor]:
        """Compute the gradients of the weights, by name, from the gradient [T, B, H] of h."""
        self._run.grad_outputs.copy_(grad)
        self._run.backward()
        return self._run.gradients

    @property
    def grad_x(self) -> Tensor | None:
        """Gradient of the last chunk's x, [T, B, I]."""
        return self._run.grad_x

    def advance(self) -> None:
        """Carry the state from the last call to the next."""
        torch._foreach_copy_(self._state, self._run.final)

    def _recurrence(self, steps: int) -> kernels.StaticRecurrence:
        recurrence = self._by_steps.pop(steps, None)
        if recurrence is None:
            recurrence = self._loop.on_static_buffers(self._state, steps, of_x=self._of_x)
        # The recurrence is inserted again, so that the last one used is last in order.
        self._by_steps[steps] = recurrence
        if len(self._by_steps) > _KEPT:
            del self._by_steps[next(iter(self._by_steps))]
        return recurrence


def set_gradients(
    weights: kernels.Weights | kernels.ControllerWeights, gradients: dict[str, Tensor]
) -> None:
    """Assign the gradients of a recurrence to the parameters that require a gradient."""
    for name, weight in weights._asdict().items():
        if weight is None or not weight.requires_grad:
            continue
        # The biases of an LSTM or Elman cell are summed, so their gradients are equal, but are two
        # tensors.
        weight.grad = gradients[name] if name in gradients else gradients["bias_ih"].clone()


#: If a state has more numbers than this, copying it between chunks is too expensive.
_MOST_NUMBERS: Final = 2**18


class StaticBufferLayer(Protocol):
    """A layer that runs chunks of B sequences forward and backward, with a carried state.

    At each call, it uses the current parameters of the layer.
    """

    @property
    def state(self) -> Any:
        """The carried state in the layer's form.

        The tensors of this state are overwritten by `advance`.
        """

    def set_state(self, state: Any) -> None:
        """Set the carried state to a detached state of the layer; None for the initial state."""

    def forward(self, x: Tensor) -> Tensor:
        """Run over x [T, B, I]. Return h of every step, [T, B, H], which the next chunk overwrites.

        Raises:
            MemoryOverflowError: a memory with overflow="error" lost a cell.
        """

    def backward(self, grad: Tensor) -> None:
        """Compute `grad` of the parameters from the gradient [T, B, H] of the last `forward`."""

    def advance(self) -> None:
        """Carry the state from the last chunk to the next."""


def static_buffer_layer(layer: nn.Module, batch_size: int) -> StaticBufferLayer | None:
    """Return a layer with static buffers; None if the layer must use torch's graph.

    Args:
        layer: without hooks, which would not run.
        batch_size: B.
    """
    if not all(parameter.is_contiguous() for parameter in layer.parameters()):
        return None
    # Only these exact types are supported, because a subclass may compute something else.
    if type(layer) is MemoryRNN:
        if why_not_static(layer, batch_size):
            return None
        return StaticBufferMemory(layer.only_layer(), batch_size)
    if isinstance(layer, PlainLayer) and layer.backend == "reference":
        return None
    if type(layer) is DeepLSTM and layer.initial is None:
        if any(type(parameter) is not LSTMLayer for parameter in layer.layers):
            return None
        weights = [
            kernels.ControllerWeights(*lstm_weights(parameter)) for parameter in layer.layers
        ]
        return _static_controllers("lstm", weights, layer.skip_input, batch_size)
    if type(layer) is ControllerRNN and layer.initial is None:
        controller = layer.controller
        is_known = type(controller) in CONTROLLERS.values()
        if is_known and isinstance(controller, WeightedController) and controller.kernel_name:
            name = controller.kernel_name
            return _static_controllers(name, [controller.weights], None, batch_size)
    return None


class StaticBufferMemory:
    """Static buffers of a MemoryLayer.

    A memory with a capacity has all its rows from the start, because an empty row equals an absent
    row.

    Args:
        layer: one for which `why_not_static` returns None.
        batch_size: B.
    """

    def __init__(self, layer: MemoryLayer, batch_size: int) -> None:
        controller = layer.controller
        assert isinstance(controller, WeightedController)
        self._memory, self._state_size = layer.memory, controller.state_size
        loop = fused_layer(controller, layer.heads, layer.memory)
        self._weights = loop.weights
        with torch.no_grad():
            self._first = self._full(layer.initial_state(batch_size))
        self._run = CarriedRecurrence(loop, self._first)
        hidden, (read_vector, *memory) = self._run.split(controller.state_size)
        self.state = joined([RecurrenceState(hidden, read_vector, layer.memory.State(*memory))])

    def set_state(self, state: Any) -> None:
        """See `StaticBufferLayer`."""
        if state is self.state:
            return
        parts = self._first
        if state is not None:
            (part,) = parted(state, 1, self._state_size, self._memory.State)
            parts = self._full(part)
        self._run.set_state(parts)

    def forward(self, x: Tensor) -> Tensor:
        """See `StaticBufferLayer`."""
        return self._run.forward(x)

    def backward(self, grad: Tensor) -> None:
        """See `StaticBufferLayer`."""
        set_gradients(self._weights, self._run.backward(grad))

    def advance(self) -> None:
        """See `StaticBufferLayer`."""
        self._run.advance()

    def _full(self, state: RecurrenceState) -> list[Tensor]:
        """The state's tensors in the kernels' order, padded to the memory's largest size."""
        fields = [
            part if field.most_rows is None else field.padded_to(part, field.most_rows)
            for field, part in zip(self._memory.state_fields, state.memory, strict=True)
        ]
        full = state._replace(memory=self._memory.State(*fields))
        return [tensor.detach().contiguous() for tensor in flatten_state(full)]


class StaticBufferControllers:
    """Static buffers of stacked controllers without a memory.

    Each controller has a register of one number, as in `run_alone`.

    Args:
        name: the kernels' name of the controller.
        weights: parameters of each layer.
        skip_input: whether layers beyond the first also take the input; None for one layer whose
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
        for k, layer_weights in enumerate(self._weights):
            weight_ih = layer_weights.weight_ih.detach()
            units = len(weight_ih) // kind.blocks
            wide = weight_ih.new_zeros(len(weight_ih), weight_ih.shape[1] + 1)
            self._wide.append(wide)
            first = [weight_ih.new_zeros(batch_size, units) for _ in kind.state]
            first += empty_register(weight_ih, batch_size)
            loop = fused_controller(name, layer_weights, wide=wide)
            self._runs.append(CarriedRecurrence(loop, first, of_x=k > 0))
        self._size = len(kind.state)
        states = tuple(run.split(self._size)[0] for run in self._runs)
        self.state: tuple[Any, ...] = states[0] if skip_input is None else states

    def set_state(self, state: Any) -> None:
        """See `StaticBufferLayer`."""
        if state is self.state:
            return
        states = [state] if self._skip is None else state
        for k, run in enumerate(self._runs):
            run.set_state(None if state is None else [*states[k], *run.split(self._size)[1]])

    def forward(self, x: Tensor) -> Tensor:
        """See `StaticBufferLayer`."""
        hidden = x
        for k, run in enumerate(self._runs):
            self._wide[k][:, :-1].copy_(self._weights[k].weight_ih)
            below = torch.cat([x, hidden], dim=-1) if k and self._skip else hidden
            hidden = run.forward(below)
        return hidden

    def backward(self, grad: Tensor) -> None:
        """See `StaticBufferLayer`."""
        for run, weights in zip(reversed(self._runs), reversed(self._weights), strict=True):
            weight_gradients = run.backward(grad)
            set_gradients(
                weights,
                {
                    **weight_gradients,
                    "weight_ih": weight_gradients["weight_ih"][:, :-1].contiguous(),
                },
            )
            if run.grad_x is not None:
                grad = run.grad_x[..., -grad.shape[-1] :]

    def advance(self) -> None:
        """See `StaticBufferLayer`."""
        for run in self._runs:
            run.advance()


def why_not_static(layer: MemoryRNN, batch_size: int) -> str | None:
    """The reason why a MemoryRNN cannot have static buffers; None if it can."""
    if len(layer.layers) > 1:
        return "it has several layers"
    part = layer.only_layer()
    if part.readout is not None or part.output_read_vector:
        return "its output is not the controller's"
    if part.initial_controller or part.initial_memory or part.first_write:
        return "its initial state is learned"
    if layer.backend == "reference":
        return "its backend is the reference"
    fields = layer.memory.state_fields
    if any(field.grows and field.most_rows is None for field in fields):
        return "its memory grows without bound"
    if batch_size * sum(map(_numbers, fields)) > _MOST_NUMBERS:
        return "its state is large"
    like = part.heads.weight
    if like.device.type != "cpu":
        return "it is not on the CPU"
    with torch.no_grad():
        state = part.initial_state(batch_size)
        x = like.new_zeros(1, batch_size, layer.input_size)
    return why_not_fused(part.controller, part.heads, part.memory, x, state)


def _numbers(field: StateField) -> int:
    rows = field.rows if field.most_rows is None else field.most_rows
    return math.prod(rows if isinstance(axis, str) else axis for axis in field.shape)


def _static_controllers(
    name: str,
    weights: Sequence[kernels.ControllerWeights],
    skip_input: bool | None,
    batch_size: int,
) -> StaticBufferControllers | None:
    if weights[0].weight_ih.device.type != "cpu":
        return None
    tensors = (parameter for layer_weights in weights for parameter in layer_weights)
    if kernels.why_not("recurrence", None, *tensors) is not None:
        return None
    return StaticBufferControllers(name, weights, skip_input, batch_size)
