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
from unbounded.experiments.build import checked
from unbounded.experiments.claim import admit, check_begun, is_begun, lock
from unbounded.experiments.config import RunConfig, model_name, run_name, to_dict
from unbounded.experiments.folder import read_report
from unbounded.experiments.markdown import grid
from unbounded.experiments.measures import COLUMNS, MERITS, SUCCESSES, Measures, measures
from unbounded.experiments.pool import WORKER, run_trials
from unbounded.experiments.run import train_run
from unbounded.experiments.tiers import Trial
from unbounded.experiments.watching import watching
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
    tensorboard: bool = False,
) -> Restarts | None:
    """Train a config with several seeds, one after the other or some at once, and compare them.

    Args:
        config: the first of them.
        restarts: how many, at least 1; the seeds follow that of `config`.
        root, resume, overwrite, quiet, tensorboard: as for `train_run`. With `resume` finished
            restarts are not trained again.
        anew: with `resume`, begin the restarts when none of them is there; False makes that an
            error. Those that are missing beside others are begun.
        jobs: restarts at once, each a process with one thread; 1 trains them here.
    Returns:
        What they came to; None in a process that shares the runs and is not the one to speak.
    Raises:
        ConfigError: the config has faults, or a number is out of range.
        UnboundedError: a restart failed in its process; the message names its log.
        RunExistsError: a folder is there and neither `resume` nor `overwrite` was given.
        CheckpointError: there is nothing to resume.
        Interrupted: stopped by a signal; what was trained so far is saved.
    """
    configs = seeds_of(checked(config), restarts)
    folders = [root / run_name(each) for each in configs]
    if resume and not anew and not any(map(is_begun, folders)):
        check_begun(folders[0])
    if jobs == 1:
        reports = []
        for each in configs:
            result = train_run(
                each,
                root=root,
                resume=resume,
                overwrite=overwrite,
                quiet=quiet,
                tensorboard=tensorboard,
            )
            if not result.first:
                return None
            reports.append(result.report)
    else:
        reports = _in_processes(configs, root, jobs, resume, overwrite, quiet)
    return report_restarts(configs, reports, root)


def _in_processes(
    configs: Sequence[RunConfig],
    root: Path,
    jobs: int,
    resume: bool,
    overwrite: bool,
    quiet: bool,
) -> list[dict[str, Any]]:
    trials = []
    for config in configs:
        config.machine.threads = 1
        folder = root / run_name(config)
        # The same rules as for one run, before any of them begins.
        with lock(folder):
            admit(folder, resume=resume, overwrite=overwrite)
        trials.append(Trial(config.task, model_name(config.model), config))
    todo = [each for each in trials if overwrite or read_report(root / each.name) is None]
    say: Callable[[str], None] = (lambda text: None) if quiet else (lambda text: print(text))
    with watching(len(trials), len(trials) - len(todo), root, say, quiet) as watch:
        outcomes = run_trials(
            todo,
            root,
            jobs,
            watch=watch.look,
            command=(*WORKER, *(["--overwrite"] if overwrite else [])),
            ended=lambda outcome: watch.done(f"{outcome.trial.name}: code {outcome.exit_code}"),
        )
    failed = [f"{each.trial.name} failed; see {each.log}" for each in outcomes if each.exit_code]
    if failed:
        raise UnboundedError("\n".join(failed))
    reports = [read_report(root / trial.name) for trial in trials]
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
    found = [measures(report) for report in reports]
    kind, parts = found[0].kind, [_part(each, r) for each, r in zip(found, reports, strict=True)]
    over, chosen_by = _over(found), MERITS[kind]
    final = found
    if all("rounded" in report for report in reports):
        # What is chosen among are the machines that the runs end with.
        final, chosen_by = [measures(each, "rounded") for each in reports], f"{chosen_by}, rounded"
        over["rounded"] = _over(final)
        for part, each, report in zip(parts, final, reports, strict=True):
            part["rounded"] = _part(each, report["rounded"])
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
    text = restarts_table(data, kind)
    folder = root / f"{run_name(configs[0]).rpartition('-seed')[0]}-restarts"
    with storage_faults(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "restarts.json", json_text(data, indent=2) + "\n")
    write_text(folder / "restarts.md", text + "\n")
    return Restarts(folder, text, data)


def _part(found: Measures, report: Mapping[str, Any]) -> dict[str, Any]:
    """What one phase of a restart came to."""
    ends = {name: report[name] for name in ("batches", "minutes", "stopped")}
    return {"merit": found.merit, "success": found.success, **found.values, **ends}


def _over(found: Sequence[Measures]) -> dict[str, Any]:
    """What one phase of all restarts came to."""
    values = {name: [each.values[name] for each in found] for name in found[0].values}
    return {
        "median": {name: median(numbers) for name, numbers in values.items()},
        "least": {name: min(numbers) for name, numbers in values.items()},
        "greatest": {name: max(numbers) for name, numbers in values.items()},
        "successes": sum(each.success is True for each in found),
    }


def restarts_table(data: Mapping[str, Any], kind: str) -> str:
    """Every restart, then the best, the median and the spread; after rounding too, if it was done.

    Args:
        data: what restarts.json holds.
        kind: of the task.
    """
    columns = COLUMNS[kind]
    labels = {"": data, ", rounded": data["rounded"]} if "rounded" in data else {"": data}
    names = [f"{name}{label}" for label in labels for name in columns]
    lines = []
    for each in data["restarts"]:
        parts = [each, each["rounded"]] if "rounded" in each else [each]
        numbers = [f"{part[name]:.{digits}f}" for part in parts for name, digits in columns.items()]
        mark = " (best)" if each["run"] == data["best"] else ""
        merit = f"{parts[-1]['merit']:.4g}"
        # What a later phase cost comes on top of the training before it.
        batches, minutes = (sum(part[name] for part in parts) for name in ("batches", "minutes"))
        seed, ended = f"{each['seed']}{mark}", parts[-1]["stopped"]
        lines.append([seed, merit, *numbers, str(batches), f"{minutes:.1f}", ended])
    over = []
    for label, part in labels.items():
        for name, digits in columns.items():
            middle, low, high = (part[what][name] for what in ("median", "least", "greatest"))
            spread = f"from {low:.{digits}f} to {high:.{digits}f}"
            over.append(f"{name}{label}: median {middle:.{digits}f}, {spread}")
        if SUCCESSES[kind]:
            over.append(f"{SUCCESSES[kind]}{label}: {part['successes']} of {len(lines)}")
    text = f"{data['task']}, {len(lines)} restarts, the best by {data['chosen_by']}: {data['best']}"
    header = ["seed", data["chosen_by"], *names, "batches", "minutes", "ended"]
    return "\n\n".join([text, grid(header, lines, lined_up=True), "; ".join(over)])
