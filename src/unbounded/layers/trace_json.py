"""Traces of version 2: what was read, said and told, as JSON; what a memory held is replayed.

A memory is a pure function, so that its instructions and its beginning say all that it did. One
sequence a file; docs/formats.md has the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import CheckpointError, ConfigError, ShapeError, UnboundedError
from unbounded.files import PERMISSIONS, write_text
from unbounded.layers.packed import packed, unpacked
from unbounded.layers.recurrence import Recorder
from unbounded.layers.trace import TRACE_FORMAT, Trace
from unbounded.memories import Memory
from unbounded.memories.as_data import memory_data, memory_from_data

VERSION: Final = 2
#: Bytes of base64 that instructions take at the most, while there is a shorter encoding.
MOST_BYTES: Final = 400_000
#: Bytes of a number, and what is taken where that is too much.
_SHORTER: Final = {"float32": "float16", "float16": "int8"}
_BYTES: Final = {"float32": 4, "float16": 2, "int8": 1}
_LISTS: Final = {"symbols": str, "said": str, "probability": float, "wanted": str, "right": bool}
#: Lists in which null stands where nothing is known.
_WITH_NULL: Final = ("wanted", "right")


class RunTrace(NamedTuple):
    """A model at work on one sequence of T steps.

    Fields:
        task: its name. objective: "cross_entropy", "binary" or "bits".
        symbols: what was read at each step. said: what was said.
        probability: of what was said, in [0, 1]; with "binary" that of yes.
        wanted: what was right, None at steps that do not count. right: whether it was said.
        memory: the memory. initial: its state before the first step, by field, without a batch.
        instructions: by head, [T, ...].
        heights: height of the path after each step; None of a task without one.
    """

    task: str
    objective: str
    symbols: Sequence[str]
    said: Sequence[str]
    probability: Sequence[float]
    wanted: Sequence[str | None]
    right: Sequence[bool | None]
    memory: Memory[Any, Any]
    initial: Mapping[str, Tensor]
    instructions: Mapping[str, Tensor]
    heights: Sequence[int] | None = None


def trace_text(trace: RunTrace) -> str:
    """A trace as JSON.

    Raises:
        ConfigError: the memory is one of your own, which has no name.
    """
    encodings = dict.fromkeys(trace.instructions, "float32")

    def size(name: str) -> int:
        return trace.instructions[name].numel() * _BYTES[encodings[name]] * 4 // 3

    while sum(map(size, encodings)) > MOST_BYTES:
        largest = max(encodings, key=size)
        if encodings[largest] not in _SHORTER:
            break
        encodings[largest] = _SHORTER[encodings[largest]]
    data: dict[str, Any] = {
        "format": TRACE_FORMAT,
        "version": VERSION,
        "task": trace.task,
        "objective": trace.objective,
        "symbols": list(trace.symbols),
        "said": list(trace.said),
        "probability": [float(f"{chance:.6g}") for chance in trace.probability],
        "wanted": list(trace.wanted),
        "right": list(trace.right),
        "heights": None if trace.heights is None else list(trace.heights),
        "memory": memory_data(trace.memory),
        "initial": {name: packed(held, "float32") for name, held in trace.initial.items()},
        "instructions": {
            name: packed(told, encodings[name]) for name, told in trace.instructions.items()
        },
    }
    return json.dumps(data, allow_nan=False)


def save_run_trace(path: str | Path, trace: RunTrace) -> None:
    """Write a trace as a JSON file.

    Raises:
        ConfigError: the memory is one of your own. StorageError: the disk refused.
    """
    write_text(Path(path), trace_text(trace))


def load_run_trace(path: str | Path) -> RunTrace:
    """Read a trace that `save_run_trace` wrote; loading runs no code.

    Raises:
        CheckpointError: it is no such trace, or of another version; the message names the file and
            what is wrong.
    """
    try:
        data: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except PermissionError as error:
        raise CheckpointError(f"{path}: permission denied. {PERMISSIONS}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a readable trace ({error}).") from error
    kind = data.get("format") if isinstance(data, dict) else None
    version = data.get("version") if isinstance(data, dict) else None
    if kind != TRACE_FORMAT or version != VERSION:
        raise CheckpointError(
            f"{path}: expected a trace of format {TRACE_FORMAT} version {VERSION}, got {kind!r} "
            f"version {version!r}. Write it again with the version of unbounded that reads it."
        )
    try:
        return _checked(data)
    except (UnboundedError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: no trace of version {VERSION}: {error}") from error


def _checked(data: Mapping[str, Any]) -> RunTrace:
    """The trace in data, with every list and block as long as there are steps."""
    steps = len(data["symbols"])
    lists: dict[str, Any] = {}
    for name, kind in _LISTS.items():
        entries = data[name]
        known = [each for each in entries if each is not None or name not in _WITH_NULL]
        numbers = (int, float) if kind is float else kind
        if len(entries) != steps or not all(isinstance(each, numbers) for each in known):
            raise ValueError(f"{name}: expected {steps} entries of {kind.__name__}")
        lists[name] = tuple(entries)
    heights = data["heights"]
    if heights is not None and (len(heights) != steps or not all(type(h) is int for h in heights)):
        raise ValueError(f"heights: expected {steps} integers or null")
    memory = memory_from_data(data["memory"])
    blocks = {
        group: {name: unpacked(f"{group}.{name}", block) for name, block in data[group].items()}
        for group in ("initial", "instructions")
    }
    wanted = {head.name: (steps, *head.shape) for head in memory.heads}
    shapes = {name: tuple(told.shape) for name, told in blocks["instructions"].items()}
    if shapes != wanted:
        raise ValueError(f"instructions: expected {wanted}, got {shapes}")
    fields = [field.name for field in memory.state_fields]
    if sorted(blocks["initial"]) != sorted(fields):
        raise ValueError(f"initial: expected {', '.join(fields)}")
    return RunTrace(
        task=str(data["task"]),
        objective=str(data["objective"]),
        **lists,
        memory=memory,
        initial=blocks["initial"],
        instructions=blocks["instructions"],
        heights=heights,
    )


def replayed(trace: RunTrace) -> Trace:
    """What the memory held and read at each step, as `layer(..., return_trace=True)` gives it.

    Beside it "chance" of a task of yes and no, and "height" where the trace has heights.

    Raises:
        ConfigError: the instructions are not such that the memory can carry them out.
    """
    memory = trace.memory
    recorder = Recorder(memory)
    steps = len(trace.symbols)
    try:
        state = memory.State(
            *(trace.initial[field.name].unsqueeze(0) for field in memory.state_fields)
        )
        with torch.no_grad():
            for step in range(steps):
                told = memory.Instruction(
                    *(trace.instructions[head.name][step : step + 1] for head in memory.heads)
                )
                reading, state = memory.step(state, told)
                recorder.record(told, reading, state)
    except ShapeError as error:
        raise ConfigError([f"trace: {error}"]) from error
    arrays = recorder.arrays()
    if trace.objective == "binary":
        arrays["chance"] = torch.tensor([list(trace.probability)])
    if trace.heights is not None:
        arrays["height"] = torch.tensor([list(trace.heights)], dtype=torch.float32)
    lengths = torch.tensor([steps])
    return Trace(type(memory).__name__, arrays, lengths, [list(trace.symbols)])
