"""Verification of a network on all short strings, on drawn long ones, and by its margins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from torch import nn

from unbounded.checks import check_callable, check_kind, check_module
from unbounded.errors import ConfigError
from unbounded.tasks import StreamTask, Task, TransductionTask
from unbounded.tasks.pair_file import FilePairs
from unbounded.tasks.task import check_task
from unbounded.verification.findings import Finding
from unbounded.verification.options import VerifyOptions
from unbounded.verification.streams import stream_findings
from unbounded.verification.words import word_findings

#: Called with a description and the share that is done; may raise to interrupt.
Look = Callable[[str, float], None]

_RULES: Final = (
    "streams such as anbn, sources and answers such as copy, and strings of brackets such as dyck"
)
_LAYOUTS: Final = ("pairs", "answer", "labels", "stream")


def findings_of(
    model: nn.Module,
    task: Task,
    options: VerifyOptions,
    look: Look = lambda name, share: None,
) -> Iterator[Finding]:
    """The findings on a model, length by length; an early stop keeps all findings so far.

    Args:
        model: reads the task's symbols.
        task: a task with a rule for correct answers.
        options: the extent of the verification.
        look: called with a description and the share that is done.
    Raises:
        ConfigError: the task has no rule, or fewer symbols than the alphabet option.
    """
    check_module("model", model)
    check_task(task)
    check_kind("options", options, VerifyOptions, "VerifyOptions() has the defaults.")
    check_callable("look", look)
    error = rule_error(task)
    if error is not None:
        raise ConfigError([f"task {task.name!r} {error}. What can be verified: {_RULES}"])
    check_alphabet(task, options.alphabet)
    if isinstance(task, StreamTask):
        return stream_findings(model, task, options, look)
    return word_findings(model, task, options, look)


def rule_error(task: Task) -> str | None:
    """Why answers to a task cannot be checked one by one; None where they can."""
    if task.objective == "bits":
        return "answers with vectors of bits, and a margin is one of single choices"
    in_data = isinstance(task, TransductionTask) and isinstance(task.pairs, FilePairs)
    if in_data or task.layout not in _LAYOUTS:
        return "has no rule to check answers against: its targets are in its data alone"
    return None


def check_alphabet(task: Task, symbols: int) -> None:
    """Check that the sources of a task have at least `symbols` symbols.

    Raises:
        ConfigError: they have fewer, or there are no sources and it is not the default.
    """
    if not isinstance(task, TransductionTask):
        usual = VerifyOptions().alphabet
        if symbols != usual:
            raise ConfigError(
                [
                    f"alphabet: {symbols} has no effect on task {task.name!r}, which has all "
                    f"strings checked; leave it at {usual}"
                ]
            )
        return
    available = task.pairs.most_symbols
    if symbols > available:
        raise ConfigError(
            [
                f"alphabet: expected at most {available}, the symbols of a source of task "
                f"{task.name!r}, got {symbols}"
            ]
        )
