"""A trace of a trained memory at work on one example, for the figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from unbounded.experiments.run.loading import kept_checkpoints, read_checkpoint
from unbounded.files import storage_faults
from unbounded.layers import MemoryRNN, Trace, save_trace
from unbounded.layers.read_only import trace_phases
from unbounded.layers.trace_json import save_run_trace
from unbounded.memories.as_data import has_name
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.tasks import Batch, Task


def write_trace(model: MemoryModel, task: Task, batch: Batch, path: Path) -> Path | None:
    """Write what the memory does with an example, in version 2 of the format.

    A memory of your own has no name by which another program could make it: its trace is of
    version 1.

    Args:
        model, task, batch: as for `trace_of`.
        path: the file without its ending; its folder is made.
    Returns:
        the file; None of a model without a memory.
    Raises:
        StorageError: the disk refused.
    """
    trace = run_trace(model, task, batch)
    if trace is None:
        return None
    with storage_faults(path, "writing trace"):
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
    run: Path,
    task: Task,
    batch_of: Callable[[MemoryModel], Batch],
    read: Callable[[Path], FrameT],
) -> dict[int, FrameT]:
    """What the heads of a run's memory did with an example, after each batch with a checkpoint.

    Args:
        run: its folder, whose checkpoints were kept (training.keep_checkpoints).
        batch_of: the example, which may be what the model of then answers.
        read: `figures.read_tape` or `figures.read_keys`.
    Raises:
        ConfigError: the run has no checkpoint. CheckpointError: one cannot be used, or the run's
            memory is not one that `read` reads.
    """
    frames = {}
    for batches, folder in kept_checkpoints(run).items():
        model = read_checkpoint(folder)
        with tempfile.TemporaryDirectory() as scratch:
            file = write_trace(model, task, batch_of(model), Path(scratch) / "example")
            if file is not None:
                frames[batches] = read(file)
    return frames


def trace_of(model: MemoryModel, task: Task, batch: Batch) -> Trace | None:
    """What the memory does with an example; None of a model without a memory.

    Beside what every trace has: of a task of yes and no "chance", that yes is said at each step,
    and of a task that has a path its "height", both [B, T].

    Args:
        model: on the CPU or a device, in any mode.
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
