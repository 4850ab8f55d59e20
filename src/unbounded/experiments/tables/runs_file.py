"""A file of runs: one line of JSON per run, compressed with xz.

A running study appends an xz stream for each finished run. `xz -d` reads all streams. At the end of
the study, the file is packed into one stream. The file is always replaced by a complete new file.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from unbounded.errors import CheckpointError
from unbounded.files import json_text, make_folder, read_bytes, storage_errors, write_bytes

#: Files in a table's folder: one with reports and curves of runs, one with their verifications.
RUNS: Final = "runs.jsonl.xz"
VERIFIED: Final = "verified.jsonl.xz"
#: Advice in messages on a damaged file.
AGAIN: Final = (
    "Restore it (`git checkout` in a clone). Or delete it: `unbounded reproduce` writes it again "
    "from the finished run folders and trains the other runs"
)


def read_runs_file(path: Path) -> dict[str, dict[str, Any]]:
    """The objects in a file of runs, by the names of their runs; empty if there is no file.

    If several streams have an object for one run, the last object is used.

    Raises:
        CheckpointError: the file is damaged; the message names it.
        StorageError: the file cannot be read.
    """
    if not path.is_file():
        return {}
    try:
        left, named = read_bytes(path), dict[str, dict[str, Any]]()
        while left or not named:
            decompressor = lzma.LZMADecompressor()
            text = decompressor.decompress(left).decode("utf-8")
            if not decompressor.eof:
                raise EOFError("it is cut off")
            objects = [json.loads(line) for line in text.split("\n") if line]
            of_stream = {str(data.pop("run")): data for data in objects}
            if not objects or len(of_stream) != len(objects):
                raise ValueError("a block of runs is empty, or contains a run twice")
            named |= of_stream
            left = decompressor.unused_data
        return named
    except (
        lzma.LZMAError,
        EOFError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:
        raise CheckpointError(f"{path} is damaged: {error!r}. {AGAIN}") from error


def write_runs_file(path: Path, objects: Mapping[str, Mapping[str, Any]]) -> None:
    """Write all objects, ordered by the name of their run.

    Equal objects always result in the same bytes.

    Raises:
        StorageError: the file cannot be written; the earlier file remains intact.
    """
    make_folder(path.parent)
    write_bytes(path, _stream(objects))


def _stream(objects: Mapping[str, Mapping[str, Any]]) -> bytes:
    lines = [json_text({"run": name, **objects[name]}) for name in sorted(objects)]
    text = "".join(f"{line}\n" for line in lines)
    return lzma.compress(text.encode("utf-8"), preset=6 | lzma.PRESET_EXTREME)


def pack_runs_file(path: Path) -> None:
    """Pack a file with appended streams into one stream. A missing file is not created.

    Raises:
        CheckpointError: the file is damaged.
        StorageError: the file cannot be written.
    """
    if path.is_file():
        with storage_errors(path, "locking"), _locked(path):
            write_runs_file(path, read_runs_file(path))


def _locked(path: Path) -> AbstractContextManager[object]:
    """Lock a file of runs by a file next to it, so that two processes do not lose objects."""
    return FileLock(path.with_name(f".{path.name}.lock"))


def add_to_runs_file(path: Path, objects: Mapping[str, Mapping[str, Any]]) -> None:
    """Append objects to a file; they replace objects of the same names.

    If the file has the same objects already, nothing is written.

    Raises:
        CheckpointError: the existing file is damaged.
        StorageError: the file cannot be written.
    """
    if not objects:
        return
    make_folder(path.parent)
    with storage_errors(path, "locking"), _locked(path):
        before = read_runs_file(path)
        given: dict[str, Any] = json.loads(json_text(objects))
        new = {name: data for name, data in given.items() if before.get(name) != data}
        if new:
            write_bytes(path, (read_bytes(path) if before else b"") + _stream(new))
