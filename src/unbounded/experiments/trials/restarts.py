"""Train one config with several seeds."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unbounded.errors import ConfigError, UnboundedError
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.data_check import check_data
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.run_lock import admit, is_begun, lock
from unbounded.experiments.trials.pool import WORKER, Outcome, run_trials
from unbounded.experiments.trials.restarts_report import Restarts, report_restarts
from unbounded.experiments.trials.studies import Trial
from unbounded.experiments.trials.time_left import RunMinutes, TimeLeft, finished_minutes
from unbounded.experiments.trials.watching import watching
from unbounded.tasks import Task


def seeds_of(config: RunConfig, restarts: int) -> list[RunConfig]:
    """Copies of the config with consecutive seeds, starting at its seed.

    Raises:
        ConfigError: `restarts` is below 1.
    """
    if restarts < 1:
        raise ConfigError([f"restarts: expected at least 1, got {restarts}"])
    configs = []
    for number in range(restarts):
        restart = copy.deepcopy(config)
        restart.seed = config.seed + number
        if config.id is not None:
            restart.id = f"{config.id}-seed{restart.seed}"
        configs.append(restart)
    return configs


def train_restarts(
    config: RunConfig,
    restarts: int,
    *,
    root: Path,
    jobs: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    log_with: Sequence[str] = (),
    task: Task | None = None,
    modules: Sequence[str] = (),
) -> Restarts | None:
    """Train a config with several seeds, sequentially or concurrently, and compare the results.

    Args:
        config: the config of the first restart.
        restarts: number of restarts, at least 1, with consecutive seeds.
        root, resume, overwrite, quiet, log_with, task: as for `train_run`. With `resume`,
            finished restarts are not trained again, and missing ones are started.
        jobs: concurrent restarts, each a process with one thread; 1 trains in this process.
        modules: modules of custom components that these processes import.
    Returns:
        The results; None in a process that shares the runs and does not print.
    Raises:
        ConfigError: the config has errors, or a number is out of range.
        UnboundedError: a restart failed in its process; the message names its log.
        RunExistsError: a folder exists and neither `resume` nor `overwrite` is set.
        Interrupted: a signal stopped the training, which is saved.
    """
    task = checked(config) if task is None else task
    configs = seeds_of(config, restarts)
    folders = [RunFolder.of(root, restart) for restart in configs]
    if resume and not overwrite:
        for folder, restart in zip(folders, configs, strict=True):
            check_data(folder, restart, task)
    if jobs == 1:
        reports = []
        for restart in configs:
            result = train_run(
                restart,
                root=root,
                resume=resume,
                overwrite=overwrite,
                quiet=quiet,
                log_with=log_with,
                task=task,
            )
            if not result.first:
                return None
            reports.append(result.report)
    else:
        reports = _in_processes(configs, root, jobs, resume, overwrite, quiet, modules)
    return report_restarts(configs, reports, root)


def _in_processes(
    configs: Sequence[RunConfig],
    root: Path,
    jobs: int,
    resume: bool,
    overwrite: bool,
    quiet: bool,
    modules: Sequence[str],
) -> list[dict[str, Any]]:
    trials = []
    absent = [folder for config in configs if not is_begun(folder := RunFolder.of(root, config))]
    if resume and absent:
        print(f"there is no run to resume: starting {', '.join(map(str, absent))}", file=sys.stderr)
    for config in configs:
        config.hardware.threads = 1
        folder = RunFolder.of(root, config)
        # Apply the rules of a single run before any of them starts.
        with lock(folder):
            admit(folder, resume=resume, overwrite=overwrite)
        trials.append(Trial(config.task["name"], model_name(config.model), config))
    todo = [
        trial for trial in trials if overwrite or RunFolder.of(root, trial.config).report() is None
    ]
    say: Callable[[str], None] = (lambda text: None) if quiet else (lambda text: print(text))
    left = TimeLeft(todo, jobs, RunMinutes(trials, finished_minutes(trials, root)), root)
    with watching(len(trials), len(trials) - len(todo), root, say, left, quiet) as watch:

        def ended(outcome: Outcome) -> None:
            left.ended(outcome.trial, outcome.seconds / 60, outcome.exit_code == 0)
            watch.done(f"{outcome.trial.name}: code {outcome.exit_code}")

        outcomes = run_trials(
            todo,
            root,
            jobs,
            watch=watch.look,
            command=(*WORKER, *(["--overwrite"] if overwrite else []), *modules),
            ended=ended,
        )
    failed = [f"{out.trial.name} failed; see {out.log}" for out in outcomes if out.exit_code]
    if failed:
        raise UnboundedError("\n".join(failed))
    reports = [RunFolder.of(root, trial.config).report() for trial in trials]
    return [report for report in reports if report is not None]
