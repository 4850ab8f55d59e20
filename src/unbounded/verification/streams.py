"""Streams: each sequence alone from a fresh memory, all of an n while they are few.

A counting language such as a^n b^n has one sequence for each n, and every n to 2000 is checked. For
others, such as memorization, all sequences of small n are checked, and beyond some drawn ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import nn

from unbounded.tasks import Batch, LengthRange, StreamTask
from unbounded.tasks.batch import together
from unbounded.tasks.randomness import Stream
from unbounded.tasks.streams import Sequences, lay_out_alone
from unbounded.verification.findings import Finding, assess, course_of
from unbounded.verification.margins import ReadVectorRange
from unbounded.verification.options import VerifyOptions
from unbounded.verification.shared import CHUNK_TOKENS, joined, shortened

# Number of n with measured read vectors, evenly spaced on a logarithmic scale.
_MEASURED = 40


def stream_findings(
    model: nn.Module,
    task: StreamTask,
    options: VerifyOptions,
    look: Callable[[str, float], None],
) -> Iterator[Finding]:
    """The findings at each n, the short ones first.

    Args:
        model: a model that reads the task's symbols.
        task: a stream task.
        options: the extent of the verification.
        look: called with a description and the share that is done; may raise to interrupt.
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
    for n in options.drawn_lengths(task.train_lengths.maximum):
        if n <= last or n < source.shortest:
            continue
        available = source.count_of(n)
        if available is not None and available <= options.count:
            yield from _every(model, task, [(n, source.every(n))], read_vector)
            continue
        yield _drawn(model, task, n, options, read_vector, look)


def _last_listed(task: StreamTask, options: VerifyOptions) -> int:
    """The largest n up to which all sequences are checked."""
    source = task.source
    last = source.shortest - 1
    for n in range(source.shortest, options.most + 1):
        count = source.count_of(n)
        # A sequence has at least n symbols: too many are not listed for the count.
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
        right, margin = assessment.right[rows], assessment.margin[rows]
        findings.append(
            Finding(
                n,
                True,
                len(rows),
                int(right.sum()),
                float(margin.min()),
                None if assessment.certainty is None else float(assessment.certainty[rows].min()),
                assessment.displaced if len(listed) == 1 else None,
                None if bool(right.all()) else _text(task, batch, int(rows[right.int().argmin()])),
            )
        )
    return findings


def _drawn(
    model: nn.Module,
    task: StreamTask,
    n: int,
    options: VerifyOptions,
    read_vector: ReadVectorRange,
    look: Callable[[str, float], None],
) -> Finding:
    """Drawn sequences of one n, a few at a time."""
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
        wrong = None
        if not bool(assessment.right.all()):
            wrong = _text(task, batch, int(assessment.right.int().argmin()))
        parts.append(
            Finding(
                n,
                False,
                size,
                int(assessment.right.sum()),
                float(assessment.margin.min()),
                None if assessment.certainty is None else float(assessment.certainty.min()),
                assessment.displaced,
                wrong,
                course_of(assessment) if not done else None,
            )
        )
        done += size
    return joined(parts)


def _text(task: StreamTask, batch: Batch, row: int) -> str:
    """A sequence in symbols, without its first input, the end of another one."""
    tokens = batch.inputs[row, 1 : int(batch.lengths[row])].tolist()
    return shortened([task.input_vocabulary[token] for token in tokens])
