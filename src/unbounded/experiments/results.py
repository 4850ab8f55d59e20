"""From finished runs to the numbers of a table: copied reports, and a summary of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.experiments.config import config_hash, from_dict
from unbounded.experiments.folder import load_report
from unbounded.experiments.measures import Measures, measures
from unbounded.experiments.tiers import Trial
from unbounded.figures.curves import Curves, read_curves
from unbounded.training.files import json_text, storage_faults, write_text


@dataclass(frozen=True)
class Measured:
    """What one finished trial measured.

    Fields:
        trial: the trial.
        measures: its numbers, on the test split, and what chooses among runs.
        batches, minutes, stopped: how long it trained, and why it ended.
        curves: what it measured over time.
        per_n: n -> share of sequences that are right, on streams.
    """

    trial: Trial
    measures: Measures
    batches: int
    minutes: float
    stopped: str
    curves: Curves
    per_n: Mapping[int, float]

    @property
    def setting(self) -> str:
        """What the grid varies beside the seed, as a hash."""
        return config_hash(self.trial.config)


@dataclass(frozen=True)
class Summary:
    """One cell of the table.

    Fields:
        runs: every finished trial of the cell.
        best: the run of least merit (MERITS), over all settings and seeds.
        chosen: the runs, one a seed, of the setting whose median merit is least.
    """

    runs: tuple[Measured, ...]
    best: Measured
    chosen: tuple[Measured, ...]

    @property
    def kind(self) -> str:
        """Of its task: pairs, streams or text."""
        return self.best.measures.kind

    def over_seeds(self, column: str) -> tuple[float, float, float]:
        """Median, least and greatest of a column over the seeds of the chosen setting."""
        values = [run.measures.values[column] for run in self.chosen]
        return median(values), min(values), max(values)

    @property
    def solved(self) -> int | None:
        """Seeds of the chosen setting that succeed; None where nothing is counted."""
        found = [run.measures.success for run in self.chosen]
        return None if None in found else sum(map(bool, found))


def copy_report(trial: Trial, runs: Path, out: Path) -> bool:
    """Copy a finished trial's report and curves to `out/reports`; False when it is not finished.

    Raises:
        CheckpointError: the report cannot be read; the message names the file.
        StorageError: the disk refused.
    """
    path = runs / trial.name / "report.json"
    if not path.is_file():
        return False
    report = load_report(path)
    # Where the corpus lay says nothing to anybody else.
    report["config"]["machine"].pop("data", None)
    report["curves"] = read_curves(path.parent).to_json()
    reports = out / "reports"
    with storage_faults(reports, "making folder"):
        reports.mkdir(parents=True, exist_ok=True)
    write_text(reports / f"{trial.name}.json", json_text(report, indent=None) + "\n")
    return True


def read_results(trials: Iterable[Trial], out: Path) -> dict[str, Measured]:
    """The trials that have a report in `out/reports`, by key.

    Raises:
        CheckpointError: a report cannot be read or lacks something; the message names the file.
    """
    found = {}
    for trial in trials:
        path = out / "reports" / f"{trial.name}.json"
        if path.is_file():
            try:
                found[trial.key] = _measured(trial, load_report(path))
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise CheckpointError(f"{path} is no report of a trial: {error!r}") from error
    return found


def summarise(runs: Iterable[Measured]) -> Summary:
    """Choose by training perplexity or by validation alone: no test number has a say.

    Args:
        runs: all finished trials of one cell, at least one.
    """
    ordered = tuple(runs)
    settings: dict[str, list[Measured]] = {}
    for run in ordered:
        settings.setdefault(run.setting, []).append(run)
    chosen = min(settings.values(), key=lambda group: median(run.measures.merit for run in group))
    best = min(ordered, key=lambda run: run.measures.merit)
    return Summary(ordered, best, tuple(chosen))


def baseline_at(summary: Summary | None, batches: int, lengths: str) -> float | None:
    """Median coarse accuracy of another cell's seeds after as many batches, or None.

    Each run is read off at its first accuracy at or after `batches`, its last one if it ended
    before: a doubt goes in favour of the baseline. These are validation sequences.
    """
    if summary is None:
        return None
    values = []
    for run in summary.chosen:
        points = run.curves.coarse.get(lengths, {})
        if points:
            later = [batch for batch in points if batch >= batches]
            values.append(points[min(later) if later else max(points)])
    return median(values) if values else None


def _measured(trial: Trial, report: dict[str, Any]) -> Measured:
    if config_hash(from_dict(report["config"])) != config_hash(trial.config):
        raise CheckpointError(
            f"the report {trial.name}.json is of a run with another config; move it away and run "
            "the trial again"
        )
    phase = report if trial.phase == "trained" else report[trial.phase]
    per_n = {
        each["n"]: float(each["accuracy"]) for row in phase["rows"] for each in row.get("per_n", ())
    }
    # What a later phase cost comes on top of the training before it.
    phases = [report] if phase is report else [report, phase]
    return Measured(
        trial=trial,
        measures=measures(report, trial.phase),
        batches=sum(int(each["batches"]) for each in phases),
        minutes=sum(float(each["minutes"]) for each in phases),
        stopped=str(phase["stopped"]),
        curves=Curves.from_json(report["curves"]),
        per_n=per_n,
    )
