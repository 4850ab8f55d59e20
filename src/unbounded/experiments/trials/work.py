"""The loop of a worker: claim the next free run, train it, and record how it ended.

All executors start workers with this loop: the process pool, shards, SLURM and Ray. A worker trains
run after run in one process, so that torch is imported once.
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
from unbounded.experiments.trials.trial import Trial
from unbounded.files import storage_errors, write_text
from unbounded.signals import Interrupted, StopRequest, stop_requests

#: Exit code of a worker that stopped before its work was done (EX_TEMPFAIL). The same command
#: continues this work.
EXIT_CONTINUE: Final = 75
#: Exit code of a worker if one of its runs failed.
EXIT_FAILED: Final = 1
#: Folder for logs, in the folder of runs.
LOGS: Final = "logs"
#: SLURM's variables for the number of an array element, and the least and greatest number.
_ARRAY: Final = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
#: Folder for logs and notes of the workers, in the folder for logs.
WORKERS: Final = "workers"
#: Seconds between two checks of the runs of other workers.
_POLL_S: Final = 1.0
_LONGEST_ERROR: Final = 4000
#: A disk with fewer free bytes counts as full.
_LEAST_ROOM: Final = 100_000
#: Disk errors that would make every further run fail.
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
        """Parse a shard such as "3/16".

        Raises:
            ConfigError: the text is no shard.
        """
        number, slash, total = text.partition("/")
        if slash and number.isdigit() and total.isdigit() and 1 <= int(number) <= int(total):
            return cls(int(number), int(total))
        raise ConfigError(f"shard: expected a part of the plan such as 3/16, got {text!r}")

    @classmethod
    def of_job(cls) -> Self:
        """The shard of this element of a SLURM array; the full plan outside an array.

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
            raise ConfigError(f"shard: expected numbers, got {given}; give --shard") from error
        return cls(number - low + 1, high - low + 1)

    def order(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials, with the trials of this part first."""
        first = self.number - 1
        own = [trial for place, trial in enumerate(trials) if place % self.total == first]
        others = [trial for place, trial in enumerate(trials) if place % self.total != first]
        # Continue with the next part, so that workers that help others spread over all parts.
        start = first * len(others) // self.total
        return [*own, *others[start:], *others[:start]]


@dataclass(frozen=True)
class WorkOptions:
    """The options of a worker, as plain data that can be sent to another process.

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
        """Parse options from text."""
        data: dict[str, Any] = json.loads(text)
        data["shard"] = Shard(*data["shard"])
        for name in ("modules", "log_with"):
            data[name] = tuple(data[name])
        return cls(**data)


@dataclass
class WorkResult:
    """The results of a worker.

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
    """Train runs that no other worker has claimed, until no such run is left.

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
    # Losing a claim stops the run, as a signal does.
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
    """Whether a run has its report, and its verification if the trial requires one."""
    folder = RunFolder.of(runs, trial.config)
    if not folder.is_finished:
        return False
    if trial.verify is None:
        return True
    from unbounded.experiments.run.verification import is_verified

    return is_verified(folder, trial.verify)


class _Worker:
    """The state of a worker's loop."""

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
        # Runs that a process without a claim trains, and the time of the next attempt.
        self._busy_until: dict[str, float] = {}
        self.result = WorkResult()

    def work(self, trials: Sequence[Trial]) -> None:
        """Try the trials in order; then watch trials of other workers until each has an outcome."""
        claims, options = self._claims, self._options
        if options.isolated:
            total = options.shard.total
            trials = trials[: (len(trials) + total - options.shard.number) // total]
        claims.look()
        records = {trial.name: claims.record(trial.name) for trial in trials}
        # Try runs again whose reports were deleted, and runs that failed earlier.
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
                if time.monotonic() < self._busy_until.get(trial.name, 0.0):
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
                break  # such a run is busy, and its own process will finish it
            others = left
            self.result.elsewhere = len(others)
            if not undecided:
                break
            # time.sleep would fail under libfaketime, with which tests simulate wrong clocks.
            threading.Event().wait(min(_POLL_S, self._options.heartbeat_s))
        self.result.wait_s += time.monotonic() - began

    def _replaces(self, trial: Trial) -> bool:
        """Whether the run in the folder is the run to be replaced, and not a newer run."""
        inode = self._options.replaced.get(trial.name)
        if inode is None:
            return False
        from unbounded.experiments.run.run_lock import aside

        folder = RunFolder.of(self._runs, trial.config)
        # A process killed before the new run's first checkpoint leaves the old run in `aside`.
        return inode_of(folder.path) == inode or (
            not folder.can_resume and inode_of(aside(folder)) == inode
        )

    def _try(self, trial: Trial, *, retry: bool = False) -> bool:
        """Claim and train a run. Return whether this worker is done with the run."""
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
            # A signal because of a lost claim stops only this run, not the loop.
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
        except Exception as failure:  # an error in one run must not stop the others
            if isinstance(failure, StorageError) and _is_full(failure):
                raise
            if _has_no_room(self._runs):  # libraries do not report why writing failed
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
        """Train one run. Return whether this call trained it."""
        # Imported here, because these modules import torch, which a planner does not need.
        from unbounded.experiments.run.run import train_run
        from unbounded.experiments.run.run_lock import is_begun

        folder, overwrite = RunFolder.of(self._runs, trial.config), self._replaces(trial)
        with _logged(make_logs(self._runs) / f"{trial.name}.log"):
            try:
                result = train_run(
                    trial.config,
                    root=self._runs,
                    # A new run does not resume, because resuming writes a notice into the log.
                    resume=not overwrite and (os.path.lexists(folder) or is_begun(folder)),
                    overwrite=overwrite,
                    figures=self._options.figures,
                    log_with=self._options.log_with,
                )
                if trial.verify is not None:
                    _verify(folder, trial.verify, request)
            except Exception:
                # Any exception is written to the run's own log and passed on to the caller.
                traceback.print_exc()
                raise
        return result.fresh


def _verify(folder: RunFolder, options: Mapping[str, Any], request: StopRequest) -> None:
    """Verify a finished run, unless it is verified."""
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
    """At the time limit, send SIGUSR1 to this process, as a scheduler does."""
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
    """Redirect standard output and error of the block, and append both to a file."""
    _flush()
    kept = [os.dup(1), os.dup(2)]
    with storage_errors(path, "writing"), path.open("a", encoding="utf-8") as file:
        try:
            # C libraries write to the file descriptors, but Python's streams may be other files.
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
    """Make the folder for logs, and in it the folder for the workers' logs.

    Raises:
        StorageError: it cannot be made.
    """
    folder = runs / LOGS
    with storage_errors(folder, "making folder"):
        (folder / WORKERS).mkdir(parents=True, exist_ok=True)
    return folder


def _text(error: BaseException) -> str:
    """The text of an error for a claim: its message if expected, otherwise the traceback's end."""
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
    """Whether a full or read-only disk caused an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False
