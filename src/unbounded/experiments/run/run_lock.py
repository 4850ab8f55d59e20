"""Lock a run folder for one process, and replace a run only when the new one is saved."""

from __future__ import annotations

import errno
import fcntl
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
from unbounded.experiments.run.run_folder import AnyPath, RunFolder
from unbounded.files import storage_errors
from unbounded.training.checkpoint import checkpoint_folders

#: Suffix of the file that describes the process that holds the lock.
_HOLDER = ".holder.json"
#: Environment variables in which schedulers store a job's number.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


def make_runs(root: Path) -> None:
    """Create the folder of run folders if it is missing.

    Raises:
        StorageError: it cannot be created; the message says why and what to do.
    """
    above = (root, *root.parents)
    file = next((path for path in above if os.path.lexists(path) and not path.is_dir()), None)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{file} is not a folder" if file else error.strerror or str(error)
        raise StorageError(
            f"the folder of runs {root} cannot be made: {reason}; name another with --runs"
        ) from error


@contextmanager
def lock(folder: AnyPath) -> Iterator[None]:
    """Lock a run for this process, whether or not its folder exists.

    The lock is a file in `.locks` next to the run folders, so the run folder can be moved while it
    is locked. The lock ends with the process, even if it is killed. On a file system without locks,
    the file's existence is the lock. A stale file from this computer is recognised. Folders created
    here are removed if the block fails without creating the run.

    Raises:
        RunBusyError: another process holds the lock; the message names it and says what to do.
        StorageError: a file cannot be written.
    """
    path = RunFolder(folder).path
    locks = path.parent / ".locks"
    new = [path for path in (locks, *locks.parents) if not path.exists()]
    make_runs(path.parent)
    with storage_errors(path.parent, "writing into"):
        locks.mkdir(exist_ok=True)
        held = _acquired(locks / path.name)
    try:
        _say_who(locks / f"{path.name}{_HOLDER}")
        with storage_errors(path, "putting back"):
            _finish_replacing(RunFolder(path))
        yield
    except BaseException:
        if not os.path.lexists(path):
            _remove(new, (locks / path.name, locks / f"{path.name}{_HOLDER}"))
        raise
    finally:
        held.release()


def _remove(folders: Sequence[Path], files: Sequence[Path]) -> None:
    """Remove the files, then the folders, innermost first; folders with other files stay."""
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
            # filelock 4 turns a FileLock into a soft one if there is no flock.
            raise RunBusyError(
                _who(path, file, is_soft=isinstance(attempt, SoftFileLock))
            ) from None
        except NotImplementedError:
            continue  # the file system has no locks
        return attempt
    raise StorageError(f"no lock can be made at {path}; name another folder with --runs")


def free_soft_lock(folder: AnyPath) -> None:
    """Remove the lock of a dead process on a file system without locks.

    On such a file system, a lock is a file, which a killed process on another computer leaves
    behind. The caller must know that the process is dead. Locks of the file system end with their
    process, and are not changed.
    """
    path = RunFolder(folder).path
    file = path.parent / ".locks" / path.name
    with suppress(OSError):
        if not _has_locks(file.parent):
            file.unlink(missing_ok=True)
            file.with_name(f"{file.name}.soft").unlink(missing_ok=True)


def _has_locks(folder: Path) -> bool:
    """Whether the file system of a folder has locks that end with their process."""
    probe = folder / f".{os.getpid()}.probe"
    try:
        with probe.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
    finally:
        probe.unlink(missing_ok=True)
    return True


def _say_who(path: Path) -> None:
    job = next((f"{name}={os.environ[name]}" for name in _JOBS if name in os.environ), "")
    holder = {"host": socket.gethostname(), "process": os.getpid(), "job": job}
    with storage_errors(path, "writing"):
        path.write_text(json.dumps(holder), encoding="utf-8")


def _who(path: Path, file: Path, *, is_soft: bool) -> str:
    """The message for a busy run, with details of the process that holds its lock."""
    run = path.parent.parent / path.name
    text = f"another process is at work in {run}"
    with suppress(OSError, ValueError, KeyError, TypeError):
        holder = json.loads(path.with_name(f"{path.name}{_HOLDER}").read_text(encoding="utf-8"))
        job = f", job {holder['job']}" if holder["job"] else ""
        text += f": process {int(holder['process'])} on {holder['host']}{job}"
    text += "; wait for it or stop it"
    if is_soft:
        text += f". If it no longer exists, delete {file}"
    return text


def admit(folder: RunFolder, *, resume: bool, overwrite: bool) -> None:
    """Check that a run may use this folder, without changing it.

    A run without config.yaml can resume, because its checkpoints identify it.

    Raises:
        RunExistsError: the folder is a run's and neither option is set, or it is not a run's.
    """
    if not os.path.lexists(folder) or _is_empty(folder.path):
        return
    if not folder.is_run and not (resume and folder.can_resume):
        raise RunExistsError(
            f"{folder} exists and is not a run folder: it has no config.yaml. Move it away, or "
            "name another folder with --runs"
        )
    if not (resume or overwrite):
        raise RunExistsError(
            f"run folder {folder} exists; --resume continues it, --overwrite replaces it"
        )


def is_begun(folder: RunFolder) -> bool:
    """Whether there is a run to resume, including one that a killed `--overwrite` moved aside."""
    return folder.can_resume or RunFolder(aside(folder)).can_resume


@contextmanager
def made(folder: RunFolder, *, overwrite: bool) -> Iterator[Callable[[], None]]:
    """Create the run's folder for the block. Yield a function to call at the first checkpoint.

    A folder created here is removed if the block fails before any training. With `overwrite`, the
    old run is moved aside. The old run is deleted when the yielded function is called, and restored
    if the block fails before this call. After a killed process, `lock` does the same.

    Raises:
        StorageError: a folder cannot be written.
    """
    before = aside(folder)
    replaced, is_new = False, not os.path.lexists(folder)

    def forget() -> None:
        nonlocal replaced
        if not replaced:
            replaced = True
            # Files that cannot be deleted now are deleted by the next `lock`.
            shutil.rmtree(before, ignore_errors=True)

    try:
        with storage_errors(folder.path, "making run folder"):
            if overwrite and os.path.lexists(folder):
                os.rename(folder, before)
            folder.path.mkdir(parents=True, exist_ok=True)
        yield forget
    except BaseException:
        if not replaced and os.path.lexists(before):
            with storage_errors(folder.path, "putting back"):
                _delete(folder.path)
                os.rename(before, folder)
        elif is_new and not replaced and not folder.is_trained:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def aside(folder: RunFolder) -> Path:
    """The folder that holds an old run until the new run is saved."""
    return folder.path.with_name(f".replaced-{folder.name}")


def _finish_replacing(folder: RunFolder) -> None:
    before = aside(folder)
    if not os.path.lexists(before):
        return
    if checkpoint_folders(folder.checkpoints):
        _delete(before)
    else:
        _delete(folder.path)
        os.rename(before, folder)


def _delete(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _is_empty(folder: Path) -> bool:
    """Whether a folder is empty, except for hidden files that a killed process may leave."""
    return folder.is_dir() and all(path.name.startswith(".") for path in folder.iterdir())
