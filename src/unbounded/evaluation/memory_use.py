"""Does a model use its memory? What it tells it in the mean, on validation sequences.

A Stack-LSTM can be right on what it was trained on with pushes near 0: then the LSTM alone has
learned it, and nothing says that longer sequences come out right.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from unbounded.checks import check_device, check_items, check_module, check_positive
from unbounded.errors import MemoryOverflowError
from unbounded.layers import MemoryRNN
from unbounded.models.decisions import mean_decisions
from unbounded.models.memory_room import with_room
from unbounded.tasks import LengthRange, Task
from unbounded.tasks.streams import StreamTask
from unbounded.tasks.task import check_task

#: Sequences of a range that are looked at, and their tokens, at most.
_SEQUENCES, _TOKENS = 64, 32768


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
    check_module("model", model)
    check_task(task)
    device = check_device(device)
    lengths = check_items("lengths", lengths, LengthRange)
    check_positive("count", count)
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
