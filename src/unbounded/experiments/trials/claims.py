"""Share runs among workers on any number of machines: each run is claimed by one of them.

Workers share runs through a folder that all of them see; there is no server. A claim is a file
NAME.G, where G counts the claims of a run. A worker makes this file with a hard link, which a file
system makes only once, on NFS too. No claim is ever deleted, so two workers cannot both take over
the same dead claim: both try to make NAME.(G+1), and one succeeds.

Each worker touches a file of its own, its heartbeat. A claim is dead if the heartbeat of its worker
no longer changes. Ages are differences of two times that the file system reports. No computer's
clock is read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

from unbounded.errors import StorageError
from unbounded.files import make_folder, storage_errors, write_text

#: Folder for claims within the folder of runs, and its subfolder for the workers' heartbeats.
CLAIMS: Final = ".claims"
_WORKERS: Final = "workers"
#: Seconds between two heartbeats.
HEARTBEAT_S: Final = 5.0
#: A claim is dead after this many seconds without a heartbeat.
DEAD_AFTER_S: Final = 60.0
#: A run is abandoned after this many claims whose workers died.
MOST_DEATHS: Final = 3
#: Environment variables in which schedulers store a job's number.
_JOBS: Final = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
#: Errors of a file system without hard links.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)

State = Literal["running", "finished", "failed", "released"]


@dataclass(frozen=True)
class ClaimRecord:
    """The content of a claim.

    Fields:
        worker: the id of its worker.
        state: running, finished, failed with an error, or released to be taken by another worker.
        deaths: earlier claims of the run whose workers died.
        error: the error of a failed run.
        seconds: wall-clock time of the run, if it has ended.
        is_fresh: whether this claim trained the run to its end; False if it was finished before.
    """

    worker: str
    state: State = "running"
    deaths: int = 0
    error: str = ""
    seconds: float = 0.0
    is_fresh: bool = False


@dataclass(frozen=True)
class Claim:
    """A claim of this worker.

    Fields:
        name: the run.
        generation: number of this claim of the run, from 1.
        record: its content.
    """

    name: str
    generation: int
    record: ClaimRecord


@dataclass
class _Seen:
    """The last heartbeat seen of a worker, and its time in seconds of this process."""

    beat: int
    since: float
    is_proved_alive: bool = False


@dataclass
class Clock:
    """The intervals and the clock that claims use.

    Fields:
        heartbeat_s, dead_after_s: see HEARTBEAT_S and DEAD_AFTER_S.
        now: seconds that pass in this process; differences alone are used.
    """

    heartbeat_s: float = HEARTBEAT_S
    dead_after_s: float = DEAD_AFTER_S
    now: Callable[[], float] = field(default=time.monotonic)


class Claims:
    """The claims of one worker, and its view of other claims. The context sends heartbeats.

    Args:
        runs: the folder of the run folders.
        clock: times; the defaults suit runs of seconds and of days.
        on_lost: called, in the heartbeat's thread, when another worker has taken over the claim.
    Raises:
        StorageError: the folder cannot be written.
    """

    def __init__(
        self,
        runs: Path,
        clock: Clock | None = None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_lost = on_lost
        self.folder = runs / CLAIMS
        self._workers = self.folder / _WORKERS
        self._clock = clock or Clock()
        host = socket.gethostname().split(".")[0][:40]
        self.worker = f"{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._beat_file = self._workers / self.worker
        self._seen: dict[str, _Seen] = {}
        self._generations: dict[str, int] = {}
        self._held: Claim | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = threading.Event()

    def __enter__(self) -> Claims:
        make_folder(self._workers)
        write_text(self._beat_file, json.dumps(_identity()))
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._held is None:  # no claim refers to this worker any more
            with contextlib.suppress(OSError):
                self._beat_file.unlink()

    def look(self) -> None:
        """List the folder once, to read which claims exist."""
        self._generations = _generations(self.folder)

    def record(self, name: str) -> ClaimRecord | None:
        """The newest claim of a run at the last `look`; None if the run has no claim."""
        generation = self._generations.get(name)
        return None if generation is None else self._read(name, generation)

    def take(self, name: str, *, retry: bool = False) -> Claim | None:
        """Claim a run if no worker has claimed it, or if its claim is dead or released.

        A run whose workers died MOST_DEATHS times is marked as failed and is not taken.

        Args:
            name: the run.
            retry: whether to take a failed run, too.
        Returns:
            The claim; None if another worker has the run, or if it failed.
        """
        last = self._generations.get(name, 0)
        before = self._read(name, last) if last else None
        record = ClaimRecord(self.worker)
        if before is not None:
            if before.state == "failed" and not retry:
                return None
            if before.state == "running":
                if not self.is_dead(before.worker):
                    return None
                record = replace(record, deaths=before.deaths + 1)
            elif before.state == "released":
                record = replace(record, deaths=before.deaths)
        if record.deaths >= MOST_DEATHS:
            error = f"the workers of {record.deaths} attempts died (out of memory?)"
            record = replace(record, state="failed", error=error)
        made = self._make(name, last + 1, record)
        self._generations[name] = last + 1
        if not made or record.state == "failed":
            return None
        self._held = Claim(name, last + 1, record)
        self.lost.clear()
        return self._held

    def end(
        self,
        claim: Claim,
        state: State,
        *,
        error: str = "",
        seconds: float = 0.0,
        is_fresh: bool = False,
    ) -> None:
        """Record how a claimed run ended; the arguments are fields of `ClaimRecord`.

        Raises:
            StorageError: the claim cannot be written.
        """
        record = replace(claim.record, state=state, error=error, seconds=seconds, is_fresh=is_fresh)
        path = self._path(claim.name, claim.generation)
        draft = self._workers / f".{self.worker}.draft"
        # The claim need not be flushed to the disk, because after a power failure the run's report
        # counts.
        with storage_errors(path, "writing"):
            draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
            draft.replace(path)
        self._held = None

    def is_dead(self, worker: str) -> bool:
        """Whether a worker died before it ended its claim.

        A worker on this computer is dead if its process no longer exists. Any worker is dead if its
        heartbeat has not changed for `dead_after_s`. The age of a heartbeat is measured by the file
        system, after two heartbeats of watching, or as the time of watching.
        """
        if worker == self.worker:
            return False
        now = self._clock.now()
        try:
            # Opening the file makes NFS ask the server for its newest times.
            with (self._workers / worker).open(encoding="utf-8") as file:
                beat, text = os.fstat(file.fileno()).st_mtime_ns, file.read()
        except OSError:  # there is no file, or the claim does not name its worker
            beat, text = 0, ""
        seen = self._seen.get(worker)
        if seen is None:
            seen = self._seen[worker] = _Seen(beat, now)
        elif seen.beat != beat:
            seen.beat, seen.since, seen.is_proved_alive = beat, now, True
        if text and _is_gone(text):
            return True
        watched = now - seen.since
        if watched < 2 * self._clock.heartbeat_s:
            return False
        if watched >= self._clock.dead_after_s:
            return True
        return beat == 0 or self._file_time() - beat / 1e9 > self._clock.dead_after_s

    def is_proved_alive(self, worker: str) -> bool:
        """Whether `is_dead` has seen a heartbeat of a worker change."""
        seen = self._seen.get(worker)
        return worker == self.worker or (seen is not None and seen.is_proved_alive)

    def forget(self) -> None:
        """Forget which workers were alive, so that each must prove it by another heartbeat."""
        for seen in self._seen.values():
            seen.is_proved_alive = False

    def _file_time(self) -> float:
        """The time of the file system in seconds, read by touching the heartbeat file."""
        os.utime(self._beat_file)
        return self._beat_file.stat().st_mtime

    def _beat(self) -> None:
        """Touch the heartbeat file until the end, and watch whether the claim is taken over."""
        while not self._ended.wait(self._clock.heartbeat_s):
            with contextlib.suppress(OSError):
                os.utime(self._beat_file)
            held = self._held
            if held is None or self.lost.is_set():
                continue
            if self._path(held.name, held.generation + 1).exists():
                self.lost.set()
                self._on_lost()

    def _path(self, name: str, generation: int) -> Path:
        return self.folder / f"{name}.{generation}"

    def _read(self, name: str, generation: int) -> ClaimRecord:
        return read_claim(self._path(name, generation))

    def _make(self, name: str, generation: int, record: ClaimRecord) -> bool:
        """Make a claim's file with its content, unless it exists."""
        path, text = self._path(name, generation), json.dumps(asdict(record))
        draft = self._workers / f".{self.worker}.draft"
        with storage_errors(path, "writing"):
            draft.write_text(text, encoding="utf-8")
            try:
                os.link(draft, path)
            except FileExistsError:
                # If NFS repeats a request, the request may find the link that it has made.
                return draft.stat().st_nlink == 2
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return _exclusively(path, text)
            finally:
                draft.unlink(missing_ok=True)
        return True


