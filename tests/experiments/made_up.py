"""A study of a few batches, and made-up reports of its trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file
from unbounded.experiments.trials.paper_studies import Study, make_study
from unbounded.experiments.trials.trial import Outcome, Trial

TINY: dict[str, Any] = {
    "about": "a few batches",
    "tasks": ["copy"],
    "models": ["queue", "lstm-1"],
    "hidden_sizes": [8],
    "learning_rates": [0.001],
    "seeds": [0, 1, 2],
    "batches": 4,
    "cells": {"copy/queue": {"model": {"memory": {"width": 4}}}},
    "training": {
        "stop": "converged", "report_every": 2, "accuracy_every": 2, "accuracy_count": 4,
        "checkpoint_every": 2,
    },
    "evaluation": {"count": 4},
    "task": {"symbols": 4, "train_lengths": "2:4", "test_lengths": "5:6"},
}  # fmt: skip


def tiny_study(**changes: Any) -> Study:
    return make_study("grefenstette2015", "tiny", {**TINY, **changes})


def row(
    lengths: str, role: str, exact_match: float = 0.125, partial_accuracy: float = 0.5
) -> dict[str, Any]:
    accuracies = {"exact_match": exact_match, "prefix_accuracy": partial_accuracy}
    return {"lengths": lengths, "role": role, "correct": 1, "count": 1, **accuracies}


def report_of(
    trial: Trial, metric_set: str, rows: list[dict[str, Any]], **values: Any
) -> dict[str, Any]:
    """A report with these rows; `values` replace fields or add some."""
    return {
        "format": "unbounded-report",
        "metric_set": metric_set,
        "config": to_dict(trial.config),
        "train_lengths": "2:4",
        "rows": rows,
        "selection_metric": 1.0,
        "success": False,
        "batches": 3,
        "minutes": 2.0,
        "stopped": "budget",
        "curves": {"perplexity": [], "exact_match": {}, "partial_accuracy": {}},
        **values,
    }


def made_up_report(
    trial: Trial,
    *,
    train: tuple[float, float] = (1.0, 1.0),
    test: tuple[float, float] = (1.0, 1.0),
    perplexity: float | None = 1.0,
    batches: int = 1000,
    minutes: float = 2.0,
    curve: dict[int, float] | None = None,
) -> dict[str, Any]:
    points = [[batch, value] for batch, value in (curve or {}).items()]
    rows = [row("2:4", "train", *train), row("5:6", "test", *test), row("7:12", "longer")]
    accuracies = {"exact_match": {"5:6": points}, "partial_accuracy": {"5:6": points}}
    return report_of(
        trial, "sequences", rows, version=4, selection_metric=perplexity,
        success=f"{test[0]:.2f}" == "1.00", perplexity_train=perplexity, batches=batches,
        minutes=minutes, stopped="budget: all done",
        curves={"perplexity": [[100, 2.0]], **accuracies},
    )  # fmt: skip


def write_report(out: Path, trial: Trial, **values: Any) -> None:
    add_to_runs_file(out / RUNS, {trial.name: made_up_report(trial, **values)})


def ended(trial: Trial, minutes: float, exit_code: int = 0) -> Outcome:
    return Outcome(trial, exit_code, Path("log"), 60 * minutes)
