"""Copy the reports of finished runs, and summarise each cell of a table."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.config.identity import config_hash
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.run_folder import OUTCOMES, REMADE, RunFolder
from unbounded.experiments.run.verification import is_verified, verification_of
from unbounded.experiments.tables.measures import Measures, measures, spent
from unbounded.experiments.tables.runs_file import (
    AGAIN,
    RUNS,
    VERIFIED,
    add_to_runs_file,
    read_runs_file,
)
from unbounded.experiments.trials.trial import Trial
from unbounded.figures.curves import Curves, read_curves
from unbounded.files import storage_errors
from unbounded.tasks import LengthRange


@dataclass(frozen=True)
class Measured:
    """The measurements of a finished trial.

    Fields:
        trial: the trial.
        measures: its numbers on the test split, and its selection metric.
        batches, minutes, stopped: training time, and the reason for its end.
        curves: its numbers during training.
        trained_to: longest training length; None for a text.
        per_n: length n -> number; empty if the metric set has no number for each n.
        precision: requested precision of float32 products.
    """

    trial: Trial
    measures: Measures
    batches: int
    minutes: float
    stopped: str
    curves: Curves
    trained_to: int | None
    per_n: Mapping[int, float]
    precision: str = "highest"

    @property
    def setting(self) -> str:
        """A hash of the config without the seed."""
        return config_hash(self.trial.config)


@dataclass(frozen=True)
class Summary:
    """The summary of one cell of the table.

    Fields:
        runs: all finished trials of the cell.
        best: the run with the lowest selection metric over all settings and seeds.
        chosen: the runs, one per seed, of the setting with the lowest median selection metric.
    """

    runs: tuple[Measured, ...]
    best: Measured
    chosen: tuple[Measured, ...]

    @property
    def metric_set(self) -> str:
        """The metric set of the cell's task."""
        return self.best.measures.metric_set

    def over_seeds(self, column: str) -> tuple[float | None, float | None, float | None]:
        """Median, least and greatest value of a column over the seeds of the chosen setting.

        Runs without a number in the column are omitted. All three values are None if no run has
        one.
        """
        numbers = (run.measures.values[column] for run in self.chosen)
        values = [number for number in numbers if number is not None]
        return (median(values), min(values), max(values)) if values else (None, None, None)

    @property
    def solved(self) -> int | None:
        """Number of seeds of the chosen setting that succeed; None without a criterion."""
        successes = [run.measures.success for run in self.chosen]
        return None if None in successes else sum(map(bool, successes))


def copy_reports(trials: Iterable[Trial], runs: Path, out: Path) -> list[Trial]:
    """Write the reports, curves and verifications of finished trials into the folder `out`.

    A trial that requires a verification counts as finished only if it is verified.

    Returns:
        The unfinished trials.
    Raises:
        CheckpointError: a report cannot be read; the message names the file.
        StorageError: a file cannot be written.
    """
    reports: dict[str, Mapping[str, Any]] = {}
    verified: dict[str, Mapping[str, Any]] = {}
    waiting = []
    for trial in trials:
        report = _finished_report(trial, runs)
        if report is None:
            waiting.append(trial)
            continue
        reports[trial.name] = report
        if trial.verify is not None:
            verification = verification_of(RunFolder.of(runs, trial.config))
            assert verification is not None
            verified[trial.name] = verification
    add_to_runs_file(out / VERIFIED, verified)
    add_to_runs_file(out / RUNS, reports)
    return waiting


def _finished_report(trial: Trial, runs: Path) -> dict[str, Any] | None:
    """The report of a finished trial, with its curves; None for an unfinished trial."""
    folder = RunFolder.of(runs, trial.config)
    report = folder.report()
    if report is None or (trial.verify is not None and not is_verified(folder, trial.verify)):
        return None
    # The corpus has another path on other computers.
    report["config"]["hardware"].pop("data", None)
    report["curves"] = read_curves(folder.path).to_json()
    try:
        _measured(trial, report)
    except OUTCOMES as error:  # a malformed report would make the file of runs unreadable
        raise CheckpointError(
            f"{folder.report_file} is not a trial's report: {error!r}. {REMADE}"
        ) from error
    return report


def with_ids(trials: Iterable[Trial], out: Path) -> tuple[Trial, ...]:
    """The trials; a trial whose run is in the file of runs has the id of that run.

    A run belongs to the trial with the same config. A run keeps its original id, so a new format of
    configs does not rename the run.

    Raises:
        CheckpointError: the file or a report in it is damaged; the message names file and run.
    """
    ids = {key: name for key, (name, _) in _by_config(out / RUNS).items()}
    return tuple(
        replace(trial, config=replace(trial.config, id=ids.get(_key(trial.config))))
        for trial in trials
    )


