"""The results of a study: numbers and errors of each run, and cells summarised over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError, ConfigError, did_you_mean, unknown
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.score import wilson
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.run_folder import OUTCOMES, RunFolder
from unbounded.experiments.tables.measures import Measures, measures, spent
from unbounded.experiments.trials.claims import newest_claims
from unbounded.experiments.trials.trial import Trial
from unbounded.studies.study_folder import StudyFolder


@dataclass(frozen=True)
class StudyRun:
    """One run of a study.

    Fields:
        name: the run.
        task: its task.
        axes: the values of the study's axes.
        seed: the seed.
        state: finished, failed, running, interrupted (released by its worker) or waiting.
        numbers: its numbers on the test split and its selection metric; None unless finished.
        batches, minutes: of training.
        error: the error of a failed run.
    """

    name: str
    task: str
    axes: Mapping[str, Any]
    seed: int
    state: str
    numbers: Measures | None = None
    batches: int = 0
    minutes: float = 0.0
    error: str = ""

    def values(self) -> dict[str, float | None]:
        """The run's numbers by name; empty unless the run is finished.

        The numbers are the columns of its metric set, "selection_metric", and "success" if the
        metric set defines it.
        """
        if self.numbers is None:
            return {}
        values = dict(self.numbers.values)
        chosen_by = self.numbers.selection_metric
        values["selection_metric"] = chosen_by if math.isfinite(chosen_by) else None
        if self.numbers.success is not None:
            values["success"] = float(self.numbers.success)
        return values


def study_runs(folder: StudyFolder) -> list[StudyRun]:
    """All runs of a study with their results, in the order of the plan.

    For a hardened run, the numbers describe its hardened model.

    Raises:
        CheckpointError: the folder is not a study's, or a report is damaged; the message names it.
    """
    trials = folder.trials()
    claims = newest_claims(folder.runs)
    runs = []
    for trial in trials:
        report = RunFolder.of(folder.runs, trial.config).report()
        claim = claims.get(trial.name)
        state, error = "waiting", ""
        if claim is not None:
            state, error = claim.state, claim.error
            state = {"released": "interrupted", "finished": "waiting"}.get(state, state)
        if report is None:
            runs.append(_run(trial, state, error=error))
            continue
        try:
            phase = "hardened" if "hardened" in report else "trained"
            numbers, (batches, minutes) = measures(report, phase), spent(report, phase)
            runs.append(_run(trial, "finished", numbers=numbers, batches=batches, minutes=minutes))
        except OUTCOMES as wrong:
            path = RunFolder.of(folder.runs, trial.config).report_file
            raise CheckpointError(f"{path} is not a run's report: {wrong!r}") from wrong
    return runs


def _run(trial: Trial, state: str, **fields: Any) -> StudyRun:
    return StudyRun(trial.name, trial.task, trial.axes, trial.config.seed, state, **fields)


@dataclass(frozen=True)
class Cell:
    """The finished runs of one cell, which is defined by the axes that are not chosen.

    Fields:
        axes: their values.
        chosen: values of the axes over which the best is chosen; empty if there are none.
        runs: the finished runs with these values, one a seed.
        planned, finished: runs of the cell, over all values of the chosen axes.
    """

    axes: Mapping[str, Any]
    chosen: Mapping[str, Any]
    runs: tuple[StudyRun, ...]
    planned: int
    finished: int

    @property
    def metric_set(self) -> str:
        """The name of the task's metric set; empty without a finished run."""
        numbers = self.runs[0].numbers if self.runs else None
        return "" if numbers is None else numbers.metric_set

    def numbers(self, metric: str) -> list[float]:
        """The values of a metric, from the runs that have it."""
        values = (run.values().get(metric) for run in self.runs)
        return [value for value in values if value is not None]

    def successes(self) -> tuple[int, int, float, float] | None:
        """Number of successes and runs, and Wilson's 95 % interval; None without a criterion."""
        numbers = self.numbers("success")
        if not numbers:
            return None
        return (round(sum(numbers)), len(numbers), *wilson(round(sum(numbers)), len(numbers)))


def cells_of(runs: Iterable[StudyRun], select: Sequence[str]) -> list[Cell]:
    """The cells of a study, in the order of the plan.

    Values of the chosen axes are selected by the lowest median selection metric, which is measured
    on validation data. The selection does not use numbers of the test split.

    Args:
        runs: all runs.
        select: the axes over which the best value is chosen.
    """
    groups: dict[tuple[Any, ...], list[StudyRun]] = {}
    for run in runs:
        key = (run.task, *((name, v) for name, v in run.axes.items() if name not in select))
        groups.setdefault(key, []).append(run)
    cells = []
    for group in groups.values():
        settings: dict[tuple[Any, ...], list[StudyRun]] = {}
        for run in group:
            if run.numbers is not None:
                point = tuple((name, run.axes[name]) for name in select if name in run.axes)
                settings.setdefault(point, []).append(run)
        point = min(settings, key=lambda own: _median_choice(settings[own]), default=())
        cells.append(
            Cell(
                {name: value for name, value in group[0].axes.items() if name not in select},
                dict(point),
                tuple(settings.get(point, ())),
                len(group),
                sum(run.numbers is not None for run in group),
            )
        )
    return cells


def _median_choice(runs: Sequence[StudyRun]) -> float:
    return median(run.numbers.selection_metric for run in runs if run.numbers is not None)


def metrics_of(runs: Iterable[StudyRun]) -> dict[str, int]:
    """The metrics that finished runs have, with the number of digits to show."""
    digits: dict[str, int] = {}
    for run in runs:
        if run.numbers is not None:
            for name, number in metric_set_of(run.numbers.metric_set).columns.items():
                digits.setdefault(name, number)
    return digits


def check_table_metric(name: str | None, configs: Iterable[RunConfig]) -> None:
    """Check the metric that a study's table shows before any run is trained.

    Args:
        name: of the metric; None for those of the task.
        configs: of the runs, without errors.
    Raises:
        ConfigError: no task of the study has it; the message lists those that there are.
    """
    if name is None:
        return
    known: list[str] = []
    for config in {json.dumps(config.task, sort_keys=True): config for config in configs}.values():
        columns = metric_set_of(build_task(config).metric_set).columns
        known += [each for each in columns if each not in known]
    known += ["selection_metric", "success"]
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(f"table: unknown metric {name!r}.{hint} Valid: {', '.join(known)}")


def check_metric(name: str, runs: Iterable[StudyRun]) -> None:
    """Check that a finished run has a metric.

    Raises:
        ConfigError: none has it; the message lists those that there are.
    """
    known = list(dict.fromkeys(metric for run in runs for metric in run.values()))
    if known and name not in known:
        raise ConfigError(unknown("unknown metric", name, known))
