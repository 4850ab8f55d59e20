"""Per-symbol update of a Stack RNN: after every symbol, a step of SGD for the symbol's error.

The paper describes this only as "stochastic gradient descent and back-propagation through time, 50
steps". The computation uses arrays, because with one symbol per step, creating tensors would take
most of the time.
Source: the program of Joulin & Mikolov 2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unbounded.errors import ConfigError, NonFiniteError
from unbounded.kernels import why_no_kernel
from unbounded.memories import SuperpositionStack
from unbounded.memories.superposition import EMPTY
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn.controllers import ElmanController
from unbounded.rnn.fused import is_called
from unbounded.rnn.memory_layer import MemoryLayer
from unbounded.rnn.memory_rnn import MemoryRNN
from unbounded.tasks import Batch
from unbounded.training.carried_state import CarriedState
from unbounded.training.chunk_update import StepResult

#: Truncation in the authors' program, in steps.
DEFAULT_REACH = 50


class PerSymbolUpdate:
    """Trains a Stack RNN on one stream, with an update after each counted symbol.

    The error of the current symbol is backpropagated through at most `reach` stored steps.
    Backpropagation stops at the start of the stream, and passes through at most as many steps as
    there were updates. So if only answers count, the first errors reach fewer steps.
    Backpropagation uses the activations of the forward pass and the current weights. The
    backpropagated errors are clipped, not the gradients of weights. The loss is a sum. All this is
    as in the authors' program, but the program also skips the update at the first symbol of an
    epoch.

    Args:
        model: a Stack RNN (`weights_of`).
        optimizer: only holds the learning rate.
        reach: most stored steps, at least 1.
        clip: bound on each element of an error, above 0.
        carried: holds the position in a stream.
        stop: returns the signal that requests a stop, or 0.
        report_steps: symbols between two results.
    Raises:
        ConfigError: the model is of another kind.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: torch.optim.Optimizer,
        *,
        reach: int,
        clip: float,
        carried: CarriedState,
        stop: Callable[[], int],
        report_steps: int = 200,
    ) -> None:
        weights_of(model.layer, model.output)
        self._model = model
        self._optimizer = optimizer
        self._reach = reach
        self._clip = clip
        self._carry = carried
        self._stop = stop
        self._report_steps = report_steps

    def train(self, whole: Batch, number: int) -> Iterator[StepResult]:
        """Train on the rest of a stream, and yield a result every `report_steps` symbols.

        Args:
            whole: one stream.
            number: its place in the run, for messages.
        Raises:
            ConfigError: there is more than one stream.
            NonFiniteError: the loss is not finite.
        """
        if len(whole.inputs) != 1:
            raise ConfigError(f"batch_size: expected 1 stream, got {len(whole.inputs)}")
        carried, steps, size = self._carry, whole.inputs.shape[1], self._report_steps
        history = History.empty(self._model.layer)
        if carried.loaded:
            carried.rebuild(history.state())
        if carried.state is not None:
            history = History.of(carried.state)
        for first in range(carried.chunk * size, steps, size):
            last = min(first + size, steps)
            nats, tokens = self._train_symbols(whole, first, last, history)
            if not math.isfinite(nats):
                raise NonFiniteError(f"training stopped in batch {number + 1}: the loss is {nats}")
            if last < steps:
                carried.move(carried.chunk + 1, history.state())
            else:
                carried.move(0, None)
                # Without gradients, this step changes no weights, but the schedule counts the
                # optimizer's steps.
                self._optimizer.step()
            yield StepResult(nats, tokens, last - first, None, self._stop(), last / steps)

    def _train_symbols(
        self, whole: Batch, first: int, last: int, history: History
    ) -> tuple[float, int]:
        """Train on symbols `first` to `last - 1`.

        Return the loss and the number of counted symbols.
        """
        weights = weights_of(self._model.layer, self._model.output)
        rate = float(self._optimizer.param_groups[0]["lr"])
        inputs, targets, mask = (field[0, first:last].tolist() for field in whole[:3])
        nats, tokens = 0.0, 0
        for symbol, target, is_counted in zip(inputs, targets, mask, strict=True):
            probabilities = step(weights, history, symbol)
            history.forget(self._reach)
            if not is_counted:
                continue
            nats -= math.log(max(float(probabilities[target]), 1e-300))
            tokens += 1
            history.updates += 1
            weight_gradients = gradients(
                weights, history, probabilities, target, reach=self._reach, clip=self._clip
            )
            for weight, gradient in zip(weights, weight_gradients, strict=True):
                weight += rate * gradient
        return nats, tokens


Array = NDArray[Any]
PUSH, POP, NO_OP = 0, 1, 2


