"""Traces: the instruction, the memory's state and the read vector at every step.

All memories share one versioned format, which figures, the page and exports read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from unbounded.checks import check_path
from unbounded.errors import CheckpointError, DTypeError, StorageError
from unbounded.files import PERMISSIONS, replacing

TRACE_FORMAT = "unbounded-trace"
TRACE_VERSION = "2"


class Trace(NamedTuple):
    """The steps of a memory on a batch of sequences.

    Fields:
        memory: name of the memory's class.
        arrays: by name, always [B, T, ...]: "instruction.<field>" for every field of the
            instruction; the memory's observed fields ("strengths" and "read_weights" [B, T, N] for
            a stack or queue; "read_weights.top" and "read_weights.bottom" for a deque; "cells" [B,
            T, S, N] for superposition stacks and lists); and "read_vector" [B, T, R]. A row that
            does not exist yet is empty: strength 0, cell -1. With lengths, instructions beyond a
            sequence's end are the heads' output and were not carried out.
        lengths: steps of each sequence, int64 [B].
        symbols: the input symbol of each step, one list per sequence; None if unknown.
    """

    memory: str
    arrays: Mapping[str, Tensor]
    lengths: Tensor
    symbols: Sequence[Sequence[str]] | None = None


def save_trace(path: str | Path, trace: Trace) -> None:
    """Write a trace as a safetensors file with format, version and memory in its metadata.

    Raises:
        DTypeError: `trace` is no Trace.
        StorageError: the folder is missing, or the disk refused.
    """
    if not isinstance(trace, Trace):
        raise DTypeError(
            f"trace: expected a Trace, got {type(trace).__name__}. The path comes first: "
            "save_trace(path, trace)."
        )
    check_path("path", path)
    from safetensors import SafetensorError
    from safetensors.torch import save_file  # here, to keep the import of the layers light

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
    """Read a trace from `save_trace`, or a run trace (version 2, which is replayed).

    Loading runs no code.

    Raises:
        CheckpointError: not a trace, truncated, or of another version; the message names the file.
    """
    from safetensors import SafetensorError, safe_open

    check_path("path", path)
    if _is_json(Path(path)):
        from unbounded.layers.trace_json import load_run_trace

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
        raise CheckpointError(f"{path}: not a whole trace ({error!r}).") from error


def _are_rows_of_texts(symbols: object) -> bool:
    return isinstance(symbols, list) and all(
        isinstance(row, list) and all(isinstance(text, str) for text in row) for row in symbols
    )


def _is_json(path: Path) -> bool:
    """Whether a file starts as JSON does.

    A safetensors file starts with its header's size in eight bytes, the last of which are 0.
    """
    try:
        with path.open("rb") as file:
            first = file.read(8)
            return first.lstrip().startswith(b"{") and b"\0" not in first
    except OSError:
        return False
