"""The results of a study: numbers and errors of each run, and cells summarised over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError, ConfigError, did_you_mean, unknown
from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.evaluation.score import wilson
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.run_folder import OUTCOMES, RunFolder
from unbounded.experiments.tables.measures import Measures, measures, spent
from unbounded.experiments.trials.claims import newest_claims
from unbounded.experiments.trials.trial import Trial
from unbounded.studies.study_folder import StudyFolder

#: Names and values of the axes over which the best value is chosen.
_Point = tuple[tuple[str, Any], ...]


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

        The numbers are the columns of its metric set, the same measures of the first scored range
        of the role "longer" that no column shows, "selection_metric", and "success" if the metric
        set defines it.
        """
        if self.numbers is None:
            return {}
        metric_set, roles = metric_set_of(self.numbers.metric_set), self.numbers.roles
        values = dict(self.numbers.values)
        beyond = (self.numbers.longer.get(each) for each, role in roles.items() if role == "longer")
        further = next(filter(None, beyond), None)
        if further is not None:
            named = zip(longer_columns(metric_set), further, strict=True)
            values |= {name: number for name, number in named if name not in values}
        chosen_by = self.numbers.selection_metric
        values["selection_metric"] = chosen_by if math.isfinite(chosen_by) else None
        success = self.numbers.success
        if success is not None or metric_set.success:
            values["success"] = None if success is None else float(success)
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
        chosen: values of the axes over which the best is chosen; empty if there are none, or if no
            value can be chosen.
        runs: the finished runs with these values, one a seed; empty if no value can be chosen.
        planned, finished: runs of the cell, over all values of the chosen axes.
        is_undecided: whether no value can be chosen, because the median selection metric of each
            value is missing.
    """

    axes: Mapping[str, Any]
    chosen: Mapping[str, Any]
    runs: tuple[StudyRun, ...]
    planned: int
    finished: int
    is_undecided: bool = False

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
        settings: dict[_Point, list[StudyRun]] = {}
        for run in group:
            if run.numbers is not None:
                place = tuple((name, run.axes[name]) for name in select if name in run.axes)
                settings.setdefault(place, []).append(run)
        point = _chosen(settings)
        cells.append(
            Cell(
                {name: value for name, value in group[0].axes.items() if name not in select},
                dict(point or ()),
                () if point is None else tuple(settings.get(point, ())),
                len(group),
                sum(run.numbers is not None for run in group),
                is_undecided=point is None,
            )
        )
    return cells


def _chosen(settings: Mapping[_Point, Sequence[StudyRun]]) -> _Point | None:
    """The values with the lowest median selection metric; None if several have none."""
    medians = {point: _median_choice(runs) for point, runs in settings.items()}
    if len(medians) > 1 and not any(map(math.isfinite, medians.values())):
        return None
    return min(medians, key=lambda point: medians[point], default=())


def _median_choice(runs: Sequence[StudyRun]) -> float:
    return median(run.numbers.selection_metric for run in runs if run.numbers is not None)


def longer_columns(metric_set: MetricSet) -> list[str]:
    """The names of a metric set's measures at the first scored range of the role "longer"."""
    column = metric_set.column
    named = column if "{row}" in column else f"longer_{column}"
    return [named.format(row="longer", measure=measure) for measure in metric_set.measures]


def metrics_of(runs: Iterable[StudyRun], *, longer: bool = False) -> dict[str, int]:
    """The metrics that finished runs have, with the number of digits to show.

    Args:
        runs: all runs.
        longer: whether to include `longer_columns`, if a run has them.
    """
    digits: dict[str, int] = {}
    for run in runs:
        if run.numbers is not None:
            metric_set = metric_set_of(run.numbers.metric_set)
            further = [name for name in longer_columns(metric_set) if name in run.values()]
            most = max(metric_set.columns.values(), default=0)
            for name, number in metric_set.columns.items():
                digits.setdefault(name, number)
            for name in further if longer else ():
                digits.setdefault(name, most)
    return digits


def known_metrics(run: StudyRun) -> list[str]:
    """The metrics that a run has, or would have if their ranges were scored."""
    if run.numbers is None:
        return []
    longer = longer_columns(metric_set_of(run.numbers.metric_set))
    return list(dict.fromkeys([*run.values(), *longer]))


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
        metric_set = metric_set_of(build_task(config).metric_set)
        columns = [*metric_set.columns, *longer_columns(metric_set)]
        known += [each for each in columns if each not in known]
    known += ["selection_metric", "success"]
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(f"table: unknown metric {name!r}.{hint} Valid: {', '.join(known)}")


def check_metric(name: str, runs: Iterable[StudyRun]) -> None:
    """Check that finished runs have a metric, or would have it if its range were scored.

    Raises:
        ConfigError: there is no such metric; the message lists those that there are.
    """
    known = list(dict.fromkeys(metric for run in runs for metric in known_metrics(run)))
    if known and name not in known:
        raise ConfigError(unknown("unknown metric", name, known))