class Weights(NamedTuple):
    """The weights of a Stack RNN, or their gradients.

    Fields:
        inputs: U, [H, V]. stacks: P, [H, S, k]. hidden: R, [H, H]; [0, 0] without recurrence.
        actions: A, [S, A, H]. values: D, [S, H]. output: V, [V, H].
    """

    inputs: Array
    stacks: Array
    hidden: Array
    actions: Array
    values: Array
    output: Array


def weights_of(layer: nn.Module, output: Any) -> Weights:
    """The weights of a layer on one-hot symbols and of its logits, as arrays that share memory.

    Raises:
        ConfigError: it is not a Stack RNN with an elman controller and a capacity on the CPU.
    """
    part: Any = None
    if isinstance(layer, MemoryRNN) and type(layer) is MemoryRNN and len(layer.layers) == 1:
        part = layer.only_layer()
    if not (
        type(part) is MemoryLayer
        and type(part.memory) is SuperpositionStack
        and not part.memory.other_options
        and type(part.controller) is ElmanController
        and why_no_kernel(part.memory) is None
        and not any(is_called(module) for module in layer.modules())
        and part.controller.activation == "sigmoid"
        and part.controller.bias_ih is None
        and part.readout is None
        and not part.output_read_vector
        and part.memory.capacity is not None
        and output.bias is None
        and output.weight.device.type == "cpu"
    ):
        raise ConfigError(
            "update: only a Stack RNN with an elman controller (sigmoid, without biases), "
            "cells of one number (-1 if empty, sigmoid), one-hot symbols and a capacity can be "
            "updated after every symbol, without hooks or replaced methods, and only on the CPU"
        )
    memory, symbols, controller = part.memory, part.input_size, part.controller.weights
    count, kinds = memory.count, len(memory.actions)
    input_weights, heads = _array(controller.weight_ih), _array(part.heads.weight)
    recurrent = controller.weight_hh
    return Weights(
        input_weights[:, :symbols],
        # This is a view, because an in-place update must change the parameter.
        np.lib.stride_tricks.as_strided(
            input_weights[:, symbols:],
            (len(input_weights), count, memory.depth),
            (
                input_weights.strides[0],
                memory.depth * input_weights.strides[1],
                input_weights.strides[1],
            ),
        ),
        np.zeros((0, 0), input_weights.dtype) if recurrent is None else _array(recurrent),
        heads[: count * kinds].reshape(count, kinds, -1),
        heads[count * kinds :],
        _array(output.weight),
    )


class History:
    """The last steps of a stream, with the oldest first.

    Args:
        symbols: the K inputs.
        hidden: h_t, [H] each; K + 1, starting before the oldest step.
        actions: a_t, [S, A] each; K of them.
        stacks: s_t, [S, N] each; K + 1.
        updates: number of updates since the memory was emptied.
    """

    def __init__(
        self,
        symbols: list[int],
        hidden: list[Array],
        actions: list[Array],
        stacks: list[Array],
        updates: int,
    ) -> None:
        self.symbols = symbols
        self.hidden = hidden
        self.actions = actions
        self.stacks = stacks
        self.updates = updates

    @classmethod
    def empty(cls, layer: Any) -> History:
        """Return a history without steps, with an empty memory."""
        shape = layer.memory.count, layer.memory.capacity
        dtype = _array(layer.only_layer().heads.weight).dtype
        return cls([], [np.zeros(layer.hidden_size, dtype)], [], [np.full(shape, EMPTY, dtype)], 0)

    @classmethod
    def of(cls, state: tuple[Tensor, ...]) -> History:
        """Build a history from the result of `state()`."""
        symbols, hidden, actions, stacks, updates = state
        arrays = [list(array.numpy()) for array in (hidden, actions, stacks)]
        return cls(symbols.tolist(), arrays[0], arrays[1], arrays[2], int(updates))

    def state(self) -> tuple[Tensor, ...]:
        """Return the history as tensors, which can be carried."""
        stacks = np.stack(self.stacks)
        actions = np.stack(self.actions) if self.actions else stacks[:0, :, :0]
        return (
            torch.tensor(self.symbols, dtype=torch.int64),
            torch.from_numpy(np.stack(self.hidden)),
            torch.from_numpy(actions.copy()),
            torch.from_numpy(stacks),
            torch.tensor(self.updates),
        )

    def forget(self, reach: int) -> None:
        """Keep the last `reach` steps."""
        extra = len(self.symbols) - reach
        if extra > 0:
            for part in (self.symbols, self.hidden, self.actions, self.stacks):
                del part[:extra]


