"""Run several trials at once, each in a separate process, so that a crash affects only one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run.run_lock import make_runs
from unbounded.experiments.trials.studies import Trial
from unbounded.files import storage_errors, write_text
from unbounded.training.signals import stop_requests

#: Trains the config in the file of the first argument, under the folder of the second.
#: -P prevents imports from the current folder, where a file may shadow a standard module;
#: PYTHONPATH still applies.
WORKER = (sys.executable, "-P", "-m", "unbounded.experiments.trials.worker")

_POLL_S = 0.2
# Long enough to finish a batch and a validation of 1000 sequences, and to write a checkpoint.
_GRACE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Fields:
        trial: the trial.
        exit_code: exit code of its process; 0 if the run is finished.
        log: file with its output.
        seconds: wall-clock time.
    """

    trial: Trial
    exit_code: int
    log: Path
    seconds: float


@dataclass
class _Running:
    trial: Trial
    process: subprocess.Popen[bytes]
    log: Path
    started: float


def run_trials(
    trials: Iterable[Trial],
    runs: Path,
    jobs: int,
    *,
    watch: Callable[[list[Trial]], None],
    ended: Callable[[Outcome], None],
    command: Sequence[str] = WORKER,
) -> list[Outcome]:
    """Train trials, `jobs` at a time, each with one thread; a failure does not stop the others.

    Args:
        trials: the trials, in the order of their start.
        runs: folder of the run folders; logs go to `runs/logs`.
        jobs: number of concurrent processes.
        watch: called with the running trials, a few times a second.
        ended: called with each outcome.
        command: command of a trial's process. Verification options, a config file and `runs` are
            appended.
    Returns:
        The outcomes in the order of completion.
    Raises:
        Interrupted: Ctrl-C or SIGTERM; every trial was asked to save and has ended.
        StorageError: `runs` cannot be written.
    """
    waiting = list(trials)
    running: list[_Running] = []
    outcomes: list[Outcome] = []
    with stop_requests() as request:
        try:
            while waiting or running:
                request.check()
                while waiting and len(running) < jobs:
                    running.append(_start(waiting.pop(0), runs, command))
                for done in [job for job in running if job.process.poll() is not None]:
                    running.remove(done)
                    outcomes.append(_outcome(done))
                    ended(outcomes[-1])
                watch([job.trial for job in running])
                time.sleep(_POLL_S)
        except BaseException:
            _stop(running)
            raise
    return outcomes


def _start(trial: Trial, runs: Path, command: Sequence[str]) -> _Running:
    make_runs(runs)
    logs = runs / "logs"
    with storage_errors(logs, "making folder"):
        logs.mkdir(exist_ok=True)
    config = logs / f"{trial.name}.json"
    write_text(config, json.dumps(to_dict(trial.config)))
    log = logs / f"{trial.name}.log"
    verify = [] if trial.verify is None else [f"--verify={json.dumps(dict(trial.verify))}"]
    # Libraries of torch read these sizes of their thread pools when loaded.
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [*command, *verify, str(config), str(runs)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **one_thread},
            # Ctrl-C then reaches only this process, which asks each trial once.
            start_new_session=True,
        )
    return _Running(trial, process, log, time.monotonic())


def _outcome(job: _Running) -> Outcome:
    seconds = time.monotonic() - job.started
    return Outcome(job.trial, job.process.returncode, job.log, seconds)


def _stop(running: list[_Running]) -> None:
    """Ask every trial to save and end; kill those that exceed the grace period."""
    for job in running:
        job.process.terminate()
    limit = time.monotonic() + _GRACE_S
    for job in running:
        try:
            job.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
