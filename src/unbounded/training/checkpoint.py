"""Checkpoints: folders written whole or not at all, checked before anything in them is used.

A checkpoint holds model.safetensors, config.json, loop.json and what accelerate saves of the
optimizer, the schedule and the random states. manifest.json lists each file with its size and
SHA-256, and is what makes the folder a checkpoint. Nothing loaded can run code: JSON,
safetensors, and torch files that accelerate reads with weights_only=True.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from accelerate import Accelerator
from accelerate.utils import load as load_weights_only
from safetensors.torch import load_file, save_file
from torch import Tensor

from unbounded.errors import CheckpointError, StorageError
from unbounded.files import (
    file_digest,
    json_text,
    read_text,
    refusal,
    storage_faults,
    sync,
    usual_modes,
)
from unbounded.training.state import LoopState

T = TypeVar("T")

FORMAT = "unbounded-checkpoint"
VERSION = 1
_NAME = re.compile(r"batch-(\d+)")
_PARTIAL = ".partial-"
#: How what a GPU refuses begins.
_OF_A_GPU = ("CUDA", "cuDNN", "HIP", "MPS")
#: Before the name of a checkpoint whose place another takes.
_ASIDE = f"{_PARTIAL}old-"


EXTRA = "extra.safetensors"


class Extra(Protocol):
    """Something of a run that keeps tensors beside the model's and the optimizer's."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of it."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave."""


class Together:
    """Several extras as one, each under its name.

    Args:
        parts: name -> what keeps tensors.
    """

    def __init__(self, parts: Mapping[str, Extra]) -> None:
        self._parts = dict(parts)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of all of them."""
        return {
            f"{name}/{key}": tensor
            for name, part in self._parts.items()
            for key, tensor in part.tensors().items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Give each of them its own."""
        for name, part in self._parts.items():
            own = {key: tensors[key] for key in tensors if key.startswith(f"{name}/")}
            part.load({key.removeprefix(f"{name}/"): tensor for key, tensor in own.items()})


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: where they lie, one folder each.
        accelerator: has prepared the model, optimizer and schedule that are saved and loaded.
        config: the model's config, kept beside its weights.
        run: what identifies the run; a checkpoint of another run is foreign.
        keep: how many of the newest stay, at least 1.
        keep_at: batches whose checkpoint stays too.
        saved: called after each checkpoint that is written.
        extra: has tensors of its own to keep, in extra.safetensors; None has none.
    """

    def __init__(
        self,
        folder: Path,
        accelerator: Accelerator,
        *,
        config: dict[str, Any],
        run: str,
        keep: int = 2,
        keep_at: Collection[int] = (),
        saved: Callable[[], None] | None = None,
        extra: Extra | None = None,
    ) -> None:
        self.folder = folder
        self._accelerator = accelerator
        self._config = config
        self._run = run
        self._keep = keep
        self._lasting = {_name(batch) for batch in keep_at}
        self._saved = saved
        self._extra = extra

    def save(self, state: LoopState) -> Path:
        """Write a checkpoint of everything as it stands, then drop the oldest ones.

        Raises:
            StorageError: the disk refused; what was there before is intact, nothing half is left.
        """
        name = _name(state.batch)
        final = self.folder / name
        # One name for all processes, so that each can put its random states there.
        partial = self.folder / f"{_PARTIAL}{name}"
        main = self._accelerator.is_main_process
        with storage_faults(final, "saving checkpoint"):
            try:
                if main:
                    self._drop_partial()
                    partial.mkdir(parents=True)
                self._accelerator.wait_for_everyone()
                self._write(partial, state)
                self._accelerator.wait_for_everyone()
                if main:
                    self._seal(partial, state)
                    self._replace(partial, final)
            except BaseException:
                if main:
                    shutil.rmtree(partial, ignore_errors=True)
                raise
            if main:
                for old in checkpoint_folders(self.folder)[self._keep :]:
                    if old.name not in self._lasting:
                        shutil.rmtree(old)
            self._accelerator.wait_for_everyone()
        if self._saved is not None:
            self._saved()
        return final

    def load_newest(self, tell: Callable[[str], None]) -> LoopState | None:
        """Restore the newest checkpoint that is whole; None when there is no folder at all.

        Args:
            tell: given one line for each checkpoint that had to be passed over, and why.
        Raises:
            CheckpointError: there are checkpoints and none of them can be used.
        """
        taken = newest_usable(self.folder, lambda folder: self._load(folder, self._run))
        if taken is None:
            return None
        for line in taken.passed_over:
            tell(line)
        return taken.content

    def load_from(self, folder: Path, run: str) -> LoopState:
        """Restore the checkpoint of another run that trains the same up to there.

        Args:
            folder: the checkpoint.
            run: what identifies that run.
        Raises:
            CheckpointError: it cannot be used.
        """
        return self._load(folder, run)

    def _write(self, partial: Path, state: LoopState) -> None:
        try:
            self._accelerator.save_state(str(partial))
        except OSError:
            raise
        except Exception as error:
            if str(error).startswith(_OF_A_GPU):  # out of memory, for one
                raise
            # safetensors and torch's zip writer report a refused write as errors of their own.
            free = shutil.disk_usage(self.folder).free // 2**20
            reason = f"{type(error).__name__}: {error}".split("\n", 1)[0]
            raise OSError(f"the disk has {free} MiB free and refused a file ({reason})") from error
        if self._accelerator.is_main_process:
            (partial / "loop.json").write_text(json_text(state.to_json(), indent=1))
            (partial / "config.json").write_text(json_text(self._config, indent=1))
            if self._extra is not None:
                save_file(self._extra.tensors(), partial / EXTRA)

    def _seal(self, partial: Path, state: LoopState) -> None:
        usual_modes(partial)
        files = {}
        for path in sorted(partial.iterdir()):
            sync(path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "run": self._run,
            "batch": state.batch,
            "processes": self._accelerator.num_processes,
            "files": files,
        }
        path = partial / "manifest.json"
        path.write_text(json_text(manifest, indent=1))
        sync(path)
        sync(partial)

    def _replace(self, partial: Path, final: Path) -> None:
        if final.exists():
            # The same batch is saved again when an interrupted look at it was taken up again.
            aside = self.folder / f"{_ASIDE}{final.name}"
            os.rename(final, aside)
            os.rename(partial, final)  # the next listing finds the old one where this fails
            shutil.rmtree(aside)
        else:
            os.rename(partial, final)
        sync(self.folder)

    def _drop_partial(self) -> None:
        for left in self.folder.glob(f"{_PARTIAL}*"):
            final = self.folder / left.name.removeprefix(_ASIDE)
            if left in checkpoint_folders(self.folder):
                os.rename(left, final)
            else:
                shutil.rmtree(left)

    def _load(self, folder: Path, run: str) -> LoopState:
        manifest = verify(folder)
        if manifest["run"] != run:
            raise CheckpointError(
                f"checkpoint {folder} belongs to another run: {manifest['run']}, not {run}"
            )
        if manifest["processes"] != self._accelerator.num_processes:
            raise CheckpointError(
                f"checkpoint {folder} was written by {manifest['processes']} process(es); "
                f"this run has {self._accelerator.num_processes}"
            )
        try:
            # accelerate passes over random states it cannot read; here that is a fault.
            load_weights_only(folder / f"random_states_{self._accelerator.process_index}.pkl")
            self._accelerator.load_state(str(folder))
            if self._extra is not None:
                self._extra.load(load_file(folder / EXTRA))
            return LoopState.from_json(json.loads((folder / "loop.json").read_text()))
        except CheckpointError as error:
            raise CheckpointError(f"{folder / 'loop.json'}: {error}") from error
        except Exception as error:
            reason = textwrap.shorten(str(error), 400)  # torch says which weights in further lines
            raise CheckpointError(
                f"checkpoint {folder} does not fit or cannot be read: "
                f"{type(error).__name__}: {reason}"
            ) from error


def _name(batch: int) -> str:
    return f"batch-{batch:09d}"


def checkpoint_folders(folder: Path) -> Sequence[Path]:
    """The checkpoints in `folder`, newest first, whole or not.

    One that was put aside counts while what was to take its place is not there.

    Raises:
        CheckpointError: there is something else of that name.
    """
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(
            f"{folder} is a file, where the folder of the checkpoints belongs: move it away"
        )
    if not folder.is_dir():
        return []
    found = {path.name: path for path in folder.glob(f"{_ASIDE}*")}
    found = {name.removeprefix(_ASIDE): path for name, path in found.items()}
    found |= {path.name: path for path in folder.iterdir()}
    return [found[name] for name in sorted(found, reverse=True) if _NAME.fullmatch(name)]


class Taken(NamedTuple, Generic[T]):
    """The checkpoint that was taken, and why.

    Fields:
        content: what was read of it.
        folder: of the checkpoint.
        passed_over: a line for each newer one that cannot be used: why, and what is taken instead.
    """

    content: T
    folder: Path
    passed_over: tuple[str, ...]


def newest_usable(folder: Path, read: Callable[[Path], T]) -> Taken[T] | None:
    """The newest checkpoint that can be read; whoever takes a checkpoint of a run takes this one.

    Args:
        folder: of the checkpoints of a run.
        read: reads one; raises CheckpointError where it cannot be used.
    Returns:
        None where there is no checkpoint.
    Raises:
        CheckpointError: there are checkpoints and none can be used; a line for each of them.
    """
    faults: list[str] = []
    for each in checkpoint_folders(folder):
        try:
            content = read(each)
        except CheckpointError as error:
            faults.append(str(error))
            continue
        return Taken(content, each, tuple(f"{line}; {each} is taken instead" for line in faults))
    if faults:
        raise CheckpointError(
            "no checkpoint can be used; --overwrite begins anew:\n  " + "\n  ".join(faults)
        )
    return None


def verify(folder: Path) -> dict[str, Any]:
    """Check that a checkpoint is whole and of this format.

    Returns:
        Its manifest.
    Raises:
        CheckpointError: foreign, truncated or changed; the message names the file.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise CheckpointError(f"{path} is missing, so that the checkpoint is not whole")
    try:
        manifest = json.loads(read_text(path))
        if not isinstance(manifest, dict):
            raise TypeError(f"expected an object, got {type(manifest).__name__}")
        known = manifest["format"] == FORMAT and manifest["version"] == VERSION
        files = {str(name): entry for name, entry in manifest["files"].items()}
        named = {"run", "batch", "processes"} <= set(manifest)
        sizes = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in files.items()}
    except StorageError as error:
        raise CheckpointError(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is not the manifest of a checkpoint: {error}") from error
    needed = {"model.safetensors", "optimizer.bin", "scheduler.bin", "loop.json", "config.json"}
    if not known or not named or not needed <= set(sizes):
        raise CheckpointError(f"{path} is not the manifest of a checkpoint of {FORMAT} {VERSION}")
    for name, (size, digest) in sizes.items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise CheckpointError(f"{file} is missing from the checkpoint")
        if file.stat().st_size != size:
            raise CheckpointError(f"{file} is truncated: {file.stat().st_size} of {size} bytes")
        try:
            is_same = file_digest(file) == digest
        except OSError as error:
            raise CheckpointError(refusal(error)) from error
        if not is_same:
            raise CheckpointError(f"{file} is damaged: its SHA-256 is not the manifest's")
    return dict(manifest)
