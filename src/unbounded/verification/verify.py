"""Looking at a network on every short word, on drawn long ones, and at its margins on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from torch import nn

from unbounded.errors import ConfigError
from unbounded.tasks import StreamTask, Task, TransductionTask
from unbounded.tasks.pair_file import FilePairs
from unbounded.verification.findings import Finding
from unbounded.verification.options import VerifyOptions
from unbounded.verification.streams import stream_findings
from unbounded.verification.words import word_findings

#: Told what is looked at, and which share of it is done; may raise to give up.
Look = Callable[[str, float], None]

_RULES: Final = (
    "streams such as anbn, sources and answers such as copy, and words of brackets such as dyck"
)
_LAYOUTS: Final = ("pairs", "answer", "labels", "stream")


def findings_of(
    model: nn.Module,
    task: Task,
    options: VerifyOptions,
    look: Look = lambda name, share: None,
) -> Iterator[Finding]:
    """What is found of a model, length by length; stopping early loses nothing of it.

    Args:
        model: reads the task's symbols.
        task: with a rule that says what is right.
        options: how much is looked at.
        look: told what is looked at.
    Raises:
        ConfigError: the task has no rule.
    """
    if isinstance(task, StreamTask):
        return stream_findings(model, task, options, look)
    if has_rule(task):
        return word_findings(model, task, options, look)
    raise ConfigError(
        [
            f"task {task.name!r} has no rule to check answers against: what it asks for is in its "
            f"data alone, or is no single choice. What can be verified: {_RULES}"
        ]
    )


def has_rule(task: Task) -> bool:
    """Whether what is right follows from what is read, and is one choice."""
    if isinstance(task, TransductionTask) and isinstance(task.pairs, FilePairs):
        return False
    return task.layout in _LAYOUTS and task.objective != "bits"
