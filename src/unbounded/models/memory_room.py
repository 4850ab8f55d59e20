"""Memories for longer sequences than in training: enlarge them, or warn that they are small."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from torch import nn

from unbounded.checks import check_module, check_size
from unbounded.errors import RoomWarning, say_once
from unbounded.memories import RollingTape, SuperpositionMemory, TuringTape
from unbounded.rnn import MemoryAttention, MemoryLayer
from unbounded.tasks import LengthRange, Task

ModelT = TypeVar("ModelT", bound=nn.Module)

#: Cells of a ring for each symbol. On a ring that is hardly longer than the sequence, a jump would
#: end beside the cell where it began, like a step.
_RING: Final = 8
#: The options of memories whose capacity `with_room` raises that set this capacity.
_CAPACITIES: Final = ("capacity", "slots")
_IS_KEPT: ContextVar[bool] = ContextVar("capacity_is_kept", default=False)


@contextmanager
def kept_capacity(options: Mapping[str, Any]) -> Iterator[None]:
    """Make `with_room` leave memories as they are, if a user gave their capacity for the scores.

    Args:
        options: memory options that a user gave for the scores, by name.
    """
    is_given = any(name in options for name in _CAPACITIES)
    token = _IS_KEPT.set(_IS_KEPT.get() or is_given)
    try:
        yield
    finally:
        _IS_KEPT.reset(token)


def with_room(model: ModelT, symbols: int) -> tuple[ModelT, int | None]:
    """Return a model with the same weights whose memory is large enough for `symbols` symbols.

    Superposition memories and rolling tapes have a capacity that can be raised.
    A capacity chosen for the training lengths must not affect the scores of longer sequences.
    A capacity that a user gave for the scores stays (`kept_capacity`).

    Args:
        model: stays unchanged.
        symbols: number of symbols in the longest sequence.
    Returns:
        the model itself and None, if no capacity is below `symbols` or capacities are kept.
        Otherwise a copy and the number of cells; in the copy each memory with a lower capacity is
        replaced by one with `symbols` cells, or eight times as many if it is a ring.
    Raises:
        ShapeError: `symbols` is not an integer of at least 0.
    """
    check_module("model", model)
    check_size("symbols", symbols)
    if _IS_KEPT.get():
        return model, None
    limited = [name for name, part in model.named_modules() if _is_short(part, symbols)]
    if not limited:
        return model, None
    roomy, most = copy.deepcopy(model), symbols
    for name in limited:
        layer: Any = roomy.get_submodule(name)
        cells = symbols * (_RING if isinstance(layer.memory, RollingTape) else 1)
        layer.memory = layer.memory.with_capacity(cells)
        most = max(most, cells)
    return roomy, most


def _is_short(part: nn.Module, symbols: int) -> bool:
    if not isinstance(part, MemoryLayer | MemoryAttention):
        return False
    memory = part.memory
    if not isinstance(memory, SuperpositionMemory | RollingTape) or memory.capacity is None:
        return False
    return memory.capacity < symbols


def room_note(cells: int) -> str:
    """The note for scores of a model to which `with_room` added cells."""
    return (
        f"to score these, the memory was given room for {cells} cells, more than its own capacity"
    )


def warn_of_room(model: nn.Module, task: Task, lengths: Iterable[LengthRange]) -> None:
    """Warn once if a tape has fewer slots than the task may have to keep at once.

    Args:
        model: the model with the tapes.
        task: gives the number of symbols to keep.
        lengths: the scored ranges.
    """
    tapes = [part.memory for part in model.modules() if isinstance(part, MemoryLayer)]
    slots = [tape.slots for tape in tapes if isinstance(tape, TuringTape)]
    most_held = [task.most_held(span) for span in lengths]
    most = max((needed for needed in most_held if needed is not None), default=0)
    if slots and most > min(slots):
        say_once(
            f"words of task {task.name} may be up to {most} high, and the tape has {min(slots)} "
            "slots: it may not stack them all. `unbounded evaluate RUN --model.memory.slots "
            f"{most + 1}` scores with more.",
            RoomWarning,
        )
