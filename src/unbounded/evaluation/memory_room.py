"""A model whose memory has room for a longer sequence than it was trained on."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import nn

from unbounded.errors import RoomWarning, say_once
from unbounded.layers import MemoryRNN
from unbounded.memories import SuperpositionMemory
from unbounded.memories.turing_tape import TuringTape
from unbounded.tasks import LengthRange, Task

ModelT = TypeVar("ModelT", bound=nn.Module)


def with_room(model: ModelT, symbols: int) -> tuple[ModelT, int | None]:
    """A model with the same weights whose superposition memories hold that many cells.

    A capacity that was enough for the lengths of training must not decide how a longer sequence is
    scored.

    Args:
        model: it stays as it is.
        symbols: of the longest sequence.
    Returns:
        the model itself and None where no capacity is lower; else a copy, in which each memory of a
        lower capacity is replaced by one of `symbols` cells, and `symbols`.
    """
    limited = [name for name, part in model.named_modules() if _is_short(part, symbols)]
    if not limited:
        return model, None
    roomy = copy.deepcopy(model)
    for name in limited:
        layer: Any = roomy.get_submodule(name)
        layer.memory = layer.memory.with_capacity(symbols)
    return roomy, symbols


def room_note(cells: int) -> str:
    """What is said under numbers of a model that `with_room` gave more cells."""
    return f"to score these, the memory was given room for {cells} cells, beyond its own capacity"


def warn_of_room(model: nn.Module, task: Task, lengths: Iterable[LengthRange]) -> None:
    """Warn, once, where a tape has fewer slots than what it reads may have to be kept at once.

    Args:
        model: whose tapes are looked at.
        task: says what must be kept.
        lengths: that are scored.
    """
    tapes = [part.memory for part in model.modules() if isinstance(part, MemoryRNN)]
    slots = [tape.slots for tape in tapes if isinstance(tape, TuringTape)]
    held = [task.most_held(each) for each in lengths]
    most = max((each for each in held if each is not None), default=0)
    if slots and most > min(slots):
        say_once(
            f"words of task {task.name} may be up to {most} high, and the tape has {min(slots)} "
            "slots: it may not stack them all. `unbounded evaluate RUN --model.memory.slots "
            f"{most + 1}` scores with more.",
            RoomWarning,
        )


def _is_short(part: nn.Module, symbols: int) -> bool:
    if not isinstance(part, MemoryRNN) or not isinstance(part.memory, SuperpositionMemory):
        return False
    return part.memory.capacity is not None and part.memory.capacity < symbols
