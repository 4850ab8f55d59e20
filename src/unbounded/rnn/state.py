"""The state of a MemoryRNN, which begins with `h_n` and `c_n` as in torch.nn.LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.memories.core import check_rows, index_state, map_state, picked, portable
from unbounded.rnn.recurrence import RecurrenceState


@portable
class MemoryRNNState(NamedTuple):
    """The carried state of a MemoryRNN between calls.

    `output, (h_n, c_n, *_) = layer(x)` unpacks the results as with `nn.LSTM`. With a GRU or Elman
    controller, use `output, (h_n, *_)`. L is the number of layers and directions, in the order of
    `nn.LSTM`. Unbatched inputs have no axis B.

    Fields:
        hidden: h_n, [L, B, H].
        cell: c_n, [L, B, H]; an empty tuple for a controller with one tensor, a tuple of several
            for a custom controller with more than two.
        read_vector: r of the last step, [B, R]; a tuple for several layers.
        memory: the memory's state; a tuple for several layers.
    """

    hidden: Tensor
    cell: Any
    read_vector: Any
    memory: Any


def joined(states: Sequence[RecurrenceState]) -> MemoryRNNState:
    """Join the states of layers and directions, [B, ...], into one state."""
    if len(states) == 1:
        hidden, *others = (part.unsqueeze(0) for part in states[0].controller)
    else:
        parts_of = zip(*(s.controller for s in states), strict=True)
        hidden, *others = (torch.stack(parts) for parts in parts_of)
    cell: Any = others[0] if len(others) == 1 else tuple(others)
    if len(states) == 1:
        return MemoryRNNState(hidden, cell, states[0].read_vector, states[0].memory)
    read_vectors, memories = (tuple(s.read_vector for s in states), tuple(s.memory for s in states))
    return MemoryRNNState(hidden, cell, read_vectors, memories)


def parted(
    state: MemoryRNNState, count: int, state_size: int, memory_state: type[tuple[Any, ...]]
) -> list[RecurrenceState]:
    """Split a state into states of `count` layers and directions with `state_size` tensors each.

    Plain tuples of the same structure are accepted, because common functions that detach states
    return them.

    Raises:
        ShapeError: it is the state of another layer.
    """
    if type(state) is tuple and len(state) == len(MemoryRNNState._fields):
        state = MemoryRNNState._make(state)
    is_pair = isinstance(state, tuple | list) and len(state) == 2
    if is_pair and all(isinstance(part, Tensor) for part in state):
        raise ShapeError(
            "state: expected a MemoryRNNState, got a pair (h0, c0), which has no memory. Give "
            "layer.initial_state(B)._replace(hidden=h0, cell=c0)."
        )
    if not isinstance(state, MemoryRNNState):
        raise ShapeError(
            f"state: expected a MemoryRNNState as an earlier call returned it, got "
            f"{type(state).__name__}. ub.detach_state(state) detaches a state, ub.index_state "
            "selects sequences from it."
        )
    cells = state.cell if isinstance(state.cell, tuple) else (state.cell,)
    parts = (state.hidden, *cells)
    if len(parts) != state_size:
        raise ShapeError(
            f"state: expected {state_size} tensor(s) of the controller, hidden and cell, got "
            f"{len(parts)}."
        )
    for name, part in zip(("hidden", "cell"), parts, strict=False):
        if not isinstance(part, Tensor) or part.dim() != 3 or len(part) != count:
            got = list(part.shape) if isinstance(part, Tensor) else type(part).__name__
            raise ShapeError(f"state.{name}: expected shape [{count}, B, H], got {got}.")
    read_vectors, memories = (state.read_vector,), (state.memory,)
    if count > 1:
        read_vectors, memories = state.read_vector, state.memory
        for name, parts_of in (("read_vector", read_vectors), ("memory", memories)):
            if not isinstance(parts_of, tuple) or len(parts_of) != count:
                raise ShapeError(f"state.{name}: expected a tuple of {count}, one for each layer.")
    named = [_named(memory, memory_state) for memory in memories]
    for memory in named:
        # The memory checks type and shapes itself.
        if not isinstance(memory, tuple) or not all(isinstance(f, Tensor) for f in memory):
            raise ShapeError(
                f"state.memory: expected a {memory_state.__name__} of tensors as an earlier call "
                f"returned it, got {type(memory).__name__}{_kinds(memory)}."
            )
    return [
        RecurrenceState(tuple(part[k] for part in parts), read_vectors[k], named[k])
        for k in range(count)
    ]


def _kinds(memory: Any) -> str:
    """The types of a state's fields, for a message."""
    if not isinstance(memory, tuple):
        return ""
    return f" of {', '.join(type(field).__name__ for field in memory)}"


