"""The table of a tier, published and measured values side by side, as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unbounded.experiments.kinds import kind_of
from unbounded.experiments.markdown import grid
from unbounded.experiments.measures import COLUMNS, MERITS, SUCCESSES
from unbounded.experiments.published import Published
from unbounded.experiments.results import Measured
from unbounded.experiments.table_data import (
    BASELINE,
    Cells,
    baseline,
    command,
    median_batches,
    median_minutes,
    progress,
)
from unbounded.experiments.tiers import Tier

NOT_RUN = "not run"


class Layout(NamedTuple):
    """How the cells of a kind of task are shown.

    Fields:
        groups: title -> the columns that stand in it, separated by strokes.
        shown: the group whose median is shown, and the column whose spread is.
        spread: that column, and its title.
        legend: what the numbers are.
    """

    groups: dict[str, tuple[str, ...]]
    shown: str
    spread: tuple[str, str]
    legend: str


_CHOICE = """\
"best run" is the run of least {merit} over settings and seeds{why}. "median {shown}", "spread"
(least to greatest){solved} are over the seeds of the setting whose median {merit} is least; so are
batches and minutes (one thread), as medians.{more} Nothing was chosen by a number of the test
split."""

LAYOUTS = {
    "pairs": Layout(
        {"train": ("train_coarse", "train_fine"), "test": ("test_coarse", "test_fine")},
        "test",
        ("test_coarse", "test coarse"),
        """\
Accuracies are coarse / fine: sequences right to the end, and the mean share of a target that is
right before the first error, each on sequences of the test split, at the training range ("train")
and at the test range ("test").""",
    ),
    "streams": Layout(
        {"percent": ("percent",)},
        "percent",
        ("percent", "percent"),
        """\
"percent" is the percentage of lengths n = 2, 3, ..., 60 of which every sequence of the test split
is right: each symbol that the rest determines was the likeliest.""",
    ),
    "text": Layout(
        {"perplexity": ("validation", "test")},
        "perplexity",
        ("test", "test perplexity"),
        """\
