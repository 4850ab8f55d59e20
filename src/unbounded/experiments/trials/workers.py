"""A pool of worker processes on this computer, and a view of all workers of a plan."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from unbounded.errors import StorageError
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.run_lock import make_runs
from unbounded.experiments.trials.claims import newest_claims
from unbounded.experiments.trials.plan_file import write_plan
from unbounded.experiments.trials.trial import Outcome, Trial
from unbounded.experiments.trials.work import (
    EXIT_CONTINUE,
    EXIT_FAILED,
    LOGS,
    WORKERS,
    Shard,
    WorkOptions,
    inode_of,
    make_logs,
    run_is_finished,
)
from unbounded.files import storage_errors
from unbounded.signals import Interrupted, stop_requests

#: -P prevents imports from the current folder, where a file may shadow a standard module;
#: PYTHONPATH still applies.
WORKER: Final = (sys.executable, "-P", "-m", "unbounded.experiments.trials.study_worker")
#: Exit codes after which a worker is not started again.
_ENDED: Final = (0, EXIT_FAILED, EXIT_CONTINUE, 130)
_POLL_S: Final = 0.3
#: Time to finish a batch and a validation of 1000 sequences, and to write a checkpoint.
_GRACE_S: Final = 120.0
#: Number of workers that may die in a row without a finished run between them.
_MOST_RESTARTS: Final = 8


class PlanWatch:
    """Follows the runs of a plan by their claims, no matter which worker trains them.

    Args:
        trials: the runs, one trial each.
        runs: the folder of the run folders.
        retry: whether earlier failures are tried again, so that they do not count as ended.
        replaced: names of finished runs that are trained again.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        runs: Path,
        *,
        retry: bool = False,
        replaced: Collection[str] = (),
    ) -> None:
        self._runs = runs
        waiting = [
            trial for trial in trials if trial.name in replaced or not run_is_finished(trial, runs)
        ]
        self._waiting = {trial.name: trial for trial in waiting}
        before = newest_claims(runs, self._waiting)
        self._before = {
            name: record
            for name, record in before.items()
            if record.state == "finished" or (retry and record.state == "failed")
        }
        self.finished = len(trials) - len(waiting)
        self.outcomes: list[Outcome] = []

    @property
    def waiting(self) -> list[Trial]:
        """The runs that have not ended."""
        return list(self._waiting.values())

    def look(self) -> tuple[list[Trial], list[Outcome]]:
        """The runs in progress, and the runs that have ended since the last call."""
        running: list[Trial] = []
        ended: list[Outcome] = []
        for name, record in newest_claims(self._runs, self._waiting).items():
            trial = self._waiting[name]
            if record == self._before.get(name):
                continue
            if record.state == "running":
                running.append(trial)
            elif record.state != "released":
                log = self._runs / LOGS / f"{name}.log"
                code = 0 if record.state == "finished" else EXIT_FAILED
                ended.append(Outcome(trial, code, log, record.seconds))
        for outcome in ended:
            del self._waiting[outcome.trial.name]
        self.outcomes += ended
        return running, ended


@dataclass
class _Process:
    number: int
    process: subprocess.Popen[bytes]
    log: Path


def run_workers(
    plan: Path,
    watched: PlanWatch,
    runs: Path,
    jobs: int,
    options: WorkOptions,
    *,
    watch: Callable[[list[Trial]], None],
    ended: Callable[[Outcome], None],
    gpus: Sequence[str] = (),
    command: Sequence[str] = WORKER,
) -> list[Outcome]:
    """Work on a plan with several single-threaded processes. A failed run does not stop others.

    A worker that dies is started again. A run whose workers died three times is abandoned.

    Args:
        plan: the plan's file.
        watched: follows the runs.
        runs: folder of the run folders; logs go to `runs/logs`.
        jobs: number of processes.
        options: of the workers.
        watch: called with the running trials, a few times a second.
        ended: called with each run that ended, here or elsewhere.
        gpus: devices to share among the processes, as in CUDA_VISIBLE_DEVICES; none for one or no
            device.
        command: command of a worker.
    Returns:
        How the runs ended, in order.
    Raises:
        Interrupted: Ctrl-C, SIGTERM or the time limit; every run was asked to save and has ended.
        StorageError: the disk is full, or `runs` cannot be written.
    """
    make_runs(runs)
    make_logs(runs)

    began = time.monotonic()

    def start(number: int) -> _Process:
        limit = options.time_limit_s
        rest = None if limit is None else limit - (time.monotonic() - began)
        own = replace(options, shard=Shard(number + 1, jobs), time_limit_s=rest)
        return _start(own, number, plan, runs, gpus, command)

    def look() -> None:
        running, over = watched.look()
        for outcome in over:
            ended(outcome)
        watch(running)

    processes: list[_Process] = []
    restarts, had = 0, 0
    with stop_requests() as request:
        try:
            # More processes than runs would have no work.
            processes += [start(n) for n in range(min(jobs, len(watched.waiting)))]
            while processes:
                request.check()
                for worker in [own for own in processes if own.process.poll() is not None]:
                    processes.remove(worker)
                    code = worker.process.returncode
                    if code in (EXIT_CONTINUE, 130):
                        raise Interrupted(signal.SIGUSR1)
                    if code == 2:
                        raise StorageError(_last_line(worker.log))
                    look()
                    restarts = restarts + 1 if len(watched.outcomes) == had else 0
                    had = len(watched.outcomes)
                    if code not in _ENDED and watched.waiting and restarts < _MOST_RESTARTS:
                        processes.append(start(worker.number))
                look()
                time.sleep(_POLL_S)
        except BaseException:
            _stop(processes)
            raise
    look()
    return watched.outcomes


