"""From finished runs to the numbers of a table: copied reports, and a summary of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.config.identity import config_hash
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.folder import folder_of, read_report
from unbounded.experiments.run.report_check import OUTCOMES, REMADE
from unbounded.experiments.run.verification import is_verified, verification_of
from unbounded.experiments.tables.measures import Measures, measures
from unbounded.experiments.tables.study_file import (
    AGAIN,
    RUNS,
    VERIFIED,
    add_to_study_file,
    read_study_file,
)
from unbounded.experiments.trials.studies import Trial
from unbounded.figures.curves import Curves, read_curves
from unbounded.tasks import LengthRange


@dataclass(frozen=True)
class Measured:
    """What one finished trial measured.

    Fields:
        trial: the trial.
        measures: its numbers, on the test split, and what chooses among runs.
        batches, minutes, stopped: how long it trained, and why it ended.
        curves: what it measured over time.
        trained_to: longest length of training; None of a text.
        per_n: n -> the metric set's number of that length, where it has one for each n.
        precision: that products in float32 were asked for with.
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
        """What the grid varies beside the seed, as a hash."""
        return config_hash(self.trial.config)


@dataclass(frozen=True)
class Summary:
    """One cell of the table.

    Fields:
        runs: every finished trial of the cell.
        best: the run of least selection metric, over all settings and seeds.
        chosen: the runs, one a seed, of the setting whose median selection metric is least.
    """

    runs: tuple[Measured, ...]
    best: Measured
    chosen: tuple[Measured, ...]

    @property
    def metric_set(self) -> str:
        """Of its task."""
        return self.best.measures.metric_set

    def over_seeds(self, column: str) -> tuple[float | None, float | None, float | None]:
        """Median, least and greatest of a column over the seeds of the chosen setting.

        Of the runs whose report has that number; None three times where none has it.
        """
        found = (run.measures.values[column] for run in self.chosen)
        values = [value for value in found if value is not None]
        return (median(values), min(values), max(values)) if values else (None, None, None)

    @property
    def solved(self) -> int | None:
        """Seeds of the chosen setting that succeed; None where nothing is counted."""
        found = [run.measures.success for run in self.chosen]
        return None if None in found else sum(map(bool, found))


def copy_reports(trials: Iterable[Trial], runs: Path, out: Path) -> list[Trial]:
    """Write the reports and curves of finished trials to the study's file; those left to train.

    A trial that is to be verified is finished when that is done too; its verification goes to the
    file of verifications.

    Raises:
        CheckpointError: a report cannot be read; the message names the file.
        StorageError: the disk refused.
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
            verification = verification_of(folder_of(runs, trial.config))
            assert verification is not None
            verified[trial.name] = verification
    add_to_study_file(out / VERIFIED, verified)
    add_to_study_file(out / RUNS, reports)
    return waiting


def _finished_report(trial: Trial, runs: Path) -> dict[str, Any] | None:
    """The report of a finished trial, with its curves; None where it is not finished."""
    folder = folder_of(runs, trial.config)
    report = read_report(folder)
    if report is None or (trial.verify is not None and not is_verified(folder, trial.verify)):
        return None
    # Where the corpus lay says nothing to anybody else.
    report["config"]["hardware"].pop("data", None)
    report["curves"] = read_curves(folder).to_json()
    try:
        _measured(trial, report)
    except OUTCOMES as error:  # copied, it would be refused there each time
        path = folder / "report.json"
        raise CheckpointError(f"{path} is no report of a trial: {error!r}. {REMADE}") from error
    return report


def with_ids(trials: Iterable[Trial], out: Path) -> tuple[Trial, ...]:
    """The trials, each with the id of its run in the study's file, if it is there.

    A run is a trial's if its config is. Its id was given when it was trained, so that a later form
    of the config does not rename it.

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
    """The runs of a study's file by their configs: name and report."""
    reports: dict[tuple[str, int], tuple[str, dict[str, Any]]] = {}
    for name, report in read_study_file(path).items():
        try:
            config = from_dict(report["config"])
        except OUTCOMES as error:
            raise _no_report(path, name, error) from error
        reports[_key(config)] = name, report
    return reports


def read_results(trials: Iterable[Trial], out: Path) -> dict[str, Measured]:
    """The trials that have a report in the study's file, by key.

    A report is a trial's if its config is, whatever its run is called.

    Raises:
        CheckpointError: the file or a report in it is damaged; the message names file and run.
    """
    path = out / RUNS
    reports = _by_config(path)
    results = {}
    for trial in trials:
        own = _key(trial.config)
        if own not in reports:
            continue
        name, report = reports[own]
        try:
            results[trial.key] = _measured(trial, report)
        except OUTCOMES as error:
            raise _no_report(path, name, error) from error
    return results


def _no_report(path: Path, name: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path}: {name} is no report of a trial: {error!r}. {AGAIN}")


def summarise(runs: Iterable[Measured]) -> Summary:
    """Choose by training perplexity or by validation alone: no test number has a say.

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
    """Median exact match of another cell's seeds after as many batches, or None.

    Each run is read off at its first accuracy at or after `batches`, its last one if it ended
    before: a doubt goes in favour of the baseline. These are validation sequences.
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
    points = [at for row in phase["rows"] for at in row.get("per_n", ())]
    # In committed reports an AUC can be 1.0000001.
    per_n = {
        at["n"]: 1.0 if 1 < at[curve] < 1 + 1e-6 else float(at[curve])
        for at in points
        if at[curve] is not None
    }
    longest = report["train_lengths"]
    # What a later phase cost comes on top of the training before it.
    phases = [report] if phase is report else [report, phase]
    return Measured(
        trial=trial,
        measures=measures(report, trial.phase),
        batches=sum(int(part["batches"]) for part in phases),
        minutes=sum(float(part["minutes"]) for part in phases),
        stopped=str(phase["stopped"]) + _outcome(phase),
        curves=Curves.from_json(report["curves"]),
        trained_to=LengthRange.parse(longest).maximum if longest else None,
        per_n=per_n,
        precision=report["config"].get("hardware", {}).get("matmul_precision") or "highest",
    )


def _outcome(phase: Mapping[str, Any]) -> str:
    """What came of a hardening that made no machine."""
    if phase.get("harm"):
        return "; no better than the trained model, which stays"
    return "; no machine" if phase.get("saturated") is False else ""
