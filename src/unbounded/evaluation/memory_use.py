"""Does a model use its memory? What it tells it in the mean, on validation sequences.

A Stack-LSTM can be right on what it was trained on with pushes near 0: then the LSTM alone has
learned it, and nothing says that longer sequences come out right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from unbounded.errors import MemoryOverflowError
from unbounded.evaluation.room import with_room
from unbounded.layers import MemoryRNN
from unbounded.models.decisions import mean_decisions
from unbounded.tasks import LengthRange, Task
from unbounded.tasks.streams import StreamTask

#: Sequences of a range that are looked at, and their tokens, at most.
_SEQUENCES, _TOKENS = 64, 32768
#: More numbers of a head than these are not shown on the screen.
_SHOWN = 4


def memory_use(
    model: nn.Module,
    task: Task,
    seed: int,
    lengths: Iterable[LengthRange],
    device: torch.device | str = "cpu",
    count: int = _SEQUENCES,
) -> dict[str, Any] | None:
    """The mean of each decision on validation sequences of each range.

    Args:
        model: is or holds a SequenceModel, in eval mode.
        task, seed: of the sequences.
        lengths: the ranges.
        device: where the model is.
        count: sequences of a range at most; never more than 64, and fewer of long ones.
    Returns:
        range -> "unscored" and "scored" -> head -> mean, as of `mean_decisions`, without ranges of
        which the task has no validation sequence, or which overflow the memory; None of a model
        without one memory that decides, and of a task without lengths.
    """
    layers = [part for part in model.modules() if isinstance(part, MemoryRNN)]
    if len(layers) != 1 or not task.has_lengths:
        return None
    if not any(head.can_harden for head in layers[0].memory.heads):
        return None
    found = {}
    for each in lengths:
        there = task.available("validation", each)  # None where there is no end of them
        if there == 0:
            continue
        # A source and its target: twice the length.
        few = max(1, min(count, _SEQUENCES, _TOKENS // (2 * each.maximum + 2)))
        if isinstance(task, StreamTask):
            streams = max(1, few // task.sequences)
            judged = task.judged(seed, "validation", 0, streams, each)
            batch, longest = judged.batch, judged.longest
        else:
            batch = task.batch(seed, "validation", 0, min(few, there or few), each)
            longest = batch.inputs.shape[1]
        roomy, _ = with_room(model, longest)
        # A full memory says nothing of its use, and is no reason to lose the scores.
        with suppress(MemoryOverflowError):
            found[str(each)] = mean_decisions(roomy, batch, device=device)
    return found


def use_lines(report: Mapping[str, Any]) -> list[str]:
    """What a report says of it, as lines for the screen; none where it says nothing."""
    told = {lengths: use_text(report, lengths) for lengths in report.get("memory_use") or {}}
    return [f"memory at {lengths}, validation: {text}" for lengths, text in told.items() if text]


def use_text(report: Mapping[str, Any], lengths: str) -> str:
    """What a report says of it at some lengths; empty where it says nothing.

    A head of many numbers, such as the actions of ten stacks, is in the report alone.
    """
    phases = (report.get("memory_use") or {}).get(lengths, {})
    parts = []
    # Of a stream or of labels every step is scored, and nothing is only read.
    answer = "answering" if "unscored" in phases else "at every step"
    for phase, said in (("reading", "unscored"), (answer, "scored")):
        heads = filter(None, (_shown(*each) for each in phases.get(said, {}).items()))
        text = ", ".join(heads)
        parts += [f"{phase} {text}"] if text else []
    return "; ".join(parts)


def _shown(name: str, mean: Any) -> str:
    numbers = list(_numbers(mean))
    if len(numbers) > _SHOWN:
        return ""
    return f"{name} {' '.join(f'{number:.2f}' for number in numbers)}"


def _numbers(mean: Any) -> Iterator[float]:
    """The numbers of nested lists, in their order.

    Raises:
        TypeError, ValueError: one is no number, in a damaged report.
    """
    if isinstance(mean, list):
        for each in mean:
            yield from _numbers(each)
    else:
        yield float(mean)
