"""Restarts: one config with several seeds, every one of them reported."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import ConfigError, UnboundedError
from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.scorings import Scoring, scoring_of
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.identity import model_name, run_name
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.folder import folder_of, read_report
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_lock import admit, check_begun, is_begun, lock
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.measures import Measures, measures
from unbounded.experiments.trials.pool import WORKER, run_trials
from unbounded.experiments.trials.tiers import Trial
from unbounded.experiments.trials.watching import watching
from unbounded.tasks import Task
from unbounded.training.files import json_text, storage_faults, write_text

FORMAT = "unbounded-restarts"
VERSION = 1


@dataclass(frozen=True)
class Restarts:
    """What the seeds of one config came to.

    Fields:
        folder: with restarts.json and restarts.md.
        text: the table, as in restarts.md.
        data: what restarts.json holds.
    """

    folder: Path
    text: str
    data: dict[str, Any]


def seeds_of(config: RunConfig, restarts: int) -> list[RunConfig]:
    """The config once for each seed: its own, the next one, ...

    Raises:
        ConfigError: `restarts` is below 1.
    """
    if restarts < 1:
        raise ConfigError([f"restarts: expected at least 1, got {restarts}"])
    configs = []
    for number in range(restarts):
        each = copy.deepcopy(config)
        each.seed = config.seed + number
        configs.append(each)
    return configs


def train_restarts(
    config: RunConfig,
    restarts: int,
    *,
    root: Path,
    jobs: int = 1,
    resume: bool = False,
    anew: bool = True,
    overwrite: bool = False,
    quiet: bool = False,
    log_with: Sequence[str] = (),
    task: Task | None = None,
    modules: Sequence[str] = (),
) -> Restarts | None:
    """Train a config with several seeds, one after the other or some at once, and compare them.

    Args:
        config: the first of them.
        restarts: how many, at least 1; the seeds follow that of `config`.
        root, resume, overwrite, quiet, log_with, task: as for `train_run`. With `resume`
            finished restarts are not trained again.
        anew: with `resume`, begin the restarts when none of them is there; False makes that an
            error. Those that are missing beside others are begun.
        jobs: restarts at once, each a process with one thread; 1 trains them here.
        modules: of the user's own that these processes import.
    Returns:
        What they came to; None in a process that shares the runs and is not the one to speak.
    Raises:
        ConfigError: the config has faults, or a number is out of range.
        UnboundedError: a restart failed in its process; the message names its log.
        RunExistsError: a folder is there and neither `resume` nor `overwrite` was given.
        CheckpointError: there is nothing to resume.
        Interrupted: stopped by a signal; what was trained so far is saved.
    """
    task = checked(config) if task is None else task
    configs = seeds_of(config, restarts)
    folders = [folder_of(root, own) for own in configs]
    if resume and not anew and not any(map(is_begun, folders)):
        check_begun(folders[0])
    if jobs == 1:
        reports = []
        for own in configs:
            result = train_run(
                own,
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
    for config in configs:
        config.machine.threads = 1
        folder = folder_of(root, config)
        # The same rules as for one run, before any of them begins.
        with lock(folder):
            admit(folder, resume=resume, overwrite=overwrite)
        trials.append(Trial(config.task, model_name(config.model), config))
    todo = [
        each for each in trials if overwrite or read_report(folder_of(root, each.config)) is None
    ]
    say: Callable[[str], None] = (lambda text: None) if quiet else (lambda text: print(text))
    with watching(len(trials), len(trials) - len(todo), root, say, quiet) as watch:
        outcomes = run_trials(
            todo,
            root,
            jobs,
            watch=watch.look,
            command=(*WORKER, *(["--overwrite"] if overwrite else []), *modules),
            ended=lambda outcome: watch.done(f"{outcome.trial.name}: code {outcome.exit_code}"),
        )
    failed = [f"{each.trial.name} failed; see {each.log}" for each in outcomes if each.exit_code]
    if failed:
        raise UnboundedError("\n".join(failed))
    reports = [read_report(folder_of(root, trial.config)) for trial in trials]
    return [report for report in reports if report is not None]


def report_restarts(
    configs: Sequence[RunConfig], reports: Sequence[Mapping[str, Any]], root: Path
) -> Restarts:
    """Choose the best restart by validation, and write down all of them.

    Args:
        configs: one for each seed.
        reports: of the finished runs, in the same order.
        root: the folder of the run folders; the table goes beside them.
    Raises:
        StorageError: the disk refused.
    """
    numbers = [measures(report) for report in reports]
    scoring = scoring_of(numbers[0].scoring)
    parts = [_part(own, report) for own, report in zip(numbers, reports, strict=True)]
    over, chosen_by = _over(numbers), scoring.merit
    final = numbers
    if all("rounded" in report for report in reports):
        # What is chosen among are the machines that the runs end with.
        final = [measures(report, "rounded") for report in reports]
        chosen_by = f"{chosen_by}, rounded"
        over["rounded"] = _over(final)
        for part, own, report in zip(parts, final, reports, strict=True):
            part["rounded"] = _part(own, report["rounded"])
    best = min(range(len(final)), key=lambda place: final[place].merit)
    data = {
        "format": FORMAT,
        "version": VERSION,
        "task": configs[0].task,
        "config": to_dict(configs[0]),
        "chosen_by": chosen_by,
        "best": run_name(configs[best]),
        "restarts": [
            {"run": run_name(config), "seed": config.seed, **part}
            for config, part in zip(configs, parts, strict=True)
        ],
        **over,
        **provenance(),
    }
    text = restarts_table(data, scoring)
    folder = root / f"{run_name(configs[0]).rpartition('-seed')[0]}-restarts"
    with storage_faults(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "restarts.json", json_text(data, indent=2) + "\n")
    write_text(folder / "restarts.md", text + "\n")
    return Restarts(folder, text, data)


def _part(numbers: Measures, report: Mapping[str, Any]) -> dict[str, Any]:
    """What one phase of a restart came to."""
    ends = {name: report[name] for name in ("batches", "minutes", "stopped")}
    return {"merit": numbers.merit, "success": numbers.success, **numbers.values, **ends}


def _over(runs: Sequence[Measures]) -> dict[str, Any]:
    """What one phase of all restarts came to; a column that no report has is null."""
    values = {
        name: [number for run in runs if (number := run.values[name]) is not None]
        for name in runs[0].values
    }
    return {
        what: {name: function(own) if own else None for name, own in values.items()}
        for what, function in (("median", median), ("least", min), ("greatest", max))
    } | {"successes": sum(run.success is True for run in runs)}


def restarts_table(data: Mapping[str, Any], scoring: Scoring) -> str:
    """Every restart, then the best, the median and the spread; after rounding too, if it was done.

    Args:
        data: what restarts.json holds.
        scoring: of the task.
    """
    columns = scoring.columns
    labels = {"": data, ", rounded": data["rounded"]} if "rounded" in data else {"": data}
    names = [f"{name}{label}" for label in labels for name in columns]
    lines = []
    for restart in data["restarts"]:
        parts = [restart, restart["rounded"]] if "rounded" in restart else [restart]
        numbers = [_text(part[name], digits) for part in parts for name, digits in columns.items()]
        mark = " (best)" if restart["run"] == data["best"] else ""
        merit = f"{parts[-1]['merit']:.4g}"
        # What a later phase cost comes on top of the training before it.
        batches, minutes = (sum(part[name] for part in parts) for name in ("batches", "minutes"))
        seed, ended = f"{restart['seed']}{mark}", parts[-1]["stopped"]
        lines.append([seed, merit, *numbers, str(batches), f"{minutes:.1f}", ended])
    over = []
    for label, part in labels.items():
        for name, digits in columns.items():
            middle, low, high = (
                _text(part[what][name], digits) for what in ("median", "least", "greatest")
            )
            over.append(f"{name}{label}: median {middle}, from {low} to {high}")
        if scoring.success:
            over.append(f"{scoring.success}{label}: {part['successes']} of {len(lines)}")
    text = f"{data['task']}, {len(lines)} restarts, the best by {data['chosen_by']}: {data['best']}"
    header = ["seed", data["chosen_by"], *names, "batches", "minutes", "ended"]
    return "\n\n".join([text, grid(header, lines, lined_up=True), "; ".join(over)])


def _text(number: float | None, digits: int) -> str:
    return "–" if number is None else f"{number:.{digits}f}"
