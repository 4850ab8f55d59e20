"""The file of a study: one line of JSON per run, compressed with xz."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from unbounded.errors import CheckpointError
from unbounded.files import json_text, read_bytes, storage_errors, write_bytes

#: Files in a table's folder: the reports of runs with their curves, and their verifications.
RUNS: Final = "runs.jsonl.xz"
VERIFIED: Final = "verified.jsonl.xz"
#: Advice for a damaged file.
AGAIN: Final = (
    "Restore it (`git checkout` in a clone). Or delete it: `unbounded reproduce` writes it again "
    "from the finished run folders and trains the other runs"
)


def read_study_file(path: Path) -> dict[str, dict[str, Any]]:
    """The file's objects by the name of their run; empty if the file does not exist.

    Raises:
        CheckpointError: the file is damaged; the message names it.
        StorageError: the file cannot be read.
    """
    if not path.is_file():
        return {}
    try:
        decompressor = lzma.LZMADecompressor()
        text = decompressor.decompress(read_bytes(path)).decode("utf-8")
        if not decompressor.eof or decompressor.unused_data:
            raise EOFError("it is cut off, or has data after its end")
        objects = [json.loads(line) for line in text.split("\n") if line]
        named = {str(data.pop("run")): data for data in objects}
        if len(named) != len(objects):
            raise ValueError("a run occurs twice")
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


def write_study_file(path: Path, objects: Mapping[str, Mapping[str, Any]]) -> None:
    """Write all objects, ordered by the name of their run. The same objects give the same bytes.

    Raises:
        StorageError: the file cannot be written; the earlier file remains intact.
    """
    lines = [json_text({"run": name, **objects[name]}) for name in sorted(objects)]
    with storage_errors(path.parent, "making folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    write_bytes(path, lzma.compress(text.encode("utf-8"), preset=6))


def add_to_study_file(path: Path, objects: Mapping[str, Mapping[str, Any]]) -> None:
    """Add objects to a file; they replace objects of the same names.

    A lock file next to it prevents two processes from losing each other's objects. If the file has
    the same objects already, nothing is written.

    Raises:
        CheckpointError: the existing file is damaged.
        StorageError: the file cannot be written.
    """
    if not objects:
        return
    with storage_errors(path.parent, "making folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with storage_errors(path, "locking"), FileLock(path.with_name(f".{path.name}.lock")):
        before = read_study_file(path)
        new = json.loads(json_text(objects))
        if any(before.get(name) != data for name, data in new.items()):
            write_study_file(path, {**before, **new})
