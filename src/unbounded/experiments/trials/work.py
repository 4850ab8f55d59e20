"""The loop of a worker: take the next run that nobody has, train it, record how it ended.

Every executor starts workers of this one loop: the process pool, a shard, SLURM and Ray. A worker
trains run after run in one process, so that torch is imported once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from unbounded.errors import ConfigError, RunBusyError, StorageError, UnboundedError
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.trials.claims import Claims, Clock, State
from unbounded.experiments.trials.studies import Trial
from unbounded.files import storage_errors, write_text
from unbounded.training.signals import Interrupted, StopRequest, stop_requests

#: Exit code of a worker that stopped with work left; running the same command again goes on
#: (EX_TEMPFAIL).
EXIT_CONTINUE: Final = 75
#: Exit code of a worker with a failed run.
EXIT_FAILED: Final = 1
#: Folder of the logs in the folder of runs.
LOGS: Final = "logs"
#: Number of an element of a SLURM array, the least and the greatest one.
_ARRAY: Final = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
#: Folder of the workers' own logs and notes in it.
WORKERS: Final = "workers"
#: Seconds between two looks at the runs of other workers.
_POLL_S: Final = 1.0
_LONGEST_ERROR: Final = 4000
#: Bytes below which a disk counts as full.
_LEAST_ROOM: Final = 100_000
#: Disk errors with which every further run would fail too.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class Shard(NamedTuple):
    """A part of a plan: every `total`-th run, from the `number`-th on.

    Fields:
        number: 1..total.
        total: number of parts.
    """

    number: int = 1
    total: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """A shard from its text, "3/16".

        Raises:
            ConfigError: the text is no shard.
        """
        number, slash, total = text.partition("/")
        if slash and number.isdigit() and total.isdigit() and 1 <= int(number) <= int(total):
            return cls(int(number), int(total))
        raise ConfigError([f"shard: expected a part of the plan such as 3/16, got {text!r}"])

    @classmethod
    def of_job(cls) -> Self:
        """The shard of this element of a SLURM array; the whole plan outside of one.

        Raises:
            ConfigError: the variables of the array are not numbers.
        """
        values = [os.environ.get(name) for name in _ARRAY]
        if values[0] is None:
            return cls()
        try:
            number, low, high = (int(value) for value in values if value is not None)
        except ValueError as error:
            given = ", ".join(f"{n}={v}" for n, v in zip(_ARRAY, values, strict=True))
            raise ConfigError([f"shard: expected numbers, got {given}; give --shard"]) from error
        return cls(number - low + 1, high - low + 1)

    def order(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials, those of this part first."""
        first = self.number - 1
        own = [trial for place, trial in enumerate(trials) if place % self.total == first]
        others = [trial for place, trial in enumerate(trials) if place % self.total != first]
        # Begin at the next part, so that helpers spread.
        start = first * len(others) // self.total
        return [*own, *others[start:], *others[:start]]


@dataclass(frozen=True)
class WorkOptions:
    """How a worker works; plain data, so that it can be sent to another process.

    Fields:
        shard: the part of the plan that the worker begins with.
        isolated: whether to leave the other parts alone, for machines without a common folder.
        time_limit_s: seconds after which the worker saves and stops; None for no limit.
        retry: whether to train runs again that failed before the worker began.
        figures: whether each run draws its figures.
        modules: modules of custom components to import.
        log_with: trackers, see `train_run`.
        replaced: inodes of the run folders that a new run replaces, by the run's name.
        heartbeat_s, dead_after_s: see `Clock`.
    """

    shard: Shard = field(default_factory=Shard)
    isolated: bool = False
    time_limit_s: float | None = None
    retry: bool = False
    figures: bool = False
    modules: tuple[str, ...] = ()
    log_with: tuple[str, ...] = ()
    replaced: Mapping[str, int] = field(default_factory=dict)
    heartbeat_s: float = Clock.heartbeat_s
    dead_after_s: float = Clock.dead_after_s

    def to_json(self) -> str:
        """The options as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The options from their text."""
        data: dict[str, Any] = json.loads(text)
        data["shard"] = Shard(*data["shard"])
        for name in ("modules", "log_with"):
            data[name] = tuple(data[name])
        return cls(**data)


@dataclass
class WorkResult:
    """What a worker did.

    Fields:
        finished, failed: names of the runs that it finished, and that failed.
        elsewhere: number of runs that other workers have.
        stopped: the signal that stopped it; None if nothing was left for it.
        run_s, total_s: seconds in runs, and in all.
        wait_s: seconds of waiting for other workers.
    """

    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    elsewhere: int = 0
    stopped: int | None = None
    run_s: float = 0.0
    wait_s: float = 0.0
    total_s: float = 0.0

    @property
    def exit_code(self) -> int:
        """0, 1 if a run failed, 130 after Ctrl-C, 75 after another signal or the time limit."""
        if self.stopped is not None:
            return 130 if self.stopped == signal.SIGINT else EXIT_CONTINUE
        return EXIT_FAILED if self.failed else 0


