"""A Stack RNN step by step, with backpropagation of one symbol's error through earlier steps.

It uses arrays: at one symbol per step, creating tensors would take most of the time.
Source: the program of Joulin & Mikolov 2015.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.layers.controllers import ElmanController
from unbounded.layers.fused import is_called
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.memories import SuperpositionStack
from unbounded.memories.backend import why_no_kernel
from unbounded.memories.superposition import EMPTY

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
        ConfigError: it is no Stack RNN with an elman controller and a capacity on the CPU.
    """
    if not (
        type(layer) is MemoryRNN
        and type(layer.memory) is SuperpositionStack
        and type(layer.controller) is ElmanController
        and why_no_kernel(layer.memory) is None
        and not any(is_called(module) for module in layer.modules())
        and layer.controller.activation == "sigmoid"
        and layer.controller.bias_ih is None
        and layer.readout is None
        and not layer.output_read_vector
        and layer.memory.capacity is not None
        and output.bias is None
        and output.weight.device.type == "cpu"
    ):
        raise ConfigError(
            [
                "update: only a Stack RNN with an elman controller (sigmoid, without biases), "
                "one-hot symbols and a capacity can be updated after every symbol, without "
                "hooks or replaced methods, and only on the CPU"
            ]
        )
    memory, symbols, controller = layer.memory, layer.input_size, layer.controller.weights
    count, kinds = memory.count, len(memory.actions)
    input_weights, heads = _array(controller.weight_ih), _array(layer.heads.weight)
    recurrent = controller.weight_hh
    return Weights(
        input_weights[:, :symbols],
        # A view: an in-place update must reach the parameter.
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
    """The last steps of a stream, oldest first.

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
        """No step and an empty memory."""
        shape = layer.memory.count, layer.memory.capacity
        dtype = _array(layer.heads.weight).dtype
        return cls([], [np.zeros(layer.hidden_size, dtype)], [], [np.full(shape, EMPTY, dtype)], 0)

    @classmethod
    def of(cls, state: tuple[Tensor, ...]) -> History:
        """The history from `state()`."""
        symbols, hidden, actions, stacks, updates = state
        arrays = [list(array.numpy()) for array in (hidden, actions, stacks)]
        return cls(symbols.tolist(), arrays[0], arrays[1], arrays[2], int(updates))

    def state(self) -> tuple[Tensor, ...]:
        """The history as tensors, to be carried."""
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
    """Take a step and append it to the history.

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
    """The gradient of the last step's log likelihood, through at most `reach` steps.

    Errors are clipped elementwise at each stage, as in the authors' program. The error of the
    oldest step within `reach` does not continue into the stacks. (There the authors' ring buffer
    wrongly holds the newest stacks; here they are those before that step.)

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
    """Errors of the action weights [S, A], the previous stacks [S, N] and h_t, from later ones."""
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