def _exclusively(path: Path, text: str) -> bool:
    """Make a file on a file system without hard links. Return False if the file exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def read_claim(path: Path) -> ClaimRecord:
    """Read a claim. An incomplete or damaged claim counts as running.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return ClaimRecord(**data)
    except FileNotFoundError:
        return ClaimRecord("", "released")
    except (ValueError, TypeError):
        return ClaimRecord("")
    except OSError as error:
        raise StorageError(f"reading {path} failed: {error.strerror}") from error


def newest_claims(runs: Path, names: Iterable[str] | None = None) -> dict[str, ClaimRecord]:
    """The newest claim of each run, for processes that only read claims.

    Args:
        runs: the folder of the run folders.
        names: the runs to read; None for all.
    """
    folder = runs / CLAIMS
    generations = _generations(folder)
    wanted = generations if names is None else [name for name in names if name in generations]
    return {name: read_claim(folder / f"{name}.{generations[name]}") for name in wanted}


def _generations(folder: Path) -> dict[str, int]:
    """The newest generation of each run's claims."""
    newest: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return {}
    for file in names:
        name, _, generation = file.rpartition(".")
        if generation.isdigit() and name and name[0] != ".":
            newest[name] = max(newest.get(name, 0), int(generation))
    return newest


def _identity() -> dict[str, Any]:
    """The data that a worker writes into its heartbeat file."""
    job = next((f"{name}={os.environ[name]}" for name in _JOBS if name in os.environ), "")
    return {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "job": job,
        "machine": _machine(),
        "process_start": _process_start(os.getpid()),
    }


def _machine() -> str:
    """An id of this computer's boot and of its process name space; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _process_start(process: int) -> str:
    """The start time of a process, in ticks since the boot; empty without such a process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _is_gone(text: str) -> bool:
    """Whether a worker ran on this computer and its process no longer exists."""
    try:
        identity: Mapping[str, Any] = json.loads(text)
        here, start = _machine(), identity["process_start"]
        if not here or not start or identity["machine"] != here:
            return False
        return _process_start(int(identity["process"])) != str(start)
    except (ValueError, TypeError, KeyError):
        return False
