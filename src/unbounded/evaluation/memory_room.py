"""Messages about the capacity of a memory for sequences longer than in training."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from unbounded.errors import RoomWarning, say_once
from unbounded.memories.turing_tape import TuringTape
from unbounded.rnn import MemoryLayer
from unbounded.tasks import LengthRange, Task


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
