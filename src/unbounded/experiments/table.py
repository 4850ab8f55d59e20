"""The table of a tier, published and measured values side by side, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbounded.experiments.published import COLUMNS, MODEL_TITLES, TASK_TITLES, Published
from unbounded.experiments.results import Measured
from unbounded.experiments.table_data import (
    BASELINE,
    Cells,
    baseline,
    command,
    median_batches,
    median_minutes,
)
from unbounded.experiments.tiers import Tier

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
right before the first error, each on sequences of the test split, at the training range ("train")
and at the test range ("test"). "best run" is the run of least training perplexity over settings and
seeds, as the paper chooses. "median test", "spread" (least to greatest) and "solved" (how many
seeds have test coarse 1.00 to two digits) are over the seeds of the setting whose median training
perplexity is least; so are batches and minutes (one thread), as medians. "1-layer LSTM then" is the
baseline's median coarse accuracy at the test range after as many batches, on validation sequences.
Nothing was chosen by an accuracy."""


def table_markdown(tier: Tier, published: Published, cells: Cells) -> str:
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
        f"{tier.about[:1].upper()}{tier.about[1:]}. {finished}",
        f"Published values: {published.source}. Made by `{command(tier)}`.",
        _grid(_HEADER, rows),
        _LEGEND,
        "\n".join(notes),
        "## Every run",
        _grid(_RUN_HEADER, runs) if runs else "None is finished.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell_row(cell: str, published: Published, cells: Cells) -> tuple[str, ...]:
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
    row += [f"{median_batches(summary)}", f"{median_minutes(summary):.0f}"]
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


def _baseline_text(cell: str, cells: Cells) -> str:
    if cell.endswith(f"/{BASELINE}"):
        return "itself"
    value = baseline(cell, cells)
    return NOT_RUN if value is None else f"{value:.2f}"


def _pair(accuracies: Mapping[str, float], which: str, digits: int = 2) -> str:
    coarse, fine = accuracies[f"{which}_coarse"], accuracies[f"{which}_fine"]
    return f"{coarse:.{digits}f} / {fine:.{digits}f}"


def _titles(cell: str) -> str:
    task, model = cell.split("/")
    return f"{TASK_TITLES.get(task, task)}, {MODEL_TITLES[model]}"


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
