"""Traces, which hold instruction, memory state and read vector at every step.

All memories share one versioned format, which figures, the page and exports read. A `RunTrace`
holds the instructions of one sequence. A memory is a pure function, so the instructions determine
all its steps, which are replayed when needed. docs/formats.md has the schema.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbounded.checks import check_path
from unbounded.errors import (
    CheckpointError,
    ChoiceError,
    ConfigError,
    DTypeError,
    ShapeError,
    StorageError,
    UnboundedError,
)
from unbounded.files import PERMISSIONS, replacing, write_text
from unbounded.memories import Memory
from unbounded.memories.as_data import memory_data, memory_from_data
from unbounded.rnn.recurrence import Recorder

TRACE_FORMAT = "unbounded-trace"
TRACE_VERSION = "2"


class Trace(NamedTuple):
    """The steps of a memory on a batch of sequences.

    Fields:
        memory: name of the memory's class.
        arrays: by name, always [B, T, ...]: "instruction.<field>" for every field of the
            instruction; the memory's observed fields ("strengths" and "read_weights" [B, T, N] for
            a stack or queue; "read_weights.top" and "read_weights.bottom" for a deque; "cells" [B,
            T, S, N] for superposition stacks and lists, with vectors [B, T, S, N, W]); and
            "read_vector" [B, T, R]. A row that does not exist yet is empty: strength 0, cell -1, or
            the memory's other number of empty cells. With lengths, instructions beyond a
            sequence's end are the heads' output and were not carried out.
        lengths: steps of each sequence, int64 [B].
        symbols: the input symbol of each step, one list per sequence; None if unknown.
    """

    memory: str
    arrays: Mapping[str, Tensor]
    lengths: Tensor
    symbols: Sequence[Sequence[str]] | None = None


def replayed(memory: Memory[Any, Any], state: Any, given: Sequence[Tensor]) -> dict[str, Tensor]:
    """The arrays of a trace, from instructions that the memory carries out.

    Args:
        memory: a memory. state: before the first step, for B sequences.
        given: instructions, [B, T, ...] for each head.
    Raises:
        ShapeError: the memory cannot carry them out.
    """
    recorder = Recorder(memory)
    with torch.no_grad():
        for step in range(given[0].shape[1]):
            instruction = memory.Instruction(*(field[:, step] for field in given))
            read_vector, state = memory.step(state, instruction)
            recorder.record(instruction, read_vector, state)
    return recorder.arrays()


def save_trace(path: str | Path, trace: Trace) -> None:
    """Write a trace as a safetensors file with format, version and memory in its metadata.

    Raises:
        DTypeError: `trace` is not a Trace.
        StorageError: the folder is missing, or the disk refused.
    """
    if not isinstance(trace, Trace):
        raise DTypeError(
            f"trace: expected a Trace, got {type(trace).__name__}. The path comes first: "
            "save_trace(path, trace)."
        )
    check_path("path", path)
    from safetensors import SafetensorError
    from safetensors.torch import save_file  # imported here, to keep the import of the layers fast

    metadata = {"format": TRACE_FORMAT, "version": TRACE_VERSION, "memory": trace.memory}
    if trace.symbols is not None:
        metadata["symbols"] = json.dumps([list(row) for row in trace.symbols])
    tensors = {name: array.detach().cpu().contiguous() for name, array in trace.arrays.items()}
    try:
        with replacing(Path(path)) as draft:
            save_file({**tensors, "lengths": trace.lengths.cpu()}, str(draft), metadata=metadata)
    except SafetensorError as error:
        reason = str(error).split("\n", 1)[0]
        raise StorageError(
            f"writing trace {path} failed: {reason}. Make the folder first, or name another file."
        ) from error


def load_trace(path: str | Path) -> Trace:
    """Read a trace from `save_trace`, or a run trace (a JSON file, which is replayed).

    Loading does not run any code.

    Raises:
        CheckpointError: not a trace, truncated, or of another version; the message names the file.
    """
    from safetensors import SafetensorError, safe_open

    check_path("path", path)
    if _is_json(Path(path)):
        return load_run_trace(path).steps
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except PermissionError as error:
        raise CheckpointError(f"{path}: permission denied. {PERMISSIONS}") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a readable trace ({error}).") from error
    if metadata.get("format") != TRACE_FORMAT or metadata.get("version") != TRACE_VERSION:
        raise CheckpointError(
            f"{path}: expected a trace of format {TRACE_FORMAT} version {TRACE_VERSION}, got "
            f"{metadata.get('format')!r} version {metadata.get('version')!r}."
        )
    try:
        lengths = tensors.pop("lengths")
        symbols = json.loads(metadata["symbols"]) if "symbols" in metadata else None
        if symbols is not None and not _are_rows_of_texts(symbols):
            raise ValueError("symbols: expected a list of texts for each sequence")
        return Trace(metadata["memory"], tensors, lengths, symbols)
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: the trace is incomplete ({error!r}).") from error


def _are_rows_of_texts(symbols: object) -> bool:
    return isinstance(symbols, list) and all(
        isinstance(row, list) and all(isinstance(text, str) for text in row) for row in symbols
    )


def _is_json(path: Path) -> bool:
    """Whether a file starts like JSON.

    A safetensors file starts with the size of its header in eight bytes, of which the last are 0.
    """
    try:
        with path.open("rb") as file:
            first = file.read(8)
            return first.lstrip().startswith(b"{") and b"\0" not in first
    except OSError:
        return False


#: Data types by name, in little-endian order. An int8 value is a multiple of `scale`.
ENCODINGS: Final = ("float32", "float16", "int8")
_INT8_MOST: Final = 127


def packed(tensor: Tensor, encoding: str) -> dict[str, Any]:
    """Return a tensor as plain data: "shape", "encoding", "data" in base64, and "scale" for int8.

    Raises:
        ChoiceError: there is no such encoding.
    """
    if encoding not in ENCODINGS:
        raise ChoiceError("encoding", encoding, ENCODINGS)
    numbers = tensor.detach().cpu().double()
    block: dict[str, Any] = {"shape": list(numbers.shape), "encoding": encoding}
    if encoding == "int8":
        most = float(numbers.abs().max()) if numbers.numel() else 0.0
        block["scale"] = most / _INT8_MOST if most else 1.0
        numbers = (numbers / block["scale"]).round()
    array = numbers.numpy().astype(np.dtype(encoding).newbyteorder("<"))
    block["data"] = base64.b64encode(array.tobytes()).decode("ascii")
    return block


def unpacked(name: str, block: Mapping[str, Any]) -> Tensor:
    """Return the tensor of a block, in float32.

    Raises:
        CheckpointError: the block is invalid; the message has its `name`.
    """
    try:
        encoding, shape = block["encoding"], tuple(block["shape"])
        if encoding not in ENCODINGS:
            raise ValueError(f"expected an encoding of {', '.join(ENCODINGS)}, got {encoding!r}")
        raw = base64.b64decode(block["data"], validate=True)
        array = np.frombuffer(raw, dtype=np.dtype(encoding).newbyteorder("<")).astype(np.float32)
        if encoding == "int8":
            array = array * np.float32(block["scale"])
        return torch.from_numpy(np.ascontiguousarray(array)).reshape(shape)
    except (
        LookupError, TypeError, ValueError, RuntimeError, AttributeError, binascii.Error
    ) as error:  # fmt: skip
        raise CheckpointError(f"{name} is not a block of numbers: {error}") from error


VERSION: Final = 3
#: Largest number of base64 bytes for instructions, as long as there is a shorter encoding.
MOST_BYTES: Final = 400_000
#: The next shorter encoding, and bytes per number.
_SHORTER: Final = {"float32": "float16", "float16": "int8"}
_BYTES: Final = {"float32": 4, "float16": 2, "int8": 1}
_LISTS: Final = {
    "symbols": str,
    "predicted": str,
    "probability": float,
    "target": str,
    "correct": bool,
}
#: Lists with null at steps without a target.
_WITH_NULL: Final = ("target", "correct")


@dataclass(frozen=True)
class RunTrace:
    """A model's run on one sequence of T steps.

    Fields:
        task: name of the task. objective: "cross_entropy", "binary" or "bits".
        symbols: the input of each step. predicted: the output of each step.
        probability: of the predicted output, in [0, 1]; with "binary" the probability of yes.
        target: target of each step, None where the mask is False. correct: whether it was
            predicted.
        memory: the memory. initial: its state before the first step, by field, without a batch.
        instructions: by head, [T, ...].
        heights: height of the path after each step; None for a task without paths.
        distribution: probability of each output at each step, [T, V]; None if it is not recorded.
    """

    task: str
    objective: str
    symbols: Sequence[str]
    predicted: Sequence[str]
    probability: Sequence[float]
    target: Sequence[str | None]
    correct: Sequence[bool | None]
    memory: Memory[Any, Any]
    initial: Mapping[str, Tensor]
    instructions: Mapping[str, Tensor]
    heights: Sequence[int] | None = None
    distribution: Tensor | None = None

    @cached_property
    def steps(self) -> Trace:
        """The memory's state and read vector at each step, which are replayed once, when needed.

        The arrays are as in `layer(..., return_trace=True)`. There is also "chance" for tasks with
        labels yes and no, and "height" if the trace has heights.

        Raises:
            ConfigError: the memory cannot carry out the instructions.
        """
        memory = self.memory
        fields = [self.initial[field.name].unsqueeze(0) for field in memory.state_fields]
        given = [self.instructions[head.name].unsqueeze(0) for head in memory.heads]
        try:
            arrays = replayed(memory, memory.State(*fields), given)
        except ShapeError as error:
            raise ConfigError(f"trace: {error}") from error
        if self.objective == "binary":
            arrays["chance"] = torch.tensor([list(self.probability)])
        if self.heights is not None:
            arrays["height"] = torch.tensor([list(self.heights)], dtype=torch.float32)
        lengths = torch.tensor([len(self.symbols)])
        return Trace(type(memory).__name__, arrays, lengths, [list(self.symbols)])


def trace_text(trace: RunTrace) -> str:
    """Return a trace as JSON.

    Raises:
        ConfigError: a custom memory, which has no name.
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
        "predicted": list(trace.predicted),
        "probability": [float(f"{number:.6g}") for number in trace.probability],
        "target": list(trace.target),
        "correct": list(trace.correct),
        "heights": None if trace.heights is None else list(trace.heights),
        "memory": memory_data(trace.memory),
        "initial": {name: packed(field, "float32") for name, field in trace.initial.items()},
        "instructions": {
            name: packed(field, encodings[name]) for name, field in trace.instructions.items()
        },
    }
    # Omitted where it is not recorded, as in the traces of older versions.
    if trace.distribution is not None:
        data["distribution"] = packed(trace.distribution, "float16")
    return json.dumps(data, allow_nan=False)


