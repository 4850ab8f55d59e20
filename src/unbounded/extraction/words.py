"""The strings of an extraction, and those of its comparison with the network."""

from __future__ import annotations

import numpy as np

from unbounded.errors import ConfigError
from unbounded.tasks import Batch, LengthRange, StreamTask, Task
from unbounded.tasks.batch import together
from unbounded.tasks.randomness import Stream
from unbounded.tasks.streams import Sequences, lay_out, lay_out_alone
from unbounded.verification.verify import check_alphabet, rule_error

#: Largest n of which sequences of a stream are also observed in pairs.
_MOST_PAIRED = 4


def listed_words(task: Task, symbols: int, budget: int) -> tuple[Batch, int]:
    """All strings up to a length.

    For streams also all pairs of sequences of small n, where the budget allows.

    Args:
        task: with a rule.
        symbols: number of source symbols that occur, the first ones.
        budget: most symbols of all strings together.
    Returns:
        the strings, and the length up to which all are among them.
    Raises:
        ConfigError: the task has no rule, or its strings cannot be listed.
    """
    check_has_rule(task)
    check_alphabet(task, symbols)
    parts: list[Batch] = []
    total, length = 0, 0
    while total <= budget:
        count = _count(task, length + 1, symbols)
        if count is None or count * (length + 1) > budget - total:
            break
        length += 1
        if not count:
            continue
        part = _every(task, length, symbols)
        total += int(part.lengths.sum())
        parts.append(part)
        if isinstance(task, StreamTask) and length <= _MOST_PAIRED:
            both = _pairs(task, length)
            if total + int(both.lengths.sum()) <= budget:
                total += int(both.lengths.sum())
                parts.append(both)
    if not parts:
        raise ConfigError(
            [f"task {task.name!r}: its strings cannot be listed within {budget} symbols; give more"]
        )
    return together(parts), length


def long_words(task: Task, symbols: int, length: int, count: int, seed: int) -> Batch:
    """Drawn strings of one length, over the same symbols.

    Args:
        task, symbols: as for `listed_words`.
        length: of each.
        count: strings. For streams with fewer sequences of that n, all of them.
        seed: of the draw.
    Raises:
        ConfigError: there is no string of that length.
    """
    if isinstance(task, StreamTask):
        available = task.source.count_of(length)
        if available is not None and 0 < available <= count:
            return lay_out_alone(task.source.every(length), task.source)
        lengths = LengthRange(length, length)
        drawn = task.source.draw(Stream(seed, "test"), 0, count, lengths)
        return lay_out_alone(drawn, task.source)
    few = task.over(symbols)
    return _drawn(task if few is None else few, length, count, seed)


def check_has_rule(task: Task) -> None:
    """Raise ConfigError unless strings of the task can be listed with their correct answers."""
    error = rule_error(task)
    if error is None and _count(task, 2, 1) is None:
        error = "has no rule from which its strings could be listed"
    if error is not None:
        raise ConfigError(
            [
                f"task {task.name!r} {error}. What can be extracted: automata of streams such as "
                "anbn, of copy, reversal and similar tasks, of sentences and of brackets"
            ]
        )


def _count(task: Task, length: int, symbols: int) -> int | None:
    if isinstance(task, StreamTask):
        return task.source.count_of(length)
    return task.count_of(length, symbols)


def _every(task: Task, length: int, symbols: int) -> Batch:
    if isinstance(task, StreamTask):
        return lay_out_alone(task.source.every(length), task.source)
    return task.every(length, symbols)


def _drawn(task: Task, length: int, count: int, seed: int) -> Batch:
    """Strings of one length, or of the next for a task with even lengths only."""
    try:
        return task.batch(seed, "test", 0, count, LengthRange(length, length))
    except ConfigError:
        return task.batch(seed, "test", 0, count, LengthRange(length, length + 1))


def _pairs(task: StreamTask, length: int) -> Batch:
    """All pairs of sequences, the longer one of that n, as streams."""
    short = [task.source.every(n) for n in range(task.source.shortest, length + 1)]
    rows = [
        (part.symbols[k], int(part.lengths[k]), int(part.given[k]), n)
        for n, part in enumerate(short, start=task.source.shortest)
        for k in range(len(part.lengths))
    ]
    both = [row for a in rows for b in rows if length in (a[3], b[3]) for row in (a, b)]
    width = max(len(symbols) for symbols, *_ in both)
    padded = np.stack([np.pad(symbols, (0, width - len(symbols))) for symbols, *_ in both])
    sequences = Sequences(
        padded, np.array([row[1] for row in both]), np.array([row[2] for row in both])
    )
    judged = lay_out(sequences, task.source, 2, "all")
    return judged.batch._replace(mask=judged.judged >= 0)
