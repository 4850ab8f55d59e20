"""A trace of a trained memory at work on one example, for the figures."""

from __future__ import annotations

from pathlib import Path

import torch

from unbounded.layers import MemoryRNN, save_trace
from unbounded.models.transduction import TransductionModel
from unbounded.tasks import LengthRange, Task
from unbounded.training.files import storage_faults

#: A picture of more symbols than these cannot be read.
READABLE = 16


def write_trace(model: TransductionModel, task: Task, seed: int, path: Path) -> None:
    """Write what the memory does on the first test example of readable length.

    Nothing is written for a model without a memory.

    Args:
        model: on the CPU or a device, in any mode.
        task: yields the example, from the shorter end of its training range.
        seed: of the example.
        path: the file; its folder is made.
    Raises:
        StorageError: the disk refused.
    """
    layer = model.sequence.layer
    if not isinstance(layer, MemoryRNN):
        return
    shortest = task.train_lengths.minimum
    lengths = LengthRange(shortest, min(task.train_lengths.maximum, max(READABLE, shortest)))
    batch = task.batch(seed, "test", 0, 1, lengths)
    symbols = [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    device = next(model.parameters()).device
    with torch.no_grad():
        embedded = model.sequence.embed(batch.inputs.to(device))
        trace = layer(embedded, lengths=batch.lengths.to(device), return_trace=True)[2]
    with storage_faults(path, "writing trace"):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_trace(path, trace._replace(symbols=symbols))
