"""Build the matrix of tasks and models, with two numbers in each cell.

The numbers are the two columns of the metric set that the paper's file names (`overview`). By
default they are the exact match in a report's first two rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from unbounded.experiments.tables.markdown import grid, number_cell
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.results import Summary
from unbounded.experiments.tables.table_data import Cells

#: The meaning of the two numbers of a cell.
MATRIX_LEGEND: Final = """\
Each cell is exact match at the training lengths / at twice the training lengths. This is the share
of sequences of the test split that are wholly correct. In streams, all determined symbols of a
sequence must be correct. The numbers are medians over seeds. All cells had the same budget of
symbols."""
#: Number of report rows that are shown in a cell. Studies order the rows: training lengths first,
#: then twice these lengths.
SHOWN: Final = 2


def matrix_grid(own: Sequence[str], published: Published, cells: Cells) -> str:
    """Tasks as rows, models as columns; a cell without a finished run is empty.

    Args:
        own: the cells of the table, "task/model".
        published: titles of tasks and models.
        cells: summaries of the finished runs.
    """
    pairs = [cell.split("/") for cell in own]
    tasks, models = (tuple(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    header = ["task", *(published.models[model].title for model in models)]
    rows = [
        [published.tasks.get(task, task)]
        + [_numbers(cells.get(f"{task}/{model}"), published.overview) for model in models]
        for task in tasks
    ]
    return grid(header, rows)


def overview_legend(columns: Sequence[str]) -> str:
    """Describe the two numbers of a cell, according to their columns."""
    names = " / ".join(column.replace("_", " ") for column in columns)
    return f"Each cell is {names}, the median over seeds. A cell without a finished run is empty."


def accuracies(summary: Summary, columns: Sequence[str] = ()) -> tuple[float | None, ...]:
    """The numbers of a cell: medians over the seeds of the chosen setting. None if missing.

    Args:
        summary: the finished runs of the cell.
        columns: columns of the metric set; exact match of the first two rows without any.
    """
    if columns:
        return tuple(summary.over_seeds(column)[0] for column in columns)
    rows = [run.measures.exact_match[:SHOWN] for run in summary.chosen]
    return tuple(
        median(row[place] for row in rows) if all(len(row) > place for row in rows) else None
        for place in range(SHOWN)
    )


def _numbers(summary: Summary | None, columns: Sequence[str]) -> str:
    if summary is None:
        return ""
    return " / ".join(number_cell(value, 2) for value in accuracies(summary, columns))
