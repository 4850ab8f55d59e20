"""The table of a study as data: published and measured values, and the names of all runs."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.results import Measured, Summary, baseline_at, summarise
from unbounded.experiments.trials.paper_studies import Study
from unbounded.files import json_text

FORMAT = "unbounded-table"
VERSION = 2
BASELINE = "lstm-1"

Cells = Mapping[str, Summary | None]


def summaries(study: Study, results: Mapping[str, Measured]) -> dict[str, Summary | None]:
    """A summary of each cell of a study; None for a cell without a finished trial."""
    cells: dict[str, Summary | None] = {}
    for cell in study.cells:
        runs = [
            results[trial.key]
            for trial in study.trials
            if trial.cell == cell and trial.key in results
        ]
        cells[cell] = summarise(runs) if runs else None
    return cells


def progress(study: Study, cells: Cells) -> tuple[set[str], set[str]]:
    """The names of the finished runs, and of all runs. One run may belong to several cells."""
    finished = {run.trial.name for cell in cells.values() if cell for run in cell.runs}
    return finished, {trial.name for trial in study.trials}


def table_json(study: Study, published: Published, cells: Cells) -> dict[str, Any]:
    """The table as data."""
    finished, trials = progress(study, cells)
    return {
        "format": FORMAT,
        "version": VERSION,
        "paper": study.paper,
        "source": published.source,
        "study": study.name,
        "command": command(study),
        "trials": len(trials),
        "finished": len(finished),
        "cells": [_cell_json(cell, published, cells) for cell in cells],
        "contradictions": [vars(value) for value in published.contradictions],
        "notes": list(published.notes),
    }


def table_text(data: Mapping[str, Any]) -> str:
    """The JSON text of a table, with one line per cell."""
    cells = ",\n".join(json_text(cell) for cell in data["cells"])
    frame = json_text({**data, "cells": []}, indent=1)
    return frame.replace('"cells": []', f'"cells": [\n{cells}\n]', 1) + "\n"


def baseline(cell: str, cells: Cells) -> float | None:
    """Median exact match of the one-layer LSTM after the cell's median number of batches."""
    task, _ = cell.split("/")
    summary = cells[cell]
    if summary is None:
        return None
    other = cells.get(f"{task}/{BASELINE}")
    return baseline_at(other, median_batches(summary), summary.best.measures.lengths)


def median_batches(summary: Summary) -> int:
    """The median number of batches over the seeds of the chosen setting."""
    return round(median(run.batches for run in summary.chosen))


def median_minutes(summary: Summary) -> float:
    """The median training minutes over the seeds of the chosen setting."""
    return median(run.minutes for run in summary.chosen)


def command(study: Study) -> str:
    """The command that reproduces a study's table."""
    return f"unbounded reproduce {study.paper} --study {study.name}"


def _cell_json(cell: str, published: Published, cells: Cells) -> dict[str, Any]:
    task, model = cell.split("/")
    data: dict[str, Any] = {
        "task": task,
        "model": model,
        "published": published.values.get(task, {}).get(model),
        "measured": None,
    }
    summary = cells[cell]
    if summary is not None:
        metric_set = metric_set_of(summary.metric_set)
        over = {column: summary.over_seeds(column) for column in metric_set.columns}
        solved, seeds, chosen = summary.solved, len(summary.chosen), summary.chosen[0].trial.config
        data["measured"] = {
            "chosen_by": metric_set.selection_metric,
            "best": summary.best.trial.name,
            "median": {column: values[0] for column, values in over.items()},
            "least": {column: values[1] for column, values in over.items()},
            "greatest": {column: values[2] for column, values in over.items()},
            "solved": solved,
            "seeds": seeds,
            "success_rate": None if solved is None else solved / seeds,
            "batches_median": median_batches(summary),
            "minutes_median": median_minutes(summary),
            "hidden_size": chosen.model.hidden_size,
            "learning_rate": chosen.training.learning_rate,
            "output_initialization": chosen.model.output_initialization,
            "runs": [run.trial.name for run in summary.runs],
        }
        if metric_set.baseline:
            data["measured"]["lstm_1_exact_match_at_as_many_batches"] = baseline(cell, cells)
    return data


def run_json(run: Measured) -> dict[str, Any]:
    """The settings and numbers of one run, by the table's columns."""
    config, numbers = run.trial.config, run.measures
    return {
        "run": run.trial.name,
        "seed": config.seed,
        "hidden_size": config.model.hidden_size,
        "learning_rate": config.training.learning_rate,
        "output_initialization": config.model.output_initialization,
        metric_set_of(numbers.metric_set).selection_metric.replace(
            " ", "_"
        ): numbers.selection_metric,
        "batches": run.batches,
        "minutes": run.minutes,
        "stopped": run.stopped,
        **({} if run.precision == "highest" else {"matmul_precision": run.precision}),
        **numbers.values,
        **({"longer": {key: list(values) for key, values in numbers.longer.items()}}),
    }
