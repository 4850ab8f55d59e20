"""The table of a tier as data: published and measured values side by side, every run by name."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from unbounded.experiments.published import COLUMNS, Published
from unbounded.experiments.results import Measured, Summary, baseline_at, summarise
from unbounded.experiments.tiers import Tier

FORMAT = "unbounded-table"
VERSION = 1
BASELINE = "lstm-1"

Cells = Mapping[str, Summary | None]


def summaries(tier: Tier, results: Mapping[str, Measured]) -> dict[str, Summary | None]:
    """A summary of each cell of a tier; None where no trial is finished."""
    cells: dict[str, Summary | None] = {}
    for cell in tier.cells:
        runs = [
            results[trial.name]
            for trial in tier.trials
            if trial.cell == cell and trial.name in results
        ]
        cells[cell] = summarise(runs) if runs else None
    return cells


def table_json(tier: Tier, published: Published, cells: Cells) -> dict[str, Any]:
    """The table as data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "paper": tier.paper,
        "source": published.source,
        "tier": tier.name,
        "command": command(tier),
        "trials": len(tier.trials),
        "finished": sum(len(summary.runs) for summary in cells.values() if summary),
        "cells": [_cell_json(cell, published, cells) for cell in cells],
        "contradictions": [vars(each) for each in published.contradictions],
    }


def baseline(cell: str, cells: Cells) -> float | None:
    """Median coarse accuracy of the one-layer LSTM after as many batches as a cell's median."""
    task, _ = cell.split("/")
    summary = cells[cell]
    if summary is None:
        return None
    other = cells.get(f"{task}/{BASELINE}")
    return baseline_at(other, median_batches(summary), summary.best.test_lengths)


def median_batches(summary: Summary) -> int:
    """Batches of a summary's seeds."""
    return round(median(run.batches for run in summary.chosen))


def median_minutes(summary: Summary) -> float:
    """Minutes of training of a summary's seeds."""
    return median(run.minutes for run in summary.chosen)


def command(tier: Tier) -> str:
    """The command that makes a tier's table."""
    return f"unbounded reproduce {tier.paper} --tier {tier.name}"


def _cell_json(cell: str, published: Published, cells: Cells) -> dict[str, Any]:
    task, model = cell.split("/")
    data: dict[str, Any] = {
        "task": task,
        "model": model,
        "published": published.accuracies.get(task, {}).get(model),
        "measured": None,
    }
    summary = cells[cell]
    if summary is not None:
        over = {column: summary.over_seeds(column) for column in COLUMNS}
        data["measured"] = {
            "best": _run_json(summary.best),
            "median": {column: values[0] for column, values in over.items()},
            "least": {column: values[1] for column, values in over.items()},
            "greatest": {column: values[2] for column, values in over.items()},
            "solved": summary.solved,
            "seeds": len(summary.chosen),
            "success_rate": summary.solved / len(summary.chosen),
            "batches_median": median_batches(summary),
            "minutes_median": median_minutes(summary),
            "hidden_size": summary.chosen[0].setting[0],
            "learning_rate": summary.chosen[0].setting[1],
            "lstm_1_coarse_at_as_many_batches": baseline(cell, cells),
            "runs": [_run_json(run) for run in summary.runs],
        }
    return data


def _run_json(run: Measured) -> dict[str, Any]:
    hidden, rate = run.setting
    return {
        "report": f"reports/{run.trial.name}.json",
        "seed": run.trial.config.seed,
        "hidden_size": hidden,
        "learning_rate": rate,
        "perplexity_train": run.perplexity,
        "batches": run.batches,
        "minutes": run.minutes,
        "stopped": run.stopped,
        **run.accuracies,
    }