def step(weights: Weights, history: History, symbol: int) -> Array:
    """Compute a step and append it to the history.

    Returns:
        the probability of each next symbol, [V].
    """
    old = history.stacks[-1]
    depth = weights.stacks.shape[2]
    total = weights.inputs[:, symbol] + np.tensordot(weights.stacks, old[:, :depth], 2)
    if weights.hidden.size:
        total = total + weights.hidden @ history.hidden[-1]
    hidden = _sigmoid(total)
    action = _softmax(weights.actions @ hidden)
    push, pop = action[:, PUSH, None], action[:, POP, None]
    value = _sigmoid(weights.values @ hidden)[:, None]
    empty = np.full_like(value, EMPTY)
    stacks = push * np.concatenate([value, old[:, :-1]], axis=1)
    stacks += pop * np.concatenate([old[:, 1:], empty], axis=1)
    if action.shape[1] > NO_OP:
        stacks += action[:, NO_OP, None] * old
    history.symbols.append(symbol)
    history.hidden.append(hidden)
    history.actions.append(action)
    history.stacks.append(stacks)
    probabilities: Array = _softmax(weights.output @ hidden)
    return probabilities


def gradients(
    weights: Weights,
    history: History,
    probabilities: Array,
    target: int,
    *,
    reach: int,
    clip: float,
) -> Weights:
    """Return the gradient of the last step's log likelihood, through at most `reach` steps.

    Errors are clipped elementwise at each stage, as in the authors' program. The error of the
    oldest step within `reach` does not continue into the stacks. (At this step, the authors' ring
    buffer wrongly holds the newest stacks. Here the history holds the stacks before the step.)

    Args:
        weights: current weights.
        history: with the last step.
        probabilities: result of `step`, [V].
        target: the next symbol.
        reach: largest number of steps, at least 1; `history.updates` limits it too.
        clip: bound on each element of an error.
    Returns:
        the direction of ascent: adding it makes the target more likely.
    """
    result = Weights(*(np.zeros_like(array) for array in weights))
    depth = weights.stacks.shape[2]

    def clipped(error: Array) -> Array:
        return np.clip(error, -clip, clip)

    of_output = -probabilities
    of_output[target] += 1
    result.output[:] = np.outer(of_output, history.hidden[-1])
    of_hidden = clipped(weights.output.T @ of_output)
    of_stacks = np.zeros_like(history.stacks[-1])
    steps = min(reach, len(history.symbols), history.updates)
    for back in range(steps):
        place = len(history.symbols) - 1 - back
        hidden, action = history.hidden[place + 1], history.actions[place]
        old, before = history.stacks[place], history.hidden[place]
        of_action, of_old, of_hidden = _through_stacks(
            weights, result, hidden, action, old, of_stacks, of_hidden, clipped
        )
        of_logits = clipped(action * (of_action - (of_action * action).sum(1, keepdims=True)))
        result.actions[:] += of_logits[:, :, None] * hidden
        of_hidden = of_hidden + np.tensordot(of_logits, weights.actions, 2)
        of_total = clipped(of_hidden * hidden * (1 - hidden))
        result.inputs[:, history.symbols[place]] += of_total
        if back == reach - 1:
            break
        result.stacks[:] += of_total[:, None, None] * old[:, :depth]
        of_old[:, :depth] += np.tensordot(of_total, weights.stacks, 1)
        of_stacks = clipped(of_old)
        of_hidden = np.zeros_like(hidden)
        if weights.hidden.size:
            result.hidden[:] += np.outer(of_total, before)
            of_hidden = clipped(weights.hidden.T @ of_total)
    return result


def _through_stacks(
    weights: Weights,
    result: Weights,
    hidden: Array,
    action: Array,
    old: Array,
    of_stacks: Array,
    of_hidden: Array,
    clipped: Any,
) -> tuple[Array, Array, Array]:
    """From later errors, compute those of action weights [S, A], previous stacks [S, N] and h_t."""
    value = _sigmoid(weights.values @ hidden)
    of_value = clipped(of_stacks[:, 0] * action[:, PUSH] * value * (1 - value))
    result.values[:] += np.outer(of_value, hidden)
    of_old = np.zeros_like(old)
    of_old[:, 1:] += of_stacks[:, :-1] * action[:, POP, None]
    of_old[:, :-1] += of_stacks[:, 1:] * action[:, PUSH, None]
    of_action = np.zeros_like(action)
    of_action[:, PUSH] = (of_stacks[:, 1:] * old[:, :-1]).sum(1) + of_stacks[:, 0] * value
    of_action[:, POP] = (of_stacks[:, :-1] * old[:, 1:]).sum(1) + of_stacks[:, -1] * EMPTY
    if action.shape[1] > NO_OP:
        of_old += of_stacks * action[:, NO_OP, None]
        of_action[:, NO_OP] = (of_stacks * old).sum(1)
    return clipped(of_action), clipped(of_old), of_hidden + weights.values.T @ of_value


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array


def _sigmoid(values: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-np.clip(values, -50, 50)))
    return result


def _softmax(values: Array) -> Array:
    raised = np.exp(values - values.max(-1, keepdims=True))
    result: Array = raised / raised.sum(-1, keepdims=True)
    return result
