"""The matrix of tasks and models: every memory on every task, two numbers a cell."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.results import Summary
from unbounded.experiments.tables.table_data import Cells

#: What the two numbers of a cell are.
MATRIX_LEGEND: Final = """\
Each cell is the share of sequences of the test split that are right to the end (of streams: of
which every determined symbol is right), at training lengths / at twice the training lengths, as the
median over seeds. Every cell had the same budget of symbols."""
#: Rows of a report that they are of, as the studies order them: training lengths, and twice these.
SHOWN: Final = 2


def matrix_grid(own: Sequence[str], published: Published, cells: Cells) -> str:
    """Tasks down, models across; a cell that was not run is empty.

    Args:
        own: the cells of the table, "task/model".
        published: titles of tasks and models.
        cells: what is finished.
    """
    pairs = [cell.split("/") for cell in own]
    tasks, models = (tuple(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    header = ["task", *(published.models[model].title for model in models)]
    rows = [
        [published.tasks.get(task, task)]
        + [_numbers(cells.get(f"{task}/{model}")) for model in models]
        for task in tasks
    ]
    return grid(header, rows)


def accuracies(summary: Summary) -> tuple[float | None, ...]:
    """The numbers of a cell: medians over the seeds of the chosen setting."""
    rows = [run.measures.exact_match[:SHOWN] for run in summary.chosen]
    return tuple(
        median(row[place] for row in rows) if all(len(row) > place for row in rows) else None
        for place in range(SHOWN)
    )


def _numbers(summary: Summary | None) -> str:
    if summary is None:
        return ""
    return " / ".join("–" if value is None else f"{value:.2f}" for value in accuracies(summary))