def train_trials(
    trials: Sequence[Trial],
    runs: Path,
    jobs: int,
    *,
    watch: Callable[[list[Trial]], None],
    ended: Callable[[Outcome], None],
    modules: Sequence[str] = (),
    overwrite: bool = False,
) -> list[Outcome]:
    """Train trials in a pool that other workers may join, as `run_workers` does.

    Runs that failed earlier are tried again, and each run draws its figures.

    Args:
        trials: the trials, in the order of their start.
        runs: folder of the run folders.
        jobs: number of concurrent runs.
        watch, ended: as for `run_workers`.
        modules: modules of custom components that the workers import.
        overwrite: whether to replace the runs that exist.
    Returns:
        How the runs ended, in order.
    Raises:
        Interrupted, StorageError: as for `run_workers`.
    """
    if not trials:
        return []
    make_runs(runs)
    plan = plan_of(trials, runs)
    inodes = {}
    if overwrite:
        found = {trial.name: inode_of(RunFolder.of(runs, trial.config).path) for trial in trials}
        inodes = {name: inode for name, inode in found.items() if inode is not None}
    options = WorkOptions(retry=True, figures=True, modules=tuple(modules), replaced=inodes)
    watched = PlanWatch(trials, runs, retry=True, replaced=inodes)
    return run_workers(
        plan, watched, runs, jobs, options, watch=watch, ended=ended, gpus=visible_gpus()
    )


def plan_of(trials: Sequence[Trial], runs: Path) -> Path:
    """Write the plan of some trials into the folder of runs. Equal plans share a file.

    Raises:
        StorageError: the file cannot be written.
    """
    names = "\n".join(trial.name for trial in trials)
    digest = hashlib.sha256(names.encode()).hexdigest()[:12]
    path = make_logs(runs) / WORKERS / f"plan-{digest}.jsonl"
    write_plan(path, trials)
    return path


def visible_gpus() -> tuple[str, ...]:
    """The CUDA devices as CUDA_VISIBLE_DEVICES names them; empty unless there are several."""
    import torch

    count = torch.cuda.device_count()
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if count < 2:
        return ()
    return tuple(named[:count]) if named else tuple(str(number) for number in range(count))


def _start(
    options: WorkOptions,
    number: int,
    plan: Path,
    runs: Path,
    gpus: Sequence[str],
    command: Sequence[str],
) -> _Process:
    # Torch's libraries read these sizes of their thread pools when they are loaded.
    environment: Mapping[str, str] = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if gpus:
        environment = {**environment, "CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]}
    log = runs / LOGS / WORKERS / f"{number + 1}.log"
    with storage_errors(log, "writing"), log.open("ab") as stream:
        process = subprocess.Popen(
            [*command, options.to_json(), str(plan), str(runs), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            # Ctrl-C then reaches only this process, which asks each worker to stop once.
            start_new_session=True,
        )
    return _Process(number, process, log)


def _stop(processes: Sequence[_Process]) -> None:
    """Ask every worker to save and end; kill workers that exceed the grace period."""
    for worker in processes:
        worker.process.terminate()
    limit = time.monotonic() + _GRACE_S
    for worker in processes:
        try:
            worker.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].partition(": ")[2] if lines else "a worker failed"
