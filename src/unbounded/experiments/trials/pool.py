"""Several trials at once, each in a process of its own, so that one that dies takes none along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.config.steady import steady
from unbounded.experiments.run.run_lock import make_runs
from unbounded.experiments.trials.tiers import Trial
from unbounded.files import storage_faults, write_text
from unbounded.training.signals import stop_requests

#: Trains the config in the file named by the first argument, under the folder named by the second.
#: -P: nothing is imported from the current folder, where a file may have the name of a module of
#: Python's; PYTHONPATH counts.
WORKER = (sys.executable, "-P", "-m", "unbounded.experiments.trials.worker")

_LOOK_S = 0.2
# Long enough to end a batch and a look at 1000 sequences, and to write a checkpoint.
_GRACE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Fields:
        trial: which one.
        exit_code: of its process; 0 when the run is finished.
        log: file with everything it printed.
        seconds: wall clock.
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
    """Train trials, `jobs` at a time, each with one thread; a failure leaves the others alone.

    Args:
        trials: in the order they are begun.
        runs: folder of the run folders; logs go to `runs/logs`.
        jobs: processes at once.
        watch: told which trials are running, a few times a second.
        ended: told each outcome when it comes.
        command: starts the process of a trial; the checkpoints that it keeps, whether it is
            verified, a config file and `runs` are added to it.
    Returns:
        The outcomes in the order they came.
    Raises:
        Interrupted: Ctrl-C or SIGTERM came; every trial has been asked to save and has ended.
        StorageError: `runs` cannot be written.
    """
    waiting = list(trials)
    running: list[_Running] = []
    outcomes: list[Outcome] = []
    with stop_requests() as request:
        try:
            while waiting or running:
                request.check()
                while len(running) < jobs and (trial := _next(waiting, running)) is not None:
                    running.append(_start(trial, runs, command))
                for each in [each for each in running if each.process.poll() is not None]:
                    running.remove(each)
                    outcomes.append(_outcome(each))
                    ended(outcomes[-1])
                watch([each.trial for each in running])
                time.sleep(_LOOK_S)
        except BaseException:
            _stop(running)
            raise
    return outcomes


def _next(waiting: list[Trial], running: Sequence[_Running]) -> Trial | None:
    """Take the first trial that begins as none does that is still to come or running."""
    busy = {trial.name for trial in (*waiting, *(each.trial for each in running))}
    for place, trial in enumerate(waiting):
        other = steady(trial.config)
        if other is None or run_name(other) not in busy:
            return waiting.pop(place)
    return None


def _start(trial: Trial, runs: Path, command: Sequence[str]) -> _Running:
    make_runs(runs)
    logs = runs / "logs"
    with storage_faults(logs, "making folder"):
        logs.mkdir(exist_ok=True)
    config = logs / f"{trial.name}.json"
    write_text(config, json.dumps(to_dict(trial.config)))
    log = logs / f"{trial.name}.log"
    verify = [] if trial.verify is None else [f"--verify={json.dumps(dict(trial.verify))}"]
    keep = [f"--keep={batch}" for batch in trial.keep_at]
    # Libraries that torch brings along size their thread pools by these when they are loaded.
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [*command, *keep, *verify, str(config), str(runs)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **one_thread},
            # Ctrl-C reaches this process only, which then asks each trial once.
            start_new_session=True,
        )
    return _Running(trial, process, log, time.monotonic())


def _outcome(each: _Running) -> Outcome:
    seconds = time.monotonic() - each.started
    return Outcome(each.trial, each.process.returncode, each.log, seconds)


def _stop(running: list[_Running]) -> None:
    """Ask every trial to save and end; end those that do not within the time of grace."""
    for each in running:
        each.process.terminate()
    limit = time.monotonic() + _GRACE_S
    for each in running:
        try:
            each.process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()
            each.process.wait()
