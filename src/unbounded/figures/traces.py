"""Read a trace file: what a memory did at every step, in the one versioned form of all memories."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from unbounded.errors import CheckpointError, ConfigError

FORMAT = "unbounded-trace"
VERSION = "1"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """What a memory did with one sequence of T steps, cut to its length.

    Fields:
        memory: name of the memory, "stack", "queue" or "deque".
        symbols: the input symbol of each step, T of them; step numbers where the file has none.
        instruction: field name -> [T] or [T, M], e.g. "push", "pop", "value".
        strengths: [T, N] after each step; 0 for rows that are not there yet.
        read_weights: "" (one reading end) or "top" and "bottom" -> [T, N].
        row_steps: [N], the step (0-based) that pushed each row.
    """

    memory: str
    symbols: tuple[str, ...]
    instruction: dict[str, Array]
    strengths: Array
    read_weights: dict[str, Array]
    row_steps: NDArray[np.int64]


def read_trace(path: Path, example: int = 0) -> Trace:
    """Read sequence `example` of a trace file.

    Args:
        path: a safetensors file of format "unbounded-trace", version "1".
        example: index along the batch, 0..B-1.
    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: the file is no trace, is truncated or of another version.
        ConfigError: `example` is not in the batch.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no trace file {path}")
    tensors, metadata = _load(path)
    batch = len(tensors["strengths"])
    if not 0 <= example < batch:
        raise ConfigError([f"example is {example}, but {path} holds examples 0 to {batch - 1}"])
    steps = int(tensors["lengths"][example]) if "lengths" in tensors else None
    rows = [tensor[example] for name, tensor in tensors.items() if name == "strengths"][0]
    full_steps, row_count = rows.shape
    steps = full_steps if steps is None else steps
    row_steps = _row_steps(path, full_steps, row_count)
    live = row_steps < steps
    return Trace(
        memory=metadata["memory"],
        symbols=_symbols(metadata, example, steps),
        instruction={
            name.removeprefix("instruction."): tensor[example, :steps]
            for name, tensor in tensors.items()
            if name.startswith("instruction.")
        },
        strengths=rows[:steps, live],
        read_weights={
            name.removeprefix("read_weights").removeprefix("."): tensor[example, :steps][:, live]
            for name, tensor in tensors.items()
            if name.startswith("read_weights")
        },
        row_steps=row_steps[live],
    )


def _load(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            names = list(file.keys())
            tensors = {name: np.asarray(file.get_tensor(name), np.float64) for name in names}
    except (SafetensorError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} cannot be read as a trace file: {error}") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no trace file: its metadata does not say {FORMAT!r}")
    if metadata.get("version") != VERSION:
        raise CheckpointError(
            f"{path} is a trace of version {metadata.get('version')!r}; this reads {VERSION!r}"
        )
    missing = [name for name in ("strengths", "lengths") if name not in tensors]
    if missing or not any(name.startswith("read_weights") for name in tensors):
        raise CheckpointError(f"{path} lacks {', '.join(missing) or 'read_weights'}")
    return tensors, metadata


def _row_steps(path: Path, steps: int, rows: int) -> NDArray[np.int64]:
    """The step that pushed each row: one row a step, or two (oldest in the middle)."""
    if rows == steps:
        return np.arange(steps)
    if rows == 2 * steps:
        return np.concatenate([np.arange(steps)[::-1], np.arange(steps)])
    raise CheckpointError(f"{path} has {rows} rows for {steps} steps; expected {steps} or twice it")


def _symbols(metadata: dict[str, str], example: int, steps: int) -> tuple[str, ...]:
    symbols = json.loads(metadata.get("symbols", "null"))
    if symbols is None:
        return tuple(str(step + 1) for step in range(steps))
    return tuple(str(symbol) for symbol in symbols[example][:steps])
