"""The mean gates of a memory on validation sequences, which show whether a model uses it.

A Stack-LSTM can be correct on its training lengths with pushes near 0. If the LSTM solves the task
without the stack, longer sequences may fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from unbounded.checks import check_device, check_items, check_module, check_positive
from unbounded.errors import MemoryOverflowError, NonFiniteError
from unbounded.models.gates import mean_gates
from unbounded.models.memory_room import with_room
from unbounded.rnn import MemoryLayer
from unbounded.tasks import LengthRange, Task
from unbounded.tasks.streams import StreamTask
from unbounded.tasks.task import check_task

#: Limits for the number of sequences in a range, and for their tokens.
_SEQUENCES, _TOKENS = 64, 32768


def memory_use(
    model: nn.Module,
    task: Task,
    seed: int,
    lengths: Iterable[LengthRange],
    device: torch.device | str = "cpu",
    count: int = _SEQUENCES,
) -> dict[str, Any] | None:
    """The mean of each gate on validation sequences of each range.

    Args:
        model: is or holds a SequenceModel, in eval mode.
        task, seed: of the sequences.
        lengths: the ranges.
        device: the model's device.
        count: most sequences of a range; never more than 64, and fewer long ones.
    Returns:
        range -> "unscored" and "scored" -> head -> mean, as in `mean_gates`. Ranges without a
        validation sequence, or which overflow the memory, are left out. None for a model without
        exactly one memory with gates, and for a task without lengths.
    """
    check_module("model", model)
    check_task(task)
    device = check_device(device)
    lengths = check_items("lengths", lengths, LengthRange)
    check_positive("count", count)
    layers = [part for part in model.modules() if isinstance(part, MemoryLayer)]
    if len(layers) != 1 or not task.has_lengths:
        return None
    if not any(head.can_harden for head in layers[0].memory.heads):
        return None
    use = {}
    for span in lengths:
        available = task.available("validation", span)  # None if the number is unlimited
        if available == 0:
            continue
        # A source and its target: twice the length.
        sequences = max(1, min(count, _SEQUENCES, _TOKENS // (2 * span.maximum + 2)))
        if isinstance(task, StreamTask):
            streams = max(1, sequences // task.sequences)
            judged = task.judged(seed, "validation", 0, streams, span)
            batch, longest = judged.batch, judged.longest
        else:
            batch = task.batch(seed, "validation", 0, min(sequences, available or sequences), span)
            longest = batch.inputs.shape[1]
        roomy, _ = with_room(model, longest)
        # If the memory overflows, the mean gates are missing, but the scores are kept.
        with suppress(MemoryOverflowError, NonFiniteError):
            use[str(span)] = mean_gates(roomy, batch, device=device)
    return use


#: A head with more numbers than this is not shown on the screen.
_SHOWN = 4


def use_lines(report: Mapping[str, Any]) -> list[str]:
    """Lines for the screen on a report's memory use; none if the report has no memory use."""
    lines = {lengths: use_text(report, lengths) for lengths in report.get("memory_use") or {}}
    return [f"memory at {lengths}, validation: {text}" for lengths, text in lines.items() if text]


def use_text(report: Mapping[str, Any], lengths: str) -> str:
    """Text on a report's memory use at some lengths; empty if the report has no memory use.

    The gates of a head with many numbers, such as the actions of ten stacks, are only in the
    report.
    """
    phases = (report.get("memory_use") or {}).get(lengths, {})
    parts = []
    # For streams and labels, every step is scored, so no step only reads.
    answer = "answering" if "unscored" in phases else "at every step"
    for phase, key in (("reading", "unscored"), (answer, "scored")):
        heads = filter(None, (_shown(*head) for head in phases.get(key, {}).items()))
        text = ", ".join(heads)
        parts += [f"{phase} {text}"] if text else []
    return "; ".join(parts)


def _shown(name: str, mean: Any) -> str:
    numbers = list(_numbers(mean))
    if len(numbers) > _SHOWN:
        return ""
    return f"{name} {' '.join(f'{number:.2f}' for number in numbers)}"


def _numbers(mean: Any) -> Iterator[float]:
    """The numbers in nested lists, in order. A null is NaN, which JSON does not have.

    Raises:
        TypeError, ValueError: an item is not a number, in a damaged report.
    """
    if isinstance(mean, list):
        for item in mean:
            yield from _numbers(item)
    else:
        yield math.nan if mean is None else float(mean)
