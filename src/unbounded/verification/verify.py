"""Verify a network on all short strings, on drawn long strings, and by its margins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import nn

from unbounded.checks import check_callable, check_kind, check_module
from unbounded.errors import ConfigError
from unbounded.tasks import (
    Batch,
    LengthRange,
    StreamTask,
    Task,
    TransductionTask,
)
from unbounded.tasks.batch import together
from unbounded.tasks.pair_file import FilePairs
from unbounded.tasks.randomness import Stream
from unbounded.tasks.streams import Sequences, lay_out_alone
from unbounded.tasks.task import check_task
from unbounded.verification.findings import (
    CHUNK_TOKENS,
    Finding,
    assess,
    course_of,
    finding_of,
    joined,
    shortened,
)
from unbounded.verification.margins import ReadVectorRange
from unbounded.verification.options import VerifyOptions
from unbounded.verification.words import word_findings

# Number of n for which read vectors are measured, evenly spaced on a logarithmic scale.
_MEASURED = 40


def stream_findings(
    model: nn.Module,
    task: StreamTask,
    options: VerifyOptions,
    look: Callable[[str, float], None],
    train_lengths: LengthRange,
) -> Iterator[Finding]:
    """The findings at each n, in rising order of n.

    Args:
        model: a model that reads the task's symbols.
        task: a stream task.
        options: the extent of the verification.
        look: called with a description and the share that is done; may raise to interrupt.
        train_lengths: the training range; sequences are drawn at multiples of its maximum.
    """
    source = task.source
    last = _last_listed(task, options)
    read_vector = ReadVectorRange()
    measured = set(
        np.geomspace(max(source.shortest, 1), max(last, 1), _MEASURED).round().astype(int)
    )
    waiting: list[tuple[int, Sequences]] = []
    tokens = done = 0
    total_steps = sum(range(source.shortest, last + 1))
    for n in range(source.shortest, last + 1):
        drawn = source.every(n)
        if waiting and (tokens + drawn.symbols.size > CHUNK_TOKENS or n in measured):
            yield from _every(
                model, task, waiting, read_vector if waiting[0][0] in measured else None
            )
            waiting, tokens = [], 0
        waiting.append((n, drawn))
        tokens, done = tokens + drawn.symbols.size, done + n
        look(f"every sequence, n to {last}", done / max(total_steps, 1))
        if n in measured:
            yield from _every(model, task, waiting, read_vector)
            waiting, tokens = [], 0
    if waiting:
        yield from _every(model, task, waiting, None)
    for n in options.drawn_lengths(train_lengths.maximum):
        if n <= last or n < source.shortest:
            continue
        available = source.count_of(n)
        if available is not None and available <= options.count:
            yield from _every(model, task, [(n, source.every(n))], read_vector)
            continue
        yield _drawn(model, task, n, options, read_vector, look)


def _last_listed(task: StreamTask, options: VerifyOptions) -> int:
    """The greatest n up to which all sequences are checked."""
    source = task.source
    last = source.shortest - 1
    for n in range(source.shortest, options.most + 1):
        count = source.count_of(n)
        # A sequence has at least n symbols. So if there are too many sequences, they need not be
        # listed.
        if count is None or count * n > options.symbols_each:
            break
        if count > 1 and int(source.every(n).lengths.sum()) > options.symbols_each:
            break
        last = n
    return last


def _every(
    model: nn.Module,
    task: StreamTask,
    listed: list[tuple[int, Sequences]],
    read_vector: ReadVectorRange | None,
) -> list[Finding]:
    batch = together([lay_out_alone(drawn, task.source) for _, drawn in listed])
    assessment = assess(model, batch, task.objective, read_vector=read_vector)
    owner = torch.tensor([n for n, drawn in listed for _ in drawn.lengths])
    findings = []
    for n, _ in listed:
        rows = (owner == n).nonzero()[:, 0]
        certainty = None if assessment.certainty is None else assessment.certainty[rows]
        displaced = assessment.displaced if len(listed) == 1 else None
        text = partial(_text, task, Batch(*(field[rows] for field in batch)))
        findings.append(finding_of(n, True, assessment.margin[rows], certainty, displaced, text))
    return findings


def _drawn(
    model: nn.Module,
    task: StreamTask,
    n: int,
    options: VerifyOptions,
    read_vector: ReadVectorRange,
    look: Callable[[str, float], None],
) -> Finding:
    """Draw sequences of one n, a few at a time."""
    parts: list[Finding] = []
    stream, done = Stream(options.seed, "test"), 0
    while done < options.count:
        one = task.source.draw(stream, done, 1, LengthRange(n, n))
        size = max(1, min(options.count - done, CHUNK_TOKENS // one.symbols.size))
        drawn = task.source.draw(stream, done, size, LengthRange(n, n))
        batch = lay_out_alone(drawn, task.source)
        name = f"{options.count} drawn sequences, n = {n}"
        assessment = assess(
            model,
            batch,
            task.objective,
            read_vector=read_vector,
            check=partial(look, name, done / options.count),
        )
        parts.append(
            finding_of(
                n,
                False,
                assessment.margin,
                assessment.certainty,
                assessment.displaced,
                partial(_text, task, batch),
                course_of(assessment) if not done else None,
            )
        )
        done += size
    return joined(parts)


def _text(task: StreamTask, batch: Batch, row: int) -> str:
    """A sequence as symbols, without its first input, which is the end of another sequence."""
    tokens = batch.inputs[row, 1 : int(batch.lengths[row])].tolist()
    return shortened([task.input_vocabulary[token] for token in tokens])


#: Called with a description and the finished share. The function may raise an error to interrupt.
Look = Callable[[str, float], None]

_RULES: Final = (
    "streams such as anbn, sources and answers such as copy, strings of brackets such as dyck, and "
    "the determined part of stack languages with a mark such as marked_reversal"
)
_LAYOUTS: Final = ("pairs", "answer", "labels", "stream")


def findings_of(
    model: nn.Module,
    task: Task,
    options: VerifyOptions,
    look: Look = lambda name, share: None,
    train_lengths: LengthRange | None = None,
) -> Iterator[Finding]:
    """Yield the findings on a model for each length. An early stop keeps all findings so far.

    Args:
        model: reads the task's symbols.
        task: a task with a rule for correct answers.
        options: the extent of the verification.
        look: called with a description and the share that is done.
        train_lengths: the training range of the model; None for the task's.
    Raises:
        ConfigError: the task has no rule, or fewer symbols than the alphabet option.
    """
    check_module("model", model)
    check_task(task)
    check_kind("options", options, VerifyOptions, "VerifyOptions() has the defaults.")
    check_callable("look", look)
    error = rule_error(task)
    if error is not None:
        raise ConfigError(f"task {task.name!r} {error}. What can be verified: {_RULES}")
    check_alphabet(task, options.alphabet)
    trained = task.train_lengths if train_lengths is None else LengthRange.of(train_lengths)
    if isinstance(task, StreamTask):
        return stream_findings(model, task, options, look, trained)
    return word_findings(model, task, options, look, trained)


def rule_error(task: Task) -> str | None:
    """The reason why answers to a task cannot be checked one by one; None if they can."""
    if task.objective == "bits":
        return "answers with vectors of bits; margins exist only for answers of single symbols"
    in_data = isinstance(task, TransductionTask) and isinstance(task.pairs, FilePairs)
    if in_data or task.layout not in _LAYOUTS:
        return "has no rule to check answers against: its targets come only from its data"
    if not task.is_determined:
        return (
            "has no rule for one correct output: at most steps several symbols may follow, or the "
            "string may end"
        )
    return None


def count_of(task: Task, length: int, symbols: int) -> int | None:
    """The number of sequences of one length; None if the task cannot list them.

    Args:
        task: a task.
        length: n of a stream task, else as for `Task.count_of`.
        symbols: as for `Task.count_of`; without effect on streams.
    """
    if isinstance(task, StreamTask):
        return task.source.count_of(length)
    return task.count_of(length, symbols)


def check_alphabet(task: Task, symbols: int) -> None:
    """Check that the sources of a task have at least `symbols` symbols.

    Raises:
        ConfigError: the sources have fewer symbols, or the task has no sources and `symbols` is not
            the default.
    """
    if not isinstance(task, TransductionTask):
        usual = VerifyOptions().alphabet
        if symbols != usual:
            raise ConfigError(
                f"alphabet: {symbols} has no effect on task {task.name!r}, which has all "
                f"strings checked; leave it at {usual}"
            )
        return
    available = task.pairs.most_symbols
    if symbols > available:
        raise ConfigError(
            f"alphabet: expected at most {available}, the symbols of a source of task "
            f"{task.name!r}, got {symbols}"
        )
