"""Checkpoints, which are folders that are written atomically and verified before use.

A checkpoint holds model.safetensors, config.json, loop.json, hooks.pt and accelerate's files for
the optimizer, the schedule and the random states. manifest.json lists each file with its size and
SHA-256; a folder without it is not a checkpoint. Loading cannot run code, because the formats are
JSON, safetensors, and torch files that accelerate reads with weights_only=True.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import load as load_weights_only

from unbounded.errors import CheckpointError, StorageError
from unbounded.files import (
    file_digest,
    json_text,
    read_text,
    refusal,
    storage_errors,
    sync,
    usual_modes,
)
from unbounded.training.hook import Hook
from unbounded.training.state import LoopState

T = TypeVar("T")

FORMAT = "unbounded-checkpoint"
VERSION = 3
_NAME = re.compile(r"batch-(\d+)")
_PARTIAL = ".partial-"
#: Prefixes of error messages from a GPU.
_OF_A_GPU = ("CUDA", "cuDNN", "HIP", "MPS")
#: Prefix of a checkpoint that is being replaced.
_ASIDE = f"{_PARTIAL}old-"


#: The states of the hooks, by name.
HOOKS = "hooks.pt"


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: the folder that holds one folder for each checkpoint.
        accelerator: has prepared the model, optimizer and schedule that are saved and loaded.
        config: the model's config, saved with its weights.
        run: identifier of the run; a checkpoint of another run is refused.
        keep: number of newest checkpoints that are kept, at least 1.
        saved: called after each checkpoint.
        hooks: by name; their states are saved.
    """

    def __init__(
        self,
        folder: Path,
        accelerator: Accelerator,
        *,
        config: dict[str, Any],
        run: str,
        keep: int = 2,
        saved: Callable[[], None] | None = None,
        hooks: Mapping[str, Hook] | None = None,
    ) -> None:
        self.folder = folder
        self._accelerator = accelerator
        self._config = config
        self._run = run
        self._keep = keep
        self._saved = saved
        self._hooks = dict(hooks or {})
        self._are_readable = False

    def save(self, state: LoopState) -> Path:
        """Write a checkpoint, then delete the oldest ones.

        Raises:
            StorageError: the disk refused; earlier checkpoints are intact, no partial one remains.
        """
        name = f"batch-{state.batch:09d}"
        final = self.folder / name
        # The name is the same for all processes, because each process writes its random states into
        # this folder.
        partial = self.folder / f"{_PARTIAL}{name}"
        main = self._accelerator.is_main_process
        with storage_errors(final, "saving checkpoint"):
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
                    shutil.rmtree(old)
            self._accelerator.wait_for_everyone()
        if self._saved is not None:
            self._saved()
        return final

    def load_newest(self, report: Callable[[str], None]) -> LoopState | None:
        """Restore the newest usable checkpoint. Return None if there is no checkpoint folder.

        Args:
            report: called with one line for each unusable checkpoint, with the reason.
        Raises:
            CheckpointError: there are checkpoints, and all are unusable.
        """
        taken = newest_usable(self.folder, lambda folder: self._load(folder, self._run))
        if taken is None:
            return None
        for line in taken.passed_over:
            report(line)
        return taken.content

    def _write(self, partial: Path, state: LoopState) -> None:
        try:
            self._accelerator.save_state(str(partial))
            if self._accelerator.is_main_process:
                self._write_hooks(partial / HOOKS)
        except (OSError, CheckpointError):
            raise
        except Exception as error:
            if str(error).startswith(_OF_A_GPU):  # for example, the GPU is out of memory
                raise
            # safetensors and torch's zip writer raise their own errors for a refused write.
            free = shutil.disk_usage(self.folder).free // 2**20
            reason = f"{type(error).__name__}: {error}".split("\n", 1)[0]
            raise OSError(f"the disk has {free} MiB free and refused a file ({reason})") from error
        if self._accelerator.is_main_process:
            (partial / "loop.json").write_text(json_text(state.to_json(), indent=1))
            (partial / "config.json").write_text(json_text(self._config, indent=1))

    def _write_hooks(self, path: Path) -> None:
        """Write the states of the hooks. The first time, check that they can be read again."""
        states = {name: hook.state_dict() for name, hook in self._hooks.items()}
        states = {name: state for name, state in states.items() if state}
        torch.save(states, path)
        if self._are_readable:
            return
        for name, state in states.items():
            file = io.BytesIO()
            torch.save(state, file)
            file.seek(0)
            try:
                torch.load(file, weights_only=True)
            except Exception as error:
                raise CheckpointError(
                    f"hook {name}: expected a state of numbers, strings, tensors, lists and "
                    f"dicts, got one that cannot be loaded again: {state!r:.200}"
                ) from error
        self._are_readable = True

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
            # An interrupted check is repeated, which saves the same batch again.
            aside = self.folder / f"{_ASIDE}{final.name}"
            os.rename(final, aside)
            os.rename(partial, final)  # if this fails, the next listing includes the old one
            shutil.rmtree(aside)
        else:
            os.rename(partial, final)
        sync(self.folder)

    def _drop_partial(self) -> None:
        for leftover in self.folder.glob(f"{_PARTIAL}*"):
            final = self.folder / leftover.name.removeprefix(_ASIDE)
            if leftover in checkpoint_folders(self.folder):
                os.rename(leftover, final)
            else:
                shutil.rmtree(leftover)

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
            # accelerate ignores random states that it cannot read. Here, unreadable random states
            # cause an error.
            load_weights_only(folder / f"random_states_{self._accelerator.process_index}.pkl")
            self._accelerator.load_state(str(folder))
            states = torch.load(folder / HOOKS, map_location="cpu", weights_only=True)
            for name, hook in self._hooks.items():
                hook.load_state_dict(states.pop(name, {}))
            if states:
                raise CheckpointError(f"{HOOKS}: this run has no {', '.join(states)}")
            return LoopState.from_json(json.loads((folder / "loop.json").read_text()))
        except CheckpointError as error:
            raise CheckpointError(f"checkpoint {folder}: {error}") from error
        except Exception as error:
            reason = textwrap.shorten(str(error), 400)  # torch names the weights in further lines
            raise CheckpointError(
                f"checkpoint {folder} does not fit or cannot be read: "
                f"{type(error).__name__}: {reason}"
            ) from error


