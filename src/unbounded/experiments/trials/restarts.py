"""Train one config with several seeds."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import ConfigError, UnboundedError
from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.evaluation.provenance import provenance
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.identity import model_name, run_name
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.data_check import check_data
from unbounded.experiments.run.numerics import device_of, matmul_precision
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.run_lock import admit, is_begun, lock
from unbounded.experiments.tables.markdown import grid, number_cell
from unbounded.experiments.tables.measures import Measures, measures
from unbounded.experiments.trials.time_left import RunMinutes, TimeLeft, finished_minutes
from unbounded.experiments.trials.trial import Outcome, Trial
from unbounded.experiments.trials.watching import watching
from unbounded.experiments.trials.workers import train_trials
from unbounded.files import json_text, make_folder, write_text
from unbounded.tasks import Task
from unbounded.training.hooks.stopping import SOLVED

FORMAT = "unbounded-restarts"
VERSION = 1


@dataclass(frozen=True)
class Restarts:
    """The results of one config with several seeds.

    Fields:
        folder: folder of restarts.json and restarts.md.
        text: the table, as in restarts.md.
        data: the data of restarts.json.
    """

    folder: Path
    text: str
    data: dict[str, Any]


def report_restarts(
    configs: Sequence[RunConfig], reports: Sequence[Mapping[str, Any]], root: Path
) -> Restarts:
    """Choose the best restart by its selection metric, never by test data. Report all restarts.

    Args:
        configs: one config per seed.
        reports: the reports of the finished runs, in the same order.
        root: the folder of the run folders; it also gets the table's folder, one per first seed.
    Raises:
        StorageError: a file cannot be written.
    """
    numbers = [measures(report) for report in reports]
    metric_set = metric_set_of(numbers[0].metric_set)
    parts = [_part(result, report) for result, report in zip(numbers, reports, strict=True)]
    over, chosen_by = _over(numbers), metric_set.selection_metric
    final = numbers
    if all("hardened" in report for report in reports):
        # Choose among the hardened models, the final result of the runs.
        final = [measures(report, "hardened") for report in reports]
        chosen_by = f"{chosen_by}, hardened"
        over["hardened"] = _over(final)
        for part, result, report in zip(parts, final, reports, strict=True):
            part["hardened"] = _part(result, report["hardened"])
    measured = [
        place for place, result in enumerate(final) if math.isfinite(result.selection_metric)
    ]
    best = min(measured, key=lambda place: final[place].selection_metric) if measured else None
    with matmul_precision(configs[0].hardware.matmul_precision):
        origin = provenance(device_of(configs[0]))
    data = {
        "format": FORMAT,
        "version": VERSION,
        "task": configs[0].task["name"],
        "config": to_dict(configs[0]),
        "chosen_by": chosen_by,
        "best": None if best is None else run_name(configs[best]),
        "restarts": [
            {"run": run_name(config), "seed": config.seed, **part}
            for config, part in zip(configs, parts, strict=True)
        ],
        **over,
        **origin,
    }
    text = restarts_table(data, metric_set)
    first = run_name(configs[0])
    if configs[0].seed == RunConfig().seed:
        first = first.rpartition("-seed")[0]
    folder = root / f"{first}-restarts"
    make_folder(folder)
    write_text(folder / "restarts.json", json_text(data, indent=2) + "\n")
    write_text(folder / "restarts.md", text + "\n")
    return Restarts(folder, text, data)


def _part(numbers: Measures, report: Mapping[str, Any]) -> dict[str, Any]:
    """The results of one phase of a restart."""
    ends = {name: report[name] for name in ("batches", "minutes", "stopped")}
    return {
        "selection_metric": numbers.selection_metric,
        "success": numbers.success,
        **numbers.values,
        **ends,
    }


def _over(runs: Sequence[Measures]) -> dict[str, Any]:
    """Statistics of one phase over all restarts. A column that no report has is null."""
    values = {
        name: [number for run in runs if (number := run.values[name]) is not None]
        for name in runs[0].values
    }
    return {
        what: {name: function(column) if column else None for name, column in values.items()}
        for what, function in (("median", median), ("least", min), ("greatest", max))
    } | {"successes": sum(run.success is True for run in runs)}


def restarts_table(data: Mapping[str, Any], metric_set: MetricSet) -> str:
    """The table of all restarts, with best, median and spread, also of the hardened models.

    Args:
        data: the data of restarts.json.
        metric_set: the task's metric set.
    """
    columns = metric_set.columns
    labels = {"": data, ", hardened": data["hardened"]} if "hardened" in data else {"": data}
    names = [f"{name}{label}" for label in labels for name in columns]
    lines = []
    for restart in data["restarts"]:
        parts = [restart, restart["hardened"]] if "hardened" in restart else [restart]
        numbers = [
            number_cell(part[name], digits) for part in parts for name, digits in columns.items()
        ]
        mark = " (best)" if restart["run"] == data["best"] else ""
        selection_metric = (
            f"{parts[-1]['selection_metric']:.4g}"
            if math.isfinite(parts[-1]["selection_metric"])
            else "–"
        )
        # The batches and minutes of the phases add up.
        batches, minutes = (sum(part[name] for part in parts) for name in ("batches", "minutes"))
        seed, ended = f"{restart['seed']}{mark}", parts[-1]["stopped"]
        lines.append([seed, selection_metric, *numbers, str(batches), f"{minutes:.1f}", ended])
    over = []
    for label, part in labels.items():
        for name, digits in columns.items():
            middle, low, high = (
                number_cell(part[what][name], digits) for what in ("median", "least", "greatest")
            )
            over.append(f"{name}{label}: median {middle}, from {low} to {high}")
        if metric_set.success:
            over.append(f"{metric_set.success}{label}: {part['successes']} of {len(lines)}")
    best = (
        data["best"] or "none: no restart has a value (its budget is below training.report_every)"
    )
    text = f"{data['task']}, {len(lines)} restarts, the best by {data['chosen_by']}: {best}"
    header = ["seed", data["chosen_by"], *names, "batches", "minutes", "ended"]
    return "\n\n".join([text, grid(header, lines, lined_up=True), "; ".join(over)])


def seeds_of(config: RunConfig, restarts: int) -> list[RunConfig]:
    """Copies of the config with consecutive seeds, starting at its seed.

    Raises:
        ConfigError: `restarts` is below 1.
    """
    if restarts < 1:
        raise ConfigError(f"restarts: expected at least 1, got {restarts}")
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
    until_solved: bool = False,
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
        until_solved: end with the first restart whose stop rule says that the task is solved. The
            rule looks at validation sequences. Only for sequential restarts.
        modules: modules of custom components that these processes import.
    Returns:
        The results; None in a process that shares the runs and does not print.
    Raises:
        ConfigError: the config has errors, a number is out of range, or `until_solved` is set for
            concurrent restarts.
        UnboundedError: a restart failed in its process; the message names its log.
        RunExistsError: a folder exists and neither `resume` nor `overwrite` is set.
        Interrupted: a signal stopped the training, which is saved.
    """
    if until_solved and jobs > 1:
        raise ConfigError("until_solved: concurrent restarts cannot end early; give --jobs 1")
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
            if until_solved and result.report["stopped"].startswith(SOLVED):
                configs = configs[: len(reports)]
                break
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
        # Check the rules of a single run before any restart begins.
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
            watch.ended(outcome, f"{outcome.trial.name}: code {outcome.exit_code}")

        outcomes = train_trials(
            todo,
            root,
            jobs,
            watch=watch.look,
            ended=ended,
            modules=modules,
            overwrite=overwrite,
        )
    failed = [f"{out.trial.name} failed; see {out.log}" for out in outcomes if out.exit_code]
    if failed:
        raise UnboundedError("\n".join(failed))
    reports = {trial.name: RunFolder.of(root, trial.config).report() for trial in trials}
    if missing := [name for name, report in reports.items() if report is None]:
        raise UnboundedError(
            f"no report of {', '.join(missing)}: other processes train these runs. Give --resume "
            "when they have ended"
        )
    return [report for report in reports.values() if report is not None]
