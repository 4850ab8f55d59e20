"""Streams: each sequence alone from a fresh memory, every one of an n while they are few.

Of a counting language such as a^n b^n there is one sequence of each n, and every n to 2000 is
taken; of others, as memorization, every sequence of the small n, and beyond some that are drawn.
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
from unbounded.verification.margins import ReadingRange
from unbounded.verification.options import VerifyOptions
from unbounded.verification.shared import CHUNK_TOKENS, joined, shortened

# So many n have their readings looked at, spread evenly on a logarithmic scale.
_READ = 40


def stream_findings(
    model: nn.Module,
    task: StreamTask,
    options: VerifyOptions,
    look: Callable[[str, float], None],
) -> Iterator[Finding]:
    """What is found at each n, the short ones first.

    Args:
        model: any that reads the task's symbols.
        task: of streams.
        options: how much is looked at.
        look: told what is looked at and which share of it is done; may raise to give up.
    """
    source = task.source
    last = _last_listed(task, options)
    reading = ReadingRange()
    read = set(np.geomspace(max(source.shortest, 1), max(last, 1), _READ).round().astype(int))
    waiting: list[tuple[int, Sequences]] = []
    tokens = done = 0
    whole = sum(range(source.shortest, last + 1))
    for n in range(source.shortest, last + 1):
        drawn = source.every(n)
        if waiting and (tokens + drawn.symbols.size > CHUNK_TOKENS or n in read):
            yield from _every(model, task, waiting, reading if waiting[0][0] in read else None)
            waiting, tokens = [], 0
        waiting.append((n, drawn))
        tokens, done = tokens + drawn.symbols.size, done + n
        look(f"every sequence, n to {last}", done / max(whole, 1))
        if n in read:
            yield from _every(model, task, waiting, reading)
            waiting, tokens = [], 0
    if waiting:
        yield from _every(model, task, waiting, None)
    for n in options.drawn_lengths(task.train_lengths.maximum):
        if n <= last or n < source.shortest:
            continue
        there = source.count_of(n)
        if there is not None and there <= options.count:
            yield from _every(model, task, [(n, source.every(n))], reading)
            continue
        yield _drawn(model, task, n, options, reading, look)


def _last_listed(task: StreamTask, options: VerifyOptions) -> int:
    """The greatest n up to which every sequence is taken."""
    source = task.source
    last = source.shortest - 1
    for n in range(source.shortest, options.most + 1):
        count = source.count_of(n)
        # A sequence has n symbols at least: what is too many is not listed to be counted.
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
    reading: ReadingRange | None,
) -> list[Finding]:
    batch = together([lay_out_alone(drawn, task.source) for _, drawn in listed])
    assessment = assess(model, batch, task.objective, reading=reading)
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
    reading: ReadingRange,
    look: Callable[[str, float], None],
) -> Finding:
    """Sequences of one n that are drawn, a few at a time."""
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
            reading=reading,
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
    """A sequence in symbols, without what it read first, the end of another one."""
    tokens = batch.inputs[row, 1 : int(batch.lengths[row])].tolist()
    return shortened([task.input_vocabulary[token] for token in tokens])
