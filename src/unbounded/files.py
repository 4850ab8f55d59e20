"""Read and write files. Writes are atomic, so a reader finds the old or the new file."""

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

#: Files and folders in a run folder, in addition to config.yaml.
_OF_RUN: Final = ("checkpoints", "model", "report.json", "metrics.jsonl")
#: Advice in messages on a file without read or write permission.
PERMISSIONS: Final = "The file may be whole. Ask its owner, or change its mode (chmod)."


def printable(text: str) -> str:
    """Replace control characters, such as terminal escape codes, by question marks.

    Every text that comes from a file passes through this function before it is printed.
    """
    return "".join(character if character.isprintable() else "?" for character in text)


def printable_lines(text: str) -> str:
    """Replace control characters like `printable`, but keep line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def markdown_cell(text: str) -> str:
    """Escape a text for Markdown: no control characters, new cells, lines or HTML."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain.replace("|", "\\|").replace("<", "&lt;")


def refusal(error: OSError) -> str:
    """Describe the operating system's error on a file, with advice, in one line."""
    name = str(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        return f"{name[:40]}...: a name of {len(name)} characters is too long. Give a shorter one."
    if isinstance(error, PermissionError):
        return f"{name} cannot be read or written: permission denied. {PERMISSIONS}"
    return f"{name}: {error.strerror}"


def read_text(path: Path) -> str:
    """Read a UTF-8 file.

    Raises:
        StorageError: the file cannot be read; the message says if permissions are missing.
        UnicodeDecodeError: the file is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(refusal(error)) from error


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a file.

    Raises:
        StorageError: the file cannot be read.
    """
    with storage_errors(path, "reading"):
        return path.read_bytes()


def usual_modes(folder: Path) -> None:
    """Give each file in a folder the mode of a new file, because safetensors uses 0600."""
    probe = folder / f".{os.getpid()}.mode"
    probe.touch()
    try:
        for path in folder.iterdir():
            if path.is_file():
                shutil.copymode(probe, path)
    finally:
        probe.unlink()


def refuse_links(path: Path) -> None:
    """Refuse to write through a link in a run folder, because the run may be from someone else.

    A run folder has config.yaml and training files. Links in other folders are followed.

    Raises:
        StorageError: `path`, or a folder between it and its run folder, is a link.
    """
    below = [path]
    for above in path.parents:
        if (above / "config.yaml").is_file() and any((above / name).exists() for name in _OF_RUN):
            break
        below.append(above)
    else:
        return
    link = next((place for place in below if place.is_symlink()), None)
    if link is not None:
        raise StorageError(
            f"{link}: expected a file or folder of the run, got a link, and nothing is written "
            "through it. Remove the link."
        )


@contextmanager
def storage_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError into a `StorageError` that names the path."""
    try:
        yield
    except UnboundedError:
        raise  # this error already has a message
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
    """Flush the file or folder at `path` to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a draft file that atomically replaces `path` after the block.

    For a link, the target is replaced and the link kept, except in a run folder. Pipes and devices
    are written directly. The file has the permissions of any new file.

    Raises:
        StorageError: the disk is full or read-only; the old file stays and the draft is removed. Or
            `path` leads through a link in a run folder.
    """
    refuse_links(path)
    with storage_errors(path, "writing"):
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


def make_folder(path: Path) -> None:
    """Create a folder and those above it, if they are missing.

    Raises:
        StorageError: it cannot be created.
    """
    with storage_errors(path, "making folder"):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text`, as `replacing` does."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, as `replacing` does."""
    with replacing(path) as draft:
        draft.write_bytes(data)


def json_text(data: Any, indent: int | None = None) -> str:
    """Return strict JSON, in which non-finite numbers are null."""
    return json.dumps(_finite(data), indent=indent, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
