"""What a MemoryRNN returns beside its output: `h_n` and `c_n` first, as torch.nn.LSTM does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.layers.recurrence import LoopState
from unbounded.memories.state import check_rows, index_state, map_state, picked, portable


@portable
class MemoryRNNState(NamedTuple):
    """Everything that a MemoryRNN carries from one call to the next.

    `output, (h_n, c_n, *_) = layer(x)` unpacks what `nn.LSTM` returns; with a GRU or Elman
    controller `output, (h_n, *_)`. L counts layers and directions, in the order of `nn.LSTM`;
    unbatched inputs have no B.

    Fields:
        hidden: h_n, [L, B, H].
        cell: c_n, [L, B, H]; an empty tuple where the controller has one tensor, and one of several
            where a controller of your own has more than two.
        reading: r of the last step, [B, R]; of several layers a tuple of them.
        memory: the memory's state; of several layers a tuple of them.
    """

    hidden: Tensor
    cell: Any
    reading: Any
    memory: Any


def joined(states: Sequence[LoopState]) -> MemoryRNNState:
    """The state of layers and directions, [B, ...] each, as one."""
    if len(states) == 1:
        hidden, *others = (part.unsqueeze(0) for part in states[0].controller)
    else:
        parts_of = zip(*(s.controller for s in states), strict=True)
        hidden, *others = (torch.stack(parts) for parts in parts_of)
    cell: Any = others[0] if len(others) == 1 else tuple(others)
    if len(states) == 1:
        return MemoryRNNState(hidden, cell, states[0].reading, states[0].memory)
    readings, memories = (tuple(s.reading for s in states), tuple(s.memory for s in states))
    return MemoryRNNState(hidden, cell, readings, memories)


def parted(
    state: MemoryRNNState, count: int, state_size: int, memory_state: type[tuple[Any, ...]]
) -> list[LoopState]:
    """The states of `count` layers and directions, of controllers with `state_size` tensors.

    Plain tuples of the same structure will do: the usual functions that detach a state make them.

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
            f"{type(state).__name__}. ub.detach_state(state) cuts one off, ub.index_state picks "
            "sequences out of it."
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
    readings, memories = (state.reading,), (state.memory,)
    if count > 1:
        readings, memories = state.reading, state.memory
        for name, parts_of in (("reading", readings), ("memory", memories)):
            if not isinstance(parts_of, tuple) or len(parts_of) != count:
                raise ShapeError(f"state.{name}: expected a tuple of {count}, one a layer.")
    named = [_named(memory, memory_state) for memory in memories]
    for memory in named:
        # That it is of this memory, and of which shapes, the memory itself checks.
        if not isinstance(memory, tuple) or not all(isinstance(f, Tensor) for f in memory):
            raise ShapeError(
                f"state.memory: expected a {memory_state.__name__} of tensors as an earlier call "
                f"returned it, got {type(memory).__name__}{_kinds(memory)}."
            )
    return [
        LoopState(tuple(part[k] for part in parts), readings[k], named[k]) for k in range(count)
    ]


def _kinds(memory: Any) -> str:
    """What stands in a state's fields."""
    if not isinstance(memory, tuple):
        return ""
    return f" of {', '.join(type(field).__name__ for field in memory)}"


def _named(memory: Any, memory_state: type[tuple[Any, ...]]) -> Any:
    """A memory's state that came as a plain tuple, with its fields named."""
    fields = getattr(memory_state, "_fields", ())
    if type(memory) is tuple and len(memory) == len(fields):
        return memory_state(*memory)
    return memory


def batched(state: MemoryRNNState) -> MemoryRNNState:
    """Give the state of an unbatched call a batch of one."""
    return _beside_batch(state, lambda tensor, axis: tensor.unsqueeze(axis))


def unbatched(state: MemoryRNNState) -> MemoryRNNState:
    """Take the batch of one away."""
    return _beside_batch(state, lambda tensor, axis: tensor.squeeze(axis))


def _index(state: MemoryRNNState, rows: Tensor | slice | list[int]) -> MemoryRNNState:
    check_rows(rows)
    check_batched(state)
    return _beside_batch(state, lambda tensor, axis: picked(tensor, rows, axis))


index_state.register(MemoryRNNState, _index)


def check_batched(state: MemoryRNNState) -> None:
    """Raise unless a state has a batch.

    Raises:
        ShapeError: it is that of an unbatched call.
    """
    if isinstance(state.hidden, Tensor) and state.hidden.dim() == 2:
        raise ShapeError(
            "state: expected that of a batch, hidden [L, B, H], got hidden "
            f"{list(state.hidden.shape)} of a call without a batch. Give the layer x [T, 1, I]."
        )


def check_axes(state: MemoryRNNState, is_unbatched: bool, batch_size: int) -> None:
    """Raise unless a state has a batch where its call has one, of as many sequences.

    Args:
        batch_size: B of the call; 1 without a batch.
    Raises:
        ShapeError: it has none, another, or one where the call has none.
    """
    is_whole = isinstance(state, tuple) and len(state) == len(MemoryRNNState._fields)
    hidden = state[0] if is_whole else None
    if not isinstance(hidden, Tensor):
        return  # `parted` says what is wrong with anything else
    shape = list(hidden.shape)
    if hidden.dim() == 3 and not is_unbatched and hidden.shape[1] != batch_size:
        raise ShapeError(
            f"state: expected hidden [L, B, H] with B = {batch_size}, as x has it, got {shape}. "
            "ub.index_state picks sequences out of a state."
        )
    if hidden.dim() != (3 if is_unbatched else 2):
        return
    if is_unbatched:
        raise ShapeError(
            f"state: expected hidden [L, H], because x [T, I] has no batch, got {shape} of a call "
            "with one. Give the layer x with a batch of one."
        )
    raise ShapeError(
        f"state: expected hidden [L, B, H], because x has a batch, got {shape} of a call without "
        "one. Give the layer x [T, I], or a state of a batch."
    )


def _beside_batch(
    state: MemoryRNNState, function: Callable[[Tensor, int], Tensor]
) -> MemoryRNNState:
    """Apply function(tensor, axis of its batch) to every tensor."""
    if not isinstance(state, tuple) or len(state) != len(MemoryRNNState._fields):
        return state  # `parted` says what is wrong with it
    hidden, cell, *rest = state

    def second(field: Any) -> Any:
        if isinstance(field, tuple):
            return map_state(lambda tensor: function(tensor, 1), field)
        return function(field, 1) if isinstance(field, Tensor) else field

    def first(field: Any) -> Any:
        if isinstance(field, tuple):
            return map_state(lambda tensor: function(tensor, 0), field)
        return function(field, 0) if isinstance(field, Tensor) else field

    return MemoryRNNState(second(hidden), second(cell), *map(first, rest))
