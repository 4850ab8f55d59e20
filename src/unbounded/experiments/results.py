"""From finished runs to the numbers of a table: copied reports, and a summary of each cell."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.experiments.build import build_task
from unbounded.experiments.config import config_hash, from_dict
from unbounded.experiments.published import COLUMNS
from unbounded.experiments.tiers import Trial
from unbounded.figures.curves import Curves, read_curves
from unbounded.training.files import json_text, storage_faults, write_text


@dataclass(frozen=True)
class Measured:
    """What one finished trial measured.

    Fields:
        trial: the trial.
        accuracies: COLUMNS -> accuracy on the test split, at the training and at the test range.
        longer: lengths -> (coarse, fine) for any further range.
        perplexity: training perplexity over the last report; infinite where none was finite.
        batches, minutes, stopped: how long it trained, and why it ended.
        curves: perplexity and accuracies over time.
        test_lengths: the test range, e.g. "65:128".
    """

    trial: Trial
    accuracies: Mapping[str, float]
    longer: Mapping[str, tuple[float, float]]
    perplexity: float
    batches: int
    minutes: float
    stopped: str
    curves: Curves
    test_lengths: str

    @property
    def solved(self) -> bool:
        """Whether test coarse is 1.00 as the paper prints it, to two digits."""
        return f"{self.accuracies['test_coarse']:.2f}" == "1.00"

    @property
    def setting(self) -> tuple[int, float]:
        """Hidden size and learning rate: what the grid varies beside the seed."""
        return self.trial.config.model.hidden_size, self.trial.config.training.learning_rate


@dataclass(frozen=True)
class Summary:
    """One cell of the table.

    Fields:
        runs: every finished trial of the cell.
        best: the run of least training perplexity, over all settings and seeds.
        chosen: the runs, one a seed, of the setting whose median training perplexity is least.
    """

    runs: tuple[Measured, ...]
    best: Measured
    chosen: tuple[Measured, ...]

    def over_seeds(self, column: str) -> tuple[float, float, float]:
        """Median, least and greatest of an accuracy over the seeds of the chosen setting."""
        values = [run.accuracies[column] for run in self.chosen]
        return median(values), min(values), max(values)

    @property
    def solved(self) -> int:
        """Seeds of the chosen setting at 1.00 test coarse."""
        return sum(run.solved for run in self.chosen)


def copy_report(trial: Trial, runs: Path, out: Path) -> bool:
    """Copy a finished trial's report and curves to `out/reports`; False when it is not finished.

    Raises:
        CheckpointError: the report cannot be read; the message names the file.
        StorageError: the disk refused.
    """
    path = runs / trial.name / "report.json"
    if not path.is_file():
        return False
    report = _read(path)
    report["curves"] = read_curves(path.parent).to_json()
    reports = out / "reports"
    with storage_faults(reports, "making folder"):
        reports.mkdir(parents=True, exist_ok=True)
    write_text(reports / f"{trial.name}.json", json_text(report, indent=None) + "\n")
    return True


def read_results(trials: Iterable[Trial], out: Path) -> dict[str, Measured]:
    """The trials that have a report in `out/reports`, by name.

    Raises:
        CheckpointError: a report cannot be read or lacks something; the message names the file.
    """
    found = {}
    for trial in trials:
        path = out / "reports" / f"{trial.name}.json"
        if path.is_file():
            try:
                found[trial.name] = _measured(trial, _read(path))
            except (KeyError, TypeError, ValueError) as error:
                raise CheckpointError(f"{path} is no report of a trial: {error!r}") from error
    return found


def summarise(runs: Iterable[Measured]) -> Summary:
    """Choose by training perplexity alone, as the paper does: no accuracy has a say.

    Args:
        runs: all finished trials of one cell, at least one.
    """
    ordered = tuple(runs)
    settings: dict[tuple[int, float], list[Measured]] = {}
    for run in ordered:
        settings.setdefault(run.setting, []).append(run)
    chosen = min(settings.values(), key=lambda group: median(run.perplexity for run in group))
    best = min(ordered, key=lambda run: run.perplexity)
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


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != "unbounded-report":
        raise CheckpointError(f"{path} is no report of unbounded")
    return data


def _measured(trial: Trial, report: dict[str, Any]) -> Measured:
    config = from_dict(report["config"])
    if config_hash(config) != config_hash(trial.config):
        raise CheckpointError(
            f"the report {trial.name}.json is of a run with another config; move it away and run "
            "the trial again"
        )
    task = build_task(config)
    train = config.training.lengths or str(task.train_lengths)
    test = config.training.validation_lengths or str(task.test_lengths)
    rows = {
        row["lengths"]: (float(row["accuracy_coarse"]), float(row["accuracy_fine"]))
        for row in report["rows"]
    }
    accuracies = dict(zip(COLUMNS, (*rows.pop(train), *rows.pop(test)), strict=True))
    perplexity = report["perplexity_train"]
    return Measured(
        trial=trial,
        accuracies=accuracies,
        longer=rows,
        perplexity=math.inf if perplexity is None else float(perplexity),
        batches=int(report["batches"]),
        minutes=float(report["minutes"]),
        stopped=str(report["stopped"]),
        curves=Curves.from_json(report["curves"]),
        test_lengths=test,
    )
