"""The file of a study: a line of JSON for each run, compressed with xz."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from unbounded.errors import CheckpointError
from unbounded.files import json_text, read_bytes, storage_errors, write_bytes

#: Reports of runs with their curves, and verifications of runs, in the folder of a table.
RUNS: Final = "runs.jsonl.xz"
VERIFIED: Final = "verified.jsonl.xz"
#: What to do about a file that cannot be read.
AGAIN: Final = "Delete it, and `unbounded reproduce` with --missing trains its runs again"


def read_study_file(path: Path) -> dict[str, dict[str, Any]]:
    """The objects of a file by the name of their run; empty where there is no file.

    Raises:
        CheckpointError: the file is damaged; the message names it.
        StorageError: it may not be read.
    """
    if not path.is_file():
        return {}
    try:
        lines = lzma.decompress(read_bytes(path)).decode("utf-8").splitlines()
        objects = [json.loads(line) for line in lines]
        return {str(each.pop("run")): each for each in objects}
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


def add_to_study_file(path: Path, name: str, data: Mapping[str, Any]) -> None:
    """Write one object into a file, in the place of one of the same name.

    Raises:
        CheckpointError: the file of before is damaged.
        StorageError: the disk refused.
    """
    objects: dict[str, Mapping[str, Any]] = {**read_study_file(path)}
    write_study_file(path, {**objects, name: data})
