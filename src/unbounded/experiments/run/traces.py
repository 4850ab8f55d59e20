"""Traces of a trained memory on one example, for the figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from unbounded.experiments.run.run_folder import AnyPath, RunFolder, read_checkpoint
from unbounded.files import storage_errors
from unbounded.layers import MemoryRNN, Trace, save_trace
from unbounded.layers.read_only import trace_phases
from unbounded.layers.trace_json import save_run_trace
from unbounded.memories.as_data import has_name
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.tasks import Batch, Task


def write_trace(model: MemoryModel, task: Task, batch: Batch, path: Path) -> Path | None:
    """Write the trace of an example, in version 2 of the format.

    A custom memory has no registered name, so its trace is of version 1.

    Args:
        model, task, batch: as for `trace_of`.
        path: the file without its suffix; its folder is created.
    Returns:
        The file; None for a model without a memory.
    Raises:
        StorageError: the file cannot be written.
    """
    trace = run_trace(model, task, batch)
    if trace is None:
        return None
    with storage_errors(path, "writing trace"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if has_name(trace.memory):
            file = path.with_name(f"{path.name}.json")
            save_run_trace(file, trace)
            return file
        held = trace_of(model, task, batch)
        file = path.with_name(f"{path.name}.safetensors")
        if held is not None:
            save_trace(file, held)
        return file


FrameT = TypeVar("FrameT")


def course_of(
    run: AnyPath,
    task: Task,
    batch_of: Callable[[MemoryModel], Batch],
    read: Callable[[Path], FrameT],
) -> dict[int, FrameT]:
    """The memory heads on an example at each kept checkpoint, by batch.

    Args:
        run: the run's folder, with kept checkpoints (training.keep_checkpoints).
        batch_of: returns the example, which may include the checkpoint's answer.
        read: `figures.read_tape` or `figures.read_keys`.
    Raises:
        ConfigError: the run has no checkpoint.
        CheckpointError: a checkpoint cannot be used, or `read` does not support the memory.
    """
    frames = {}
    for batches, folder in RunFolder(run).kept_checkpoints().items():
        model = read_checkpoint(folder)
        with tempfile.TemporaryDirectory() as scratch:
            file = write_trace(model, task, batch_of(model), Path(scratch) / "example")
            if file is not None:
                frames[batches] = read(file)
    return frames


def trace_of(model: MemoryModel, task: Task, batch: Batch) -> Trace | None:
    """The trace of an example; None for a model without a memory.

    It has two further arrays [B, T]: on yes/no tasks "chance", the probability of yes at each step;
    on tasks with a path its "height".

    Args:
        model: on any device, in any mode.
        task: names the symbols.
        batch: one example.
    """
    layer = model.sequence.layer
    if not isinstance(layer, MemoryRNN):
        return None
    symbols = [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    device = next(model.parameters()).device
    with torch.no_grad():
        inputs, token = batch.inputs.to(device), model.sequence.read_only_token
        embedded = model.sequence.embed(inputs)
        if token is None:
            hidden, _, trace = layer(embedded, lengths=batch.lengths.to(device), return_trace=True)
        else:
            hidden, trace = trace_phases(layer, embedded, inputs == token)
        arrays = dict(trace.arrays)
        if task.objective == "binary":
            arrays["chance"] = torch.sigmoid(model.sequence.logits(hidden)[..., 0])
        heights = task.heights(batch.inputs)
        if heights is not None:
            arrays["height"] = heights.to(hidden.dtype)
    complete: Trace = trace._replace(arrays=arrays, symbols=symbols)
    return complete