def _named(memory: Any, memory_state: type[tuple[Any, ...]]) -> Any:
    """Convert a memory's state from a plain tuple to its NamedTuple."""
    fields = getattr(memory_state, "_fields", ())
    if type(memory) is tuple and len(memory) == len(fields):
        return memory_state(*memory)
    return memory


def batched(state: MemoryRNNState) -> MemoryRNNState:
    """Add a batch axis of size one to the state of an unbatched call."""
    return _map_batched(state, lambda tensor, axis: tensor.unsqueeze(axis))


def unbatched(state: MemoryRNNState) -> MemoryRNNState:
    """Remove the batch axis of size one."""
    return _map_batched(state, lambda tensor, axis: tensor.squeeze(axis))


def _index(state: MemoryRNNState, rows: Tensor | slice | list[int]) -> MemoryRNNState:
    check_rows(rows)
    check_batched(state)
    return _map_batched(state, lambda tensor, axis: picked(tensor, rows, axis))


index_state.register(MemoryRNNState, _index)


def check_batched(state: MemoryRNNState) -> None:
    """Raise unless a state has a batch.

    Raises:
        ShapeError: it is the state of an unbatched call.
    """
    if isinstance(state.hidden, Tensor) and state.hidden.dim() == 2:
        raise ShapeError(
            "state: expected the state of a batch, hidden [L, B, H], got hidden "
            f"{list(state.hidden.shape)} of a call without a batch. Give the layer x [T, 1, I]."
        )


def check_axes(state: MemoryRNNState, is_unbatched: bool, batch_size: int) -> None:
    """Raise unless a state has the same batch as its call.

    Args:
        batch_size: B of the call; 1 without a batch.
    Raises:
        ShapeError: the batch is missing, of another size, or superfluous.
    """
    is_whole = isinstance(state, tuple) and len(state) == len(MemoryRNNState._fields)
    hidden = state[0] if is_whole else None
    if not isinstance(hidden, Tensor):
        return  # `parted` raises an error for anything else
    shape = list(hidden.shape)
    if hidden.dim() == 3 and not is_unbatched and hidden.shape[1] != batch_size:
        raise ShapeError(
            f"state: expected hidden [L, B, H] with B = {batch_size}, as x has it, got {shape}. "
            "ub.index_state selects sequences from a state."
        )
    if hidden.dim() != (3 if is_unbatched else 2):
        return
    if is_unbatched:
        raise ShapeError(
            f"state: expected hidden [L, H], because x [T, I] has no batch, got {shape} of a call "
            "with a batch. Give the layer x with a batch of one."
        )
    raise ShapeError(
        f"state: expected hidden [L, B, H], because x has a batch, got {shape} of a call without "
        "a batch. Give the layer x [T, I], or a state of a batch."
    )


def _map_batched(
    state: MemoryRNNState, function: Callable[[Tensor, int], Tensor]
) -> MemoryRNNState:
    """Apply function(tensor, batch axis) to every tensor."""
    if not isinstance(state, tuple) or len(state) != len(MemoryRNNState._fields):
        return state  # `parted` raises an error for it
    hidden, cell, *rest = state

    def over_layers(field: Any) -> Any:
        if isinstance(field, tuple):
            return map_state(lambda tensor: function(tensor, 1), field)
        return function(field, 1) if isinstance(field, Tensor) else field

    def over_batch(field: Any) -> Any:
        if isinstance(field, tuple):
            return map_state(lambda tensor: function(tensor, 0), field)
        return function(field, 0) if isinstance(field, Tensor) else field

    return MemoryRNNState(over_layers(hidden), over_layers(cell), *map(over_batch, rest))
