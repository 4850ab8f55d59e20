"""The file of a study: a line of JSON for each run, compressed with xz."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from unbounded.errors import CheckpointError
from unbounded.files import json_text, read_bytes, storage_errors, write_bytes

#: Reports of runs with their curves, and verifications of runs, in the folder of a table.
RUNS: Final = "runs.jsonl.xz"
VERIFIED: Final = "verified.jsonl.xz"
#: What to do about a file that cannot be read.
AGAIN: Final = (
    "Restore it (`git checkout` in a clone). Or delete it: `unbounded reproduce` writes it again "
    "from the finished run folders and trains the other runs"
)


def read_study_file(path: Path) -> dict[str, dict[str, Any]]:
    """The objects of a file by the name of their run; empty where there is no file.

    Raises:
        CheckpointError: the file is damaged; the message names it.
        StorageError: it may not be read.
    """
    if not path.is_file():
        return {}
    try:
        decompressor = lzma.LZMADecompressor()
        text = decompressor.decompress(read_bytes(path)).decode("utf-8")
        if not decompressor.eof or decompressor.unused_data:
            raise EOFError("it ends too early, or goes on behind its end")
        objects = [json.loads(line) for line in text.split("\n") if line]
        named = {str(each.pop("run")): each for each in objects}
        if len(named) != len(objects):
            raise ValueError("a run is in it twice")
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
        StorageError: the disk refused; the file of before is whole.
    """
    lines = [json_text({"run": name, **objects[name]}) for name in sorted(objects)]
    with storage_errors(path.parent, "making folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    write_bytes(path, lzma.compress(text.encode("utf-8"), preset=6))


def add_to_study_file(path: Path, objects: Mapping[str, Mapping[str, Any]]) -> None:
    """Write objects into a file, in the place of those of the same names.

    A lock beside the file keeps two processes from losing each other's objects. Nothing is written
    where the file holds the same objects already.

    Raises:
        CheckpointError: the file of before is damaged.
        StorageError: the disk refused.
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
