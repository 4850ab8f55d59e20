"""Writing so that a reader finds the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from unbounded.errors import StorageError, UnboundedError

#: What a run folder has beside config.yaml.
_OF_RUN: Final = ("checkpoints", "model", "report.json", "metrics.jsonl")
#: What to do about a file that may not be read or written.
PERMISSIONS: Final = "The file may be whole. Ask its owner, or change its mode (chmod)."


def printable(text: str) -> str:
    """A text without what a terminal would obey, such as the beginning of a colour.

    Everything that comes out of a file goes through it before it reaches a terminal.
    """
    return "".join(character if character.isprintable() else "?" for character in text)


def printable_lines(text: str) -> str:
    """As `printable`, of a text whose lines stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def refusal(error: OSError) -> str:
    """What the operating system refuses of a file, and what can be done about it, in one line."""
    name = str(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        return f"{name[:40]}...: a name of {len(name)} characters is too long. Give a shorter one."
    if isinstance(error, PermissionError):
        return f"{name} cannot be read or written: permission denied. {PERMISSIONS}"
    return f"{name}: {error.strerror}"


def read_text(path: Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        StorageError: it cannot be read; the message says whether that is a matter of permissions.
        UnicodeDecodeError: it is no such text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(refusal(error)) from error


def usual_modes(folder: Path) -> None:
    """Give each file of a folder the mode that a new one gets: safetensors writes 0600."""
    probe = folder / f".{os.getpid()}.mode"
    probe.touch()
    try:
        for path in folder.iterdir():
            if path.is_file():
                shutil.copymode(probe, path)
    finally:
        probe.unlink()


def refuse_links(path: Path) -> None:
    """Refuse to write through a link in a run folder: a run may come from somebody else.

    A run folder has config.yaml and files of its training; elsewhere links are followed.

    Raises:
        StorageError: `path`, or a folder between it and its run folder, is a link.
    """
    below = [path]
    for above in path.parents:
        if (above / "config.yaml").is_file() and any((above / each).exists() for each in _OF_RUN):
            break
        below.append(above)
    else:
        return
    link = next((each for each in below if each.is_symlink()), None)
    if link is not None:
        raise StorageError(
            f"{link}: expected a file or folder of the run, got a link, and nothing is written "
            "through it. Remove the link."
        )


@contextmanager
def storage_faults(path: Path, doing: str) -> Iterator[None]:
    """Turn what the operating system says about a disk into a `StorageError` naming the path."""
    try:
        yield
    except UnboundedError:
        raise  # it says already what is wrong
    except OSError as error:
        reason = error.strerror or str(error)
        advice = ". Make the folder first, or name another file." if _lacks_folder(error) else ""
        raise StorageError(f"{doing} {path} failed: {reason}{advice}") from error


def _lacks_folder(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError | NotADirectoryError)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the file or folder at `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft beside `path`, which takes its place atomically once it is written.

    A link stays one: what it points to is replaced, but in a run folder. A pipe or a device is
    written to as it is. The file has the mode that a new one gets.

    Raises:
        StorageError: the disk is full or read-only; the old file is intact, no other is left. Or
            `path` leads through a link of a run folder.
    """
    refuse_links(path)
    with storage_faults(path, "writing"):
        if path.exists() and not path.is_file() and not path.is_dir():
            yield path
            return
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            draft.touch()
            mode = draft.stat().st_mode
            yield draft
            draft.chmod(mode)  # safetensors writes 0600
            sync(draft)
            os.replace(draft, target)
            sync(target.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text`, as `replacing` does."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, as `replacing` does."""
    with replacing(path) as draft:
        draft.write_bytes(data)


def json_text(data: Any, indent: int | None = None) -> str:
    """Strict JSON: what is not finite becomes null."""
    return json.dumps(_finite(data), indent=indent, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
