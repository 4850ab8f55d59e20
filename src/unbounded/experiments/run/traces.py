"""A trace of a trained memory at work on one example, for the figures."""

from __future__ import annotations

from pathlib import Path

import torch

from unbounded.layers import MemoryRNN, save_trace
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Batch, Task
from unbounded.training.files import storage_faults


def write_trace(model: MemoryModel, task: Task, batch: Batch, path: Path) -> None:
    """Write what the memory does with an example.

    Nothing is written for a model without a memory.

    Args:
        model: on the CPU or a device, in any mode.
        task: names the symbols.
        batch: one example.
        path: the file; its folder is made.
    Raises:
        StorageError: the disk refused.
    """
    layer = model.sequence.layer
    if not isinstance(layer, MemoryRNN):
        return
    symbols = [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    device = next(model.parameters()).device
    with torch.no_grad():
        embedded = model.sequence.embed(batch.inputs.to(device))
        trace = layer(embedded, lengths=batch.lengths.to(device), return_trace=True)[2]
    with storage_faults(path, "writing trace"):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_trace(path, trace._replace(symbols=symbols))