Perplexities are per token, validation / test, with the state carried over the whole text.""",
    ),
}


def table_markdown(tier: Tier, published: Published, cells: Cells) -> str:
    """The table as text that a browser of repositories shows."""
    finished, trials = progress(tier, cells)
    parts = [
        f"# {tier.paper}, tier {tier.name}",
        f"{tier.about[:1].upper()}{tier.about[1:]}. {len(finished)} of {len(trials)} runs are "
        "finished.",
        f"Published values: {published.source}. Made by `{command(tier)}`.",
    ]
    for table in published.tables:
        own = [cell for cell in cells if cell.split("/")[0] in table.tasks]
        if own:
            kind = kind_of(own[0].split("/")[0]).name
            parts += [f"## {table.title}" if table.title else ""]
            parts += [_cells_grid(kind, own, published, cells), _legend(kind, cells)]
    notes = [
        f"* {_titles(f'{each.task}/{each.model}', published)}, {each.column.replace('_', ' ')}: "
        f"the paper contradicts itself, {each.used:.2f} or {each.other:.2f} ({each.note})."
        for each in published.contradictions
    ]
    notes += [f"* {note}" for note in published.notes]
    parts += ["\n".join(notes), "## Every run"]
    runs = [run for summary in cells.values() if summary for run in summary.runs]
    kinds = dict.fromkeys(run.measures.kind for run in runs)
    parts += [_runs_grid(kind, runs, published) for kind in kinds]
    if not runs:
        parts.append("None is finished.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells_grid(kind: str, own: Sequence[str], published: Published, cells: Cells) -> str:
    layout, counted = LAYOUTS[kind], SUCCESSES[kind]
    header = ["task", "model"]
    header += [f"published {group}" for group in layout.groups]
    header += [f"best run {group}" for group in layout.groups]
    header += [f"median {layout.shown}", f"spread of {layout.spread[1]}"]
    header += ["solved"] if counted else []
    header += ["batches", "minutes", "learning rate"]
    header += ["1-layer LSTM then"] if kind == "pairs" else []
    return grid(header, [_cell_row(kind, cell, len(header), published, cells) for cell in own])


def _cell_row(
    kind: str, cell: str, width: int, published: Published, cells: Cells
) -> tuple[str, ...]:
    task, model = cell.split("/")
    layout = LAYOUTS[kind]
    printed = published.values.get(task, {}).get(model)
    row = [published.tasks.get(task, task), published.models[model].title]
    row += [_group(kind, printed, group) if printed else "none" for group in layout.groups]
    summary = cells[cell]
    if summary is None:
        return (*row, *[NOT_RUN] * (width - len(row)))
    best = summary.best.measures.values
    over = {column: summary.over_seeds(column) for column in COLUMNS[kind]}
    middle = {column: values[0] for column, values in over.items()}
    column, digits = layout.spread[0], COLUMNS[kind][layout.spread[0]]
    _, least, greatest = over[column]
    row += [_group(kind, best, group) for group in layout.groups]
    row += [_group(kind, middle, layout.shown), f"{least:.{digits}f}–{greatest:.{digits}f}"]
    if SUCCESSES[kind]:
        row += [f"{summary.solved} of {len(summary.chosen)}"]
    row += [f"{median_batches(summary)}", f"{median_minutes(summary):.0f}"]
    row += [f"{summary.chosen[0].trial.config.training.learning_rate:g}"]
    if kind == "pairs":
        row += [_baseline_text(cell, cells)]
    return tuple(row)


def _runs_grid(kind: str, runs: Sequence[Measured], published: Published) -> str:
    groups = LAYOUTS[kind].groups
    merit = "train perplexity" if kind == "pairs" else MERITS[kind]
    header = ["run", "hidden", "learning rate", "seed", "batches", "minutes", merit, *groups]
    header += [] if kind == "text" else ["longer"]
    rows = []
    for run in runs:
        found, config = run.measures, run.trial.config
        if found.kind != kind:
            continue
        row = [_titles(run.trial.cell, published), str(config.model.hidden_size)]
        row += [f"{config.training.learning_rate:g}", str(config.seed), str(run.batches)]
        row += [f"{run.minutes:.1f}", f"{found.merit:.4f}"]
        row += [_group(kind, found.values, group, 1) for group in groups]
        if kind != "text":
            digits = COLUMNS[kind][LAYOUTS[kind].spread[0]] + 1
            longer = (
                f"{lengths}: {' / '.join(f'{value:.{digits}f}' for value in values)}"
                for lengths, values in found.longer.items()
            )
            row += [", ".join(longer) or "none"]
        rows.append([*row, run.stopped])
    return grid([*header, "ended"], rows)


def _legend(kind: str, cells: Cells) -> str:
    counted = f' and "solved" (how many seeds have {_SOLVED[kind]})' if SUCCESSES[kind] else ""
    more = ""
    if kind == "pairs":
        more = (
            ' "1-layer LSTM then" is the baseline\'s median coarse accuracy at the test range '
            "after as many batches, on validation sequences."
        )
    choice = _CHOICE.format(
        merit=MERITS[kind],
        why=", as the paper chooses" if kind == "pairs" else "",
        shown=LAYOUTS[kind].shown,
        solved=counted,
        more=more,
    )
    return textwrap.fill(f"{LAYOUTS[kind].legend} {choice}", 100)


_SOLVED = {"pairs": "test coarse 1.00 to two digits", "streams": "100 percent"}


def _baseline_text(cell: str, cells: Cells) -> str:
    if cell.endswith(f"/{BASELINE}"):
        return "itself"
    value = baseline(cell, cells)
    return NOT_RUN if value is None else f"{value:.2f}"


def _group(kind: str, values: Mapping[str, float | None], group: str, more: int = 0) -> str:
    """The columns of a group, `more` digits longer; a value that is not there is a dash."""
    texts = []
    for column in LAYOUTS[kind].groups[group]:
        value = values[column]
        texts.append("–" if value is None else f"{value:.{COLUMNS[kind][column] + more}f}")
    return " / ".join(texts)


def _titles(cell: str, published: Published) -> str:
    task, model = cell.split("/")
    return f"{published.tasks.get(task, task)}, {published.models[model].title}"