def save_run_trace(path: str | Path, trace: RunTrace) -> None:
    """Write a trace as a JSON file.

    Raises:
        ConfigError: a custom memory. StorageError: the disk refused.
    """
    write_text(Path(path), trace_text(trace))


def load_run_trace(path: str | Path) -> RunTrace:
    """Read a trace from `save_run_trace`. Loading does not run any code.

    Raises:
        CheckpointError: no valid trace of this version; the message names the file and the error.
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
        raise CheckpointError(f"{path}: not a trace of version {VERSION}: {error}") from error


def _checked(data: Mapping[str, Any]) -> RunTrace:
    """Return the trace in data, after checking every list and block against the number of steps."""
    steps = len(data["symbols"])
    lists: dict[str, Any] = {}
    for name, kind in _LISTS.items():
        entries = data[name]
        known = [entry for entry in entries if entry is not None or name not in _WITH_NULL]
        numbers = (int, float) if kind is float else kind
        if len(entries) != steps or not all(isinstance(entry, numbers) for entry in known):
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
    expected = {head.name: (steps, *head.shape) for head in memory.heads}
    shapes = {name: tuple(field.shape) for name, field in blocks["instructions"].items()}
    if shapes != expected:
        raise ValueError(f"instructions: expected {expected}, got {shapes}")
    distribution = None
    if "distribution" in data:
        distribution = unpacked("distribution", data["distribution"])
        if distribution.dim() != 2 or len(distribution) != steps:
            raise ValueError(
                f"distribution: expected ({steps}, outputs), got {tuple(distribution.shape)}"
            )
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
        distribution=distribution,
    )
