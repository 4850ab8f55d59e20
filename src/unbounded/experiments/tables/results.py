"""From finished runs to the numbers of a table: copied reports, and a summary of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.evaluation.scorings import scoring_of
from unbounded.experiments.config.identity import config_hash
from unbounded.experiments.config.schema import from_dict
from unbounded.experiments.run.folder import folder_of, load_report, read_report
from unbounded.experiments.run.report_check import OUTCOMES, REMADE
from unbounded.experiments.run.verification import is_verified, verification_of
from unbounded.experiments.tables.measures import Measures, measures
from unbounded.experiments.trials.tiers import Trial
from unbounded.figures.curves import Curves, read_curves
from unbounded.files import json_text, storage_faults, write_text
from unbounded.tasks import LengthRange

#: What to do about a report in `out` that cannot be read.
AGAIN = "Delete it, and `unbounded reproduce` with --missing trains it again"


@dataclass(frozen=True)
class Measured:
    """What one finished trial measured.

    Fields:
        trial: the trial.
        report: name of its report in the folder of reports.
        measures: its numbers, on the test split, and what chooses among runs.
        batches, minutes, stopped: how long it trained, and why it ended.
        curves: what it measured over time.
        trained_to: longest length of training; None of a text.
        per_n: n -> the scoring's number of that length, where it has one for each n.
        precision: that products in float32 were asked for with.
    """

    trial: Trial
    report: str
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
        best: the run of least merit, over all settings and seeds.
        chosen: the runs, one a seed, of the setting whose median merit is least.
    """

    runs: tuple[Measured, ...]
    best: Measured
    chosen: tuple[Measured, ...]

    @property
    def scoring(self) -> str:
        """Of its task."""
        return self.best.measures.scoring

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


def copy_report(trial: Trial, runs: Path, out: Path) -> bool:
    """Copy a finished trial's report and curves to `out/reports`; False when it is not finished.

    One that is to be verified is finished when that is done too; what came of it goes to
    `out/verified`.

    Raises:
        CheckpointError: the report cannot be read; the message names the file.
        StorageError: the disk refused.
    """
    folder, name = folder_of(runs, trial.config), f"{trial.name}.json"
    report = read_report(folder)
    if report is None:
        return False
    # Where the corpus lay says nothing to anybody else.
    report["config"]["machine"].pop("data", None)
    report["curves"] = read_curves(folder).to_json()
    try:
        _measured(trial, name, report)
    except OUTCOMES as error:  # copied, it would be refused there each time
        path = folder / "report.json"
        raise CheckpointError(f"{path} is no report of a trial: {error!r}. {REMADE}") from error
    if trial.verify is not None:
        if not is_verified(folder, trial.verify):
            return False
        found = verification_of(folder)
        with storage_faults(out / "verified", "making folder"):
            (out / "verified").mkdir(parents=True, exist_ok=True)
        write_text(out / "verified" / name, json_text(found, indent=None) + "\n")
    reports = out / "reports"
    with storage_faults(reports, "making folder"):
        reports.mkdir(parents=True, exist_ok=True)
    write_text(reports / name, json_text(report, indent=None) + "\n")
    return True


def read_results(trials: Iterable[Trial], out: Path) -> dict[str, Measured]:
    """The trials that have a report in `out/reports`, by key.

    A report is a trial's if its config is, whatever its file is called.

    Raises:
        CheckpointError: a report cannot be read or lacks something; the message names the file.
    """
    reports: dict[tuple[str, int], tuple[Path, dict[str, Any]]] = {}
    for path in sorted((out / "reports").glob("*.json")):
        try:
            report = load_report(path)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {AGAIN}") from error
        try:
            config = from_dict(report["config"])
        except OUTCOMES as error:
            raise _no_report(path, error) from error
        reports[config_hash(config), config.seed] = path, report
    results = {}
    for trial in trials:
        own = config_hash(trial.config), trial.config.seed
        if own not in reports:
            continue
        path, report = reports[own]
        try:
            results[trial.key] = _measured(trial, path.name, report)
        except OUTCOMES as error:
            raise _no_report(path, error) from error
    return results


def _no_report(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} is no report of a trial: {error!r}. {AGAIN}")


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


def _measured(trial: Trial, name: str, report: dict[str, Any]) -> Measured:
    phase = report if trial.phase == "trained" else report[trial.phase]
    curve = scoring_of(report["scoring"]).curve
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
        report=name,
        measures=measures(report, trial.phase),
        batches=sum(int(part["batches"]) for part in phases),
        minutes=sum(float(part["minutes"]) for part in phases),
        stopped=str(phase["stopped"]) + _outcome(phase),
        curves=Curves.from_json(report["curves"]),
        trained_to=LengthRange.parse(longest).maximum if longest else None,
        per_n=per_n,
        precision=report["config"].get("machine", {}).get("matmul_precision") or "highest",
    )


def _outcome(phase: Mapping[str, Any]) -> str:
    """What came of a hardening that made no machine."""
    if phase.get("harm"):
        return "; no better than the trained model, which stays"
    return "; no machine" if phase.get("decided") is False else ""
