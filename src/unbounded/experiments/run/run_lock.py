"""Taking hold of a run folder: one process at a time, and nothing replaced before it can be."""

from __future__ import annotations

import json
import os
import shutil
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from unbounded.errors import RunBusyError, RunExistsError, StorageError
from unbounded.files import storage_faults
from unbounded.training.checkpoint import checkpoint_folders

#: Beside the lock: who holds it.
_HOLDER = ".holder.json"
#: What job a process is part of, as schedulers say it.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


def make_runs(root: Path) -> None:
    """Make the folder of run folders, where it is not there.

    Raises:
        StorageError: it cannot be made; the message says why and what to do.
    """
    above = (root, *root.parents)
    file = next((each for each in above if os.path.lexists(each) and not each.is_dir()), None)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{file} is not a folder" if file else error.strerror or str(error)
        raise StorageError(
            f"the folder of runs {root} cannot be made: {reason}; name another with --runs"
        ) from error


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a run for this process, whether or not its folder is there.

    The lock is a file beside the run folders, in `.locks`, so that a folder can be moved while it
    is held. It goes with the process, also when that is killed; on a file system without such locks
    it is a file that stands for itself, and one that a process of this machine left is told from
    one that is held. Folders that are made here go again where the block fails without a run.

    Raises:
        RunBusyError: another process holds it; the message says which and what to do.
        StorageError: the disk refused.
    """
    locks = folder.parent / ".locks"
    new = [each for each in (locks, *locks.parents) if not each.exists()]
    make_runs(folder.parent)
    with storage_faults(folder.parent, "writing into"):
        locks.mkdir(exist_ok=True)
        held = _acquired(locks / folder.name)
    try:
        _say_who(locks / f"{folder.name}{_HOLDER}")
        with storage_faults(folder, "putting back"):
            _finish_replacing(folder)
        yield
    except BaseException:
        if not os.path.lexists(folder):
            _remove(new, (locks / folder.name, locks / f"{folder.name}{_HOLDER}"))
        raise
    finally:
        held.release()


def _remove(folders: Sequence[Path], files: Sequence[Path]) -> None:
    """Remove folders, the innermost first, and these files in them; what has others stays."""
    with suppress(OSError):
        for file in files if folders else ():
            file.unlink(missing_ok=True)
        for folder in folders:
            folder.rmdir()


def _acquired(path: Path) -> BaseFileLock:
    for kind, file in ((FileLock, path), (SoftFileLock, path.with_name(f"{path.name}.soft"))):
        attempt = kind(str(file), timeout=0)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="flock not supported")
                attempt.acquire()
        except Timeout:
            # filelock 4 makes a FileLock a soft one by itself where there is no flock.
            raise RunBusyError(
                _who(path, file, is_soft=isinstance(attempt, SoftFileLock))
            ) from None
        except NotImplementedError:
            continue  # a file system without locks
        return attempt
    raise StorageError(f"no lock can be made at {path}; name another folder with --runs")


def _say_who(path: Path) -> None:
    job = next((f"{name}={os.environ[name]}" for name in _JOBS if name in os.environ), "")
    holder = {"host": socket.gethostname(), "process": os.getpid(), "job": job}
    with storage_faults(path, "writing"):
        path.write_text(json.dumps(holder), encoding="utf-8")


def _who(path: Path, file: Path, *, is_soft: bool) -> str:
    """That a run is busy, with what its holder wrote of itself."""
    run = path.parent.parent / path.name
    text = f"another process is at work in {run}"
    with suppress(OSError, ValueError, KeyError, TypeError):
        holder = json.loads(path.with_name(f"{path.name}{_HOLDER}").read_text(encoding="utf-8"))
        job = f", job {holder['job']}" if holder["job"] else ""
        text += f": process {int(holder['process'])} on {holder['host']}{job}"
    text += "; wait for it or stop it"
    if is_soft:
        text += f". If it is there no more, delete {file}"
    return text


def admit(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that a run may take this folder; nothing is changed.

    A run whose config.yaml is gone is still one to go on with: its checkpoints say whose they are.

    Raises:
        RunExistsError: the folder is a run's and neither was asked for, or it is no run's.
    """
    if not os.path.lexists(folder) or _is_empty(folder):
        return
    is_run = (folder / "config.yaml").is_file()
    if not is_run and not (resume and _can_go_on(folder)):
        raise RunExistsError(
            f"{folder} is there and is not a run folder: it has no config.yaml. It is left as it "
            "is; move it away, or name another folder with --runs"
        )
    if not (resume or overwrite):
        raise RunExistsError(
            f"run folder {folder} exists; --resume goes on with it, --overwrite replaces it"
        )


def is_begun(folder: Path) -> bool:
    """Whether there is a run to go on with, also one that a killed `--overwrite` moved aside."""
    return any(_can_go_on(each) for each in (folder, _aside(folder)))


def _can_go_on(folder: Path) -> bool:
    return (folder / "config.yaml").is_file() or bool(checkpoint_folders(folder / "checkpoints"))


@contextmanager
def made(folder: Path, *, overwrite: bool) -> Iterator[Callable[[], None]]:
    """The run's folder inside the block, made when it is not there.

    A folder that is made here and in which nothing was trained goes again when the block fails.
    With `overwrite` the old run is moved aside. It is deleted when what the block is given is
    called, which is when the new run has its first checkpoint, and put back when the block fails
    before that; `lock` does the same after a process that was killed.

    Raises:
        StorageError: the disk refused.
    """
    aside = _aside(folder)
    replaced, is_new = False, not os.path.lexists(folder)

    def forget() -> None:
        nonlocal replaced
        if not replaced:
            replaced = True
            # What cannot be deleted now is tried again when the run is next taken hold of.
            shutil.rmtree(aside, ignore_errors=True)

    try:
        with storage_faults(folder, "making run folder"):
            if overwrite and os.path.lexists(folder):
                os.rename(folder, aside)
            folder.mkdir(parents=True, exist_ok=True)
        yield forget
    except BaseException:
        if not replaced and os.path.lexists(aside):
            with storage_faults(folder, "putting back"):
                _delete(folder)
                os.rename(aside, folder)
        elif is_new and not replaced and not _is_trained(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_trained(folder: Path) -> bool:
    """Whether a run has come to a report on its training, or to a checkpoint."""
    metrics = folder / "metrics.jsonl"
    is_measured = metrics.exists() and metrics.stat().st_size > 0
    return is_measured or bool(checkpoint_folders(folder / "checkpoints"))


def _aside(folder: Path) -> Path:
    return folder.with_name(f".replaced-{folder.name}")


def _finish_replacing(folder: Path) -> None:
    aside = _aside(folder)
    if not os.path.lexists(aside):
        return
    if checkpoint_folders(folder / "checkpoints"):
        _delete(aside)
    else:
        _delete(folder)
        os.rename(aside, folder)


def _delete(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing but what a process that was killed at once may leave."""
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())
