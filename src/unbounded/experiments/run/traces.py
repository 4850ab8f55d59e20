"""Traces of a trained memory on one example, for the figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unbounded.experiments.run.run_folder import AnyPath, RunFolder, read_checkpoint
from unbounded.files import storage_errors
from unbounded.layers import Trace, save_trace
from unbounded.layers.trace import save_run_trace
from unbounded.memories.as_data import has_name
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.tasks import Batch, Task


def write_trace(model: MemoryModel, task: Task, batch: Batch, path: Path) -> Path | None:
    """Write the trace of an example as JSON.

    A custom memory has no registered name, so its states are written as safetensors.

    Args:
        model, task, batch: as for `run_trace`.
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
        file = path.with_name(f"{path.name}.safetensors")
        save_trace(file, trace.steps)
        return file


FrameT = TypeVar("FrameT")


def course_of(
    run: AnyPath,
    task: Task,
    batch_of: Callable[[MemoryModel], Batch],
    read: Callable[[Trace], FrameT],
) -> dict[int, FrameT]:
    """The memory heads on an example at each kept checkpoint, by batch.

    Args:
        run: the run's folder, with kept checkpoints (training.keep_checkpoints).
        batch_of: returns the example, which may include the checkpoint's answer.
        read: `figures.read_tape` or `figures.read_keys`.
    Raises:
        ConfigError: the run has no checkpoint, or `read` does not support the memory.
        CheckpointError: a checkpoint cannot be used.
    """
    frames = {}
    for batches, folder in RunFolder(run).kept_checkpoints().items():
        model = read_checkpoint(folder)
        trace = run_trace(model, task, batch_of(model))
        if trace is not None:
            frames[batches] = read(trace.steps)
    return frames
