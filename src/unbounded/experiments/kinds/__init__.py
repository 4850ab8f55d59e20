"""The kinds of task, and which one a task is."""

from __future__ import annotations

from typing import Any, get_type_hints

from unbounded.errors import ChoiceError
from unbounded.experiments.kinds.base import Judge, Kind, Model, Place, Sweep
from unbounded.experiments.kinds.pairs import PairsKind
from unbounded.experiments.kinds.streams import StreamsKind
from unbounded.experiments.kinds.text import TextKind
from unbounded.tasks import TASKS, PennTreebank, StreamTask, Task, TransductionTask

__all__ = ["KINDS", "Judge", "Kind", "Model", "Place", "Sweep", "kind_of"]

#: Each class of task with its kind.
KINDS: dict[type[Task], Kind[Any]] = {
    TransductionTask: PairsKind(),
    StreamTask: StreamsKind(),
    PennTreebank: TextKind(),
}


def kind_of(task: str) -> Kind[Any]:
    """The kind of the task of that name; the task itself is not built.

    Raises:
        ChoiceError: there is no such task.
    """
    if task not in TASKS:
        raise ChoiceError("task", task, TASKS)
    return KINDS[get_type_hints(TASKS[task])["return"]]