def work(
    trials: Sequence[Trial],
    runs: Path,
    options: WorkOptions,
    say: Callable[[str], None] = lambda text: None,
) -> WorkResult:
    """Train the runs that no other worker has, until none is left.

    Args:
        trials: all trials of the plan; those of one run count once.
        runs: the folder of the run folders.
        options: how.
        say: called with a line for each run that ended.
    Returns:
        What was done, also if a signal or the time limit stopped it.
    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    began = time.monotonic()
    by_name = {trial.name: trial for trial in trials}
    clock = Clock(options.heartbeat_s, options.dead_after_s)
    # A claim that is lost stops its run as a signal does.
    interrupt = partial(os.kill, os.getpid(), signal.SIGUSR1)
    with (
        Claims(runs, clock, interrupt) as claims,
        stop_requests() as request,
        _limit(options),
    ):
        worker = _Worker(claims, request, runs, options, say)
        try:
            worker.work(options.shard.order(list(by_name.values())))
        except Interrupted as interrupted:
            worker.result.stopped = interrupted.number
        result = worker.result
        result.total_s = time.monotonic() - began
        with contextlib.suppress(StorageError):
            write_text(
                make_logs(runs) / WORKERS / f"{claims.worker}.json", json.dumps(asdict(result))
            )
    return result


def run_is_finished(trial: Trial, runs: Path) -> bool:
    """Whether a run has its report, and its verification if the trial asks for one."""
    folder = RunFolder.of(runs, trial.config)
    if not folder.is_finished:
        return False
    if trial.verify is None:
        return True
    from unbounded.experiments.run.verification import is_verified

    return is_verified(folder, trial.verify)


class _Worker:
    """The state of the loop."""

    def __init__(
        self,
        claims: Claims,
        request: StopRequest,
        runs: Path,
        options: WorkOptions,
        say: Callable[[str], None],
    ) -> None:
        self._claims, self._request, self._runs = claims, request, runs
        self._options, self._say = options, say
        # Runs that a process without a claim trains, and when to try them again.
        self._busy_until: dict[str, float] = {}
        self.result = WorkResult()

    def work(self, trials: Sequence[Trial]) -> None:
        """Take the trials in order; then watch those that others have until each is decided."""
        claims, options = self._claims, self._options
        if options.isolated:
            total = options.shard.total
            trials = trials[: (len(trials) + total - options.shard.number) // total]
        claims.look()
        records = {trial.name: claims.record(trial.name) for trial in trials}
        # Claims of runs whose reports were deleted, and earlier failures.
        again = {
            name
            for name, record in records.items()
            if record is not None
            and (record.state == "finished" or (record.state == "failed" and options.retry))
        }
        looked = time.monotonic()
        others: list[Trial] = []
        for trial in trials:
            self._request.check()
            if time.monotonic() - looked > _POLL_S:
                claims.look()
                looked = time.monotonic()
            record = claims.record(trial.name)
            if run_is_finished(trial, self._runs) and not self._replaces(trial):
                continue
            is_again = trial.name in again
            if (record is not None and not is_again) or not self._try(trial, retry=is_again):
                others.append(trial)
        self._watch(others)

    def _watch(self, others: list[Trial]) -> None:
        """Take over runs of dead workers until all others have ended or have a living worker."""
        claims, began = self._claims, time.monotonic()
        while others:
            self._request.check()
            claims.look()
            left, undecided = [], False
            for trial in others:
                record = claims.record(trial.name)
                if record is not None and record.state in ("finished", "failed"):
                    continue
                if self._is_busy(trial):
                    left.append(trial)
                    undecided = True
                    continue
                before = self.result.run_s
                if self._try(trial):
                    claims.forget()
                    began += self.result.run_s - before
                    continue
                left.append(trial)
                record = claims.record(trial.name)
                undecided |= record is None or not claims.is_proved_alive(record.worker)
            if time.monotonic() - began > 4 * self._options.dead_after_s:
                break  # a busy run, which its own process will finish
            others = left
            self.result.elsewhere = len(others)
            if not undecided:
                break
            # Not time.sleep, which fails under libfaketime, where wrong clocks are tried.
            threading.Event().wait(min(_POLL_S, self._options.heartbeat_s))
        self.result.wait_s += time.monotonic() - began

    def _replaces(self, trial: Trial) -> bool:
        """Whether the run in the folder is the one that the options replace, not a newer one."""
        inode = self._options.replaced.get(trial.name)
        if inode is None:
            return False
        from unbounded.experiments.run.run_lock import aside

        folder = RunFolder.of(self._runs, trial.config)
        # A process that was killed before the new run's first checkpoint left the old one aside.
        return inode_of(folder.path) == inode or (
            not folder.can_resume and inode_of(aside(folder)) == inode
        )

    def _is_busy(self, trial: Trial) -> bool:
        return time.monotonic() < self._busy_until.get(trial.name, 0.0)

    def _try(self, trial: Trial, *, retry: bool = False) -> bool:
        """Train a run if its claim can be had; whether the run is settled for this worker."""
        claim = self._claims.take(trial.name, retry=retry)
        if claim is None:
            return False
        began = time.monotonic()
        state: State = "released"
        error, is_fresh = "", False
        try:
            if claim.generation > 1:
                from unbounded.experiments.run.run_lock import free_soft_lock

                free_soft_lock(RunFolder.of(self._runs, trial.config))
            # A signal for this run alone does not stop the loop, if it is of a lost claim.
            with stop_requests() as request:
                is_fresh = self._train(trial, request)
                state = "finished"
                request.check()
        except Interrupted:
            if not self._claims.lost.is_set():
                self.result.finished += [trial.name] if state == "finished" else []
                raise
            self._say(
                f"left {trial.name}: another worker took it over, because the heartbeat of this "
                f"worker stood still for {self._options.dead_after_s:.0f} s"
            )
            return True
        except RunBusyError as busy:
            self._busy_until[trial.name] = time.monotonic() + self._options.dead_after_s / 4
            self._say(f"busy {trial.name}: {busy}")
            return False
        except Exception as failure:  # whatever a run raises must not stop the others
            if isinstance(failure, StorageError) and _is_full(failure):
                raise
            if _has_no_room(self._runs):  # libraries do not say why they cannot write
                raise StorageError(f"the disk of {self._runs} is full: {failure}") from failure
            state, error = "failed", _text(failure)
        finally:
            seconds = time.monotonic() - began
            self.result.run_s += seconds
            self._claims.end(claim, state, error=error, seconds=seconds, is_fresh=is_fresh)
        if state == "failed":
            self.result.failed.append(trial.name)
            self._say(f"FAILED {trial.name}: {error.splitlines()[-1]}")
        else:
            self.result.finished.append(trial.name)
            self._say(f"finished {trial.name} in {seconds / 60:.1f} minutes")
        return True

    def _train(self, trial: Trial, request: StopRequest) -> bool:
        """Train one run; whether it was trained here."""
        # Imported here, because these import torch, and a planner has no need of them.
        from unbounded.experiments.run.run import train_run
        from unbounded.experiments.run.run_lock import is_begun

        folder, overwrite = RunFolder.of(self._runs, trial.config), self._replaces(trial)
        with _logged(make_logs(self._runs) / f"{trial.name}.log"):
            try:
                result = train_run(
                    trial.config,
                    root=self._runs,
                    # A new run does not resume; else its log would have a notice about it.
                    resume=not overwrite and (os.path.lexists(folder) or is_begun(folder)),
                    overwrite=overwrite,
                    figures=self._options.figures,
                    log_with=self._options.log_with,
                )
                if trial.verify is not None:
                    _verify(folder, trial.verify, request)
            except Exception:
                # An exception of any kind is written to the run's own log, and the caller gets it
                # too.
                traceback.print_exc()
                raise
        return result.fresh


def _verify(folder: RunFolder, options: Mapping[str, Any], request: StopRequest) -> None:
    """Verify a finished run, unless it is."""
    from unbounded.experiments.run.verification import is_verified, verify_run
    from unbounded.verification import VerifyOptions

    if not is_verified(folder, options):
        verify_run(
            folder,
            VerifyOptions(**options),
            overwrite=True,
            look=lambda name, share: request.check(),
        )


@contextlib.contextmanager
def _limit(options: WorkOptions) -> Iterator[None]:
    """Send this process SIGUSR1 when the time limit is over, as a scheduler does."""
    if options.time_limit_s is None:
        yield
        return
    timer = threading.Timer(max(0.0, options.time_limit_s), os.kill, (os.getpid(), signal.SIGUSR1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Append what the block writes to standard output and error to a file."""
    _flush()
    kept = [os.dup(1), os.dup(2)]
    with storage_errors(path, "writing"), path.open("a", encoding="utf-8") as file:
        try:
            # The descriptors are those of libraries in C; Python's streams may be others.
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        finally:
            _flush()
            for number, descriptor in enumerate(kept, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def make_logs(runs: Path) -> Path:
    """Make the folder of logs, with that of the workers in it.

    Raises:
        StorageError: it cannot be made.
    """
    folder = runs / LOGS
    with storage_errors(folder, "making folder"):
        (folder / WORKERS).mkdir(parents=True, exist_ok=True)
    return folder


def _text(error: BaseException) -> str:
    """An error for a claim: the end of its traceback, or its message if it is expected."""
    name = type(error).__name__
    if isinstance(error, UnboundedError):
        return f"{name}: {error}"[:_LONGEST_ERROR]
    return "".join(traceback.format_exception(error)).strip()[-_LONGEST_ERROR:]


def _has_no_room(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < _LEAST_ROOM
    return False


def inode_of(path: Path) -> int | None:
    """The inode of a folder; None if it does not exist."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _is_full(error: BaseException | None) -> bool:
    """Whether an error comes of a full or read-only disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False