def checkpoint_folders(folder: Path) -> Sequence[Path]:
    """The checkpoints in `folder`, newest first, complete or not.

    A checkpoint that is being replaced counts until its replacement exists.

    Raises:
        CheckpointError: `folder` is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(
            f"{folder} is a file, but the folder of checkpoints has this name: move it away"
        )
    if not folder.is_dir():
        return []
    folders = {path.name: path for path in folder.glob(f"{_ASIDE}*")}
    folders = {name.removeprefix(_ASIDE): path for name, path in folders.items()}
    folders |= {path.name: path for path in folder.iterdir()}
    return [folders[name] for name in sorted(folders, reverse=True) if _NAME.fullmatch(name)]


class Taken(NamedTuple, Generic[T]):
    """The checkpoint that was loaded.

    Fields:
        content: the checkpoint's content.
        folder: the checkpoint's folder.
        passed_over: for each newer, unusable checkpoint a line with the reason.
    """

    content: T
    folder: Path
    passed_over: tuple[str, ...]


def newest_usable(folder: Path, read: Callable[[Path], T]) -> Taken[T] | None:
    """Load the newest usable checkpoint of a run. All commands use this function.

    Args:
        folder: the checkpoints of a run.
        read: loads one checkpoint; raises CheckpointError where it is unusable.
    Returns:
        None if there is no checkpoint.
    Raises:
        CheckpointError: all checkpoints are unusable; the message has a line for each.
    """
    errors: list[str] = []
    for checkpoint in checkpoint_folders(folder):
        try:
            content = read(checkpoint)
        except CheckpointError as error:
            errors.append(str(error))
            continue
        return Taken(
            content, checkpoint, tuple(f"{line}; {checkpoint} is taken instead" for line in errors)
        )
    if errors:
        raise CheckpointError(
            "no checkpoint can be used; --overwrite starts over:\n  " + "\n  ".join(errors)
        )
    return None


def verify(folder: Path) -> dict[str, Any]:
    """Check that a checkpoint is complete and of this format.

    Returns:
        Its manifest.
    Raises:
        CheckpointError: foreign, truncated or changed; the message names the file.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise CheckpointError(f"{path} is missing: the checkpoint is incomplete")
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
    needed = {"model.safetensors", "optimizer.bin", "scheduler.bin"}
    needed |= {"loop.json", HOOKS, "config.json"}
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
