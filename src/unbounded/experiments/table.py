"""The table of a tier, published and measured values side by side, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from unbounded.experiments.published import COLUMNS, MODEL_TITLES, TASK_TITLES, Published
from unbounded.experiments.results import Measured, Summary, baseline_at, summarise
from unbounded.experiments.tiers import Tier

FORMAT = "unbounded-table"
VERSION = 1
BASELINE = "lstm-1"
NOT_RUN = "not run"

_HEADER = (
    "task",
    "model",
    "published train",
    "published test",
    "best run train",
    "best run test",
    "median test",
    "spread of test coarse",
    "solved",
    "batches",
    "minutes",
    "learning rate",
    "1-layer LSTM then",
)
_RUN_HEADER = (
    "run",
    "hidden",
    "learning rate",
    "seed",
    "batches",
    "minutes",
    "train perplexity",
    "train",
    "test",
    "longer",
    "ended",
)
_LEGEND = """\
Accuracies are coarse / fine: sequences right to the end, and the mean share of a target that is
right before the first error, each on 1000 sequences of the test split, at the training range
("train") and at the test range ("test"). "best run" is the run of least training perplexity over
settings and seeds, as the paper chooses. "median", "spread" (least to greatest) and "solved" (seeds
whose test coarse is 1.00 to two digits, of all seeds) are over the seeds of the setting whose median
training perplexity is least. Batches and minutes (of one thread) are medians over those seeds.
"1-layer LSTM then" is the baseline's median coarse accuracy at the test range after as many
batches, on validation sequences. Nothing was chosen by an accuracy."""


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


def table_json(
    tier: Tier, published: Published, cells: Mapping[str, Summary | None]
) -> dict[str, Any]:
    """The table as data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "paper": tier.paper,
        "source": published.source,
        "tier": tier.name,
        "command": _command(tier),
        "trials": len(tier.trials),
        "finished": sum(len(summary.runs) for summary in cells.values() if summary),
        "cells": [_cell_json(cell, published, cells) for cell in cells],
        "contradictions": [vars(each) for each in published.contradictions],
    }


def table_markdown(tier: Tier, published: Published, cells: Mapping[str, Summary | None]) -> str:
    """The table as text that a browser of repositories shows."""
    rows = [_cell_row(cell, published, cells) for cell in cells]
    runs = [_run_row(run) for summary in cells.values() if summary for run in summary.runs]
    finished = f"{len(runs)} of {len(tier.trials)} runs are finished."
    notes = [
        f"* {_titles(f'{each.task}/{each.model}')}, {each.column.replace('_', ' ')}: the paper "
        f"contradicts itself, {each.used:.2f} or {each.other:.2f} ({each.note})."
        for each in published.contradictions
    ]
    parts = [
        f"# {tier.paper}, tier {tier.name}",
        f"{tier.about}. {finished}",
        f"Published values: {published.source}. Made by `{_command(tier)}`.",
        _grid(_HEADER, rows),
        _LEGEND,
        "\n".join(notes),
        "## Every run",
        _grid(_RUN_HEADER, runs) if runs else "None is finished.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell_row(
    cell: str, published: Published, cells: Mapping[str, Summary | None]
) -> tuple[str, ...]:
    task, model = cell.split("/")
    printed = published.accuracies.get(task, {}).get(model)
    row = [TASK_TITLES.get(task, task), MODEL_TITLES[model]]
    row += [_pair(printed, "train"), _pair(printed, "test")] if printed else ["none", "none"]
    summary = cells[cell]
    if summary is None:
        return (*row, *[NOT_RUN] * (len(_HEADER) - len(row)))
    best = summary.best.accuracies
    middle = {column: summary.over_seeds(column)[0] for column in COLUMNS}
    _, least, greatest = summary.over_seeds("test_coarse")
    row += [_pair(best, "train"), _pair(best, "test"), _pair(middle, "test")]
    row += [f"{least:.2f}–{greatest:.2f}", f"{summary.solved} of {len(summary.chosen)}"]
    row += [f"{_median_batches(summary)}", f"{_median_minutes(summary):.0f}"]
    row += [f"{summary.chosen[0].setting[1]:g}", _baseline_text(cell, cells)]
    return tuple(row)


def _run_row(run: Measured) -> tuple[str, ...]:
    hidden, rate = run.setting
    longer = ", ".join(f"{lengths}: {c:.3f} / {f:.3f}" for lengths, (c, f) in run.longer.items())
    return (
        _titles(run.trial.cell),
        str(hidden),
        f"{rate:g}",
        str(run.trial.config.seed),
        str(run.batches),
        f"{run.minutes:.1f}",
        f"{run.perplexity:.4f}",
        _pair(run.accuracies, "train", 3),
        _pair(run.accuracies, "test", 3),
        longer or "none",
        run.stopped,
    )


def _cell_json(
    cell: str, published: Published, cells: Mapping[str, Summary | None]
) -> dict[str, Any]:
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
            "batches_median": _median_batches(summary),
            "minutes_median": _median_minutes(summary),
            "hidden_size": summary.chosen[0].setting[0],
            "learning_rate": summary.chosen[0].setting[1],
            "lstm_1_coarse_at_as_many_batches": _baseline(cell, cells),
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


def _baseline(cell: str, cells: Mapping[str, Summary | None]) -> float | None:
    task, _ = cell.split("/")
    summary = cells[cell]
    if summary is None:
        return None
    other = cells.get(f"{task}/{BASELINE}")
    return baseline_at(other, _median_batches(summary), summary.best.test_lengths)


def _baseline_text(cell: str, cells: Mapping[str, Summary | None]) -> str:
    if cell.endswith(f"/{BASELINE}"):
        return "itself"
    value = _baseline(cell, cells)
    return NOT_RUN if value is None else f"{value:.2f}"


def _median_batches(summary: Summary) -> int:
    return round(median(run.batches for run in summary.chosen))


def _median_minutes(summary: Summary) -> float:
    return median(run.minutes for run in summary.chosen)


def _pair(accuracies: Mapping[str, float], which: str, digits: int = 2) -> str:
    coarse, fine = accuracies[f"{which}_coarse"], accuracies[f"{which}_fine"]
    return f"{coarse:.{digits}f} / {fine:.{digits}f}"


def _titles(cell: str) -> str:
    task, model = cell.split("/")
    return f"{TASK_TITLES.get(task, task)}, {MODEL_TITLES[model]}"


def _command(tier: Tier) -> str:
    return f"unbounded reproduce {tier.paper} --tier {tier.name}"


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