def _key(config: RunConfig) -> tuple[str, int]:
    return config_hash(config), config.seed


def _by_config(path: Path) -> dict[tuple[str, int], tuple[str, dict[str, Any]]]:
    """The runs in a file: config hash and seed -> name and report.

    Do not change the result.
    """
    if not path.is_file():
        return {}
    with storage_errors(path, "reading"):
        stat = path.stat()
    return _read_by_config(path, stat.st_mtime_ns, stat.st_size)


# Reading hundreds of reports takes seconds, and a plan needs them several times.
@functools.lru_cache(maxsize=2)
def _read_by_config(
    path: Path, modified_ns: int, size: int
) -> dict[tuple[str, int], tuple[str, dict[str, Any]]]:
    """Read the runs of a file.

    The modification time in the arguments keeps the cache up to date.
    """
    reports: dict[tuple[str, int], tuple[str, dict[str, Any]]] = {}
    for name, report in read_runs_file(path).items():
        try:
            config = from_dict(report["config"])
        except OUTCOMES as error:
            raise _report_error(path, name, error) from error
        reports[_key(config)] = name, report
    return reports


def read_results(trials: Iterable[Trial], out: Path) -> dict[str, Measured]:
    """The measurements of all trials with a report in the file of runs, by key.

    A report belongs to the trial with the same config, regardless of the run's name.

    Raises:
        CheckpointError: the file or a report in it is damaged; the message names file and run.
    """
    path = out / RUNS
    reports = _by_config(path)
    results = {}
    for trial in trials:
        key = _key(trial.config)
        if key not in reports:
            continue
        name, report = reports[key]
        try:
            results[trial.key] = _measured(trial, report)
        except OUTCOMES as error:
            raise _report_error(path, name, error) from error
    return results


def _report_error(path: Path, name: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path}: {name} is not a trial's report: {error!r}. {AGAIN}")


def summarise(runs: Iterable[Measured]) -> Summary:
    """Choose the best run and the best setting of a cell by the selection metric.

    The choice does not use numbers of the test split.

    Args:
        runs: all finished trials of one cell, at least one.
    """
    ordered = tuple(runs)
    settings: dict[str, list[Measured]] = {}
    for run in ordered:
        settings.setdefault(run.setting, []).append(run)
    chosen = min(
        settings.values(), key=lambda group: median(run.measures.selection_metric for run in group)
    )
    best = min(ordered, key=lambda run: run.measures.selection_metric)
    return Summary(ordered, best, tuple(chosen))


def baseline_at(summary: Summary | None, batches: int, lengths: str) -> float | None:
    """Median exact match of the baseline after a number of batches, over its seeds, or None.

    Each run contributes its first validation accuracy at or after `batches`, or its last accuracy
    if the run ended earlier. The use of the last accuracy favours the baseline.

    Args:
        summary: the baseline's cell; None if no run is finished.
        batches: number of batches.
        lengths: length range of the validation sequences.
    """
    if summary is None:
        return None
    values = []
    for run in summary.chosen:
        points = run.curves.exact_match.get(lengths, {})
        if points:
            later = [batch for batch in points if batch >= batches]
            values.append(points[min(later) if later else max(points)])
    return median(values) if values else None


def _measured(trial: Trial, report: dict[str, Any]) -> Measured:
    phase = report if trial.phase == "trained" else report[trial.phase]
    curve = metric_set_of(report["metric_set"]).curve
    points = [point for row in phase["rows"] for point in row.get("per_n", ())]
    # In committed reports an AUC can be 1.0000001.
    per_n = {
        point["n"]: 1.0 if 1 < point[curve] < 1 + 1e-6 else float(point[curve])
        for point in points
        if point[curve] is not None
    }
    longest = report["train_lengths"]
    batches, minutes = spent(report, trial.phase)
    return Measured(
        trial=trial,
        measures=measures(report, trial.phase),
        batches=batches,
        minutes=minutes,
        stopped=str(phase["stopped"]) + _outcome(phase),
        curves=Curves.from_json(report["curves"]),
        trained_to=LengthRange.parse(longest).maximum if longest else None,
        per_n=per_n,
        precision=report["config"].get("hardware", {}).get("matmul_precision") or "highest",
    )


def _outcome(phase: Mapping[str, Any]) -> str:
    """The outcome of a hardening that produced no hardened model; empty otherwise."""
    if phase.get("harm"):
        return "; no better than the trained model, which is kept"
    return "; gates not saturated" if phase.get("saturated") is False else ""
