"""The table of a study, with one line for each cell, or with axes as rows and columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.trials.study_file import StudyFile
from unbounded.studies.run_results import Cell, StudyRun, cells_of, check_metric, metrics_of

_EMPTY: Final = "–"


@dataclass(frozen=True)
class Table:
    """A table as text.

    Fields:
        header: names of the columns.
        rows: the cells' texts.
        notes: sentences below it.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def markdown(self) -> str:
        """The table and its notes as Markdown."""
        return "\n\n".join([grid(self.header, self.rows, lined_up=True), *self.notes])


def table_of(study: StudyFile, runs: Sequence[StudyRun]) -> Table:
    """The table that a study's file describes.

    Args:
        study: the study; it names the axes to choose over, and rows and columns.
        runs: all its runs.
    Raises:
        ConfigError: no run has the table's metric.
    """
    cells = cells_of(runs, study.select)
    metrics = metrics_of(runs)
    metric = study.table.metric
    if metric is not None:
        check_metric(metric, runs)
    notes = list(_notes(study, runs))
    if study.table.columns:
        # A metric of the test range is the most informative column, so it is the default.
        tested = [name for name in metrics if name.startswith("test")]
        metric = metric or next(iter([*tested, *metrics]), "selection_metric")
        header, rows = _crossed(study, cells, metric, metrics.get(metric, 4))
        shown = [metric]
        notes.insert(0, f"{metric}: median over seeds.")
    else:
        shown = list(metrics) if metric is None else [metric]
        header, rows = _listed(study, cells, {name: metrics.get(name, 4) for name in shown})
        notes.insert(0, "Metrics: median over seeds (least to greatest). Solved: seeds that reach "
                        "the task's criterion, with Wilson's 95 % interval.")  # fmt: skip
        if study.select:
            notes.append("Runs are those of all selected values, the other numbers of the chosen.")
    notes += _missing_notes(runs, shown)
    return Table(tuple(header), tuple(map(tuple, rows)), tuple(notes))


def _listed(
    study: StudyFile, cells: Sequence[Cell], metrics: dict[str, int]
) -> tuple[list[str], list[list[str]]]:
    tasks = "task" in study.axes
    axes = [axis for axis in study.table.rows or study.axes if axis not in study.select]
    axes += [axis for axis in study.axes if axis not in axes and axis not in study.select]
    # The task defines the criterion of success, so either all cells have a success or none has.
    has_success = any(cell.successes() for cell in cells)
    solved = ["solved"] if has_success else []
    header = [*map(short, axes), *map(short, study.select), "runs", *solved, *metrics]
    rows = []
    for cell in cells:
        labels = [axis_text(cell.axes.get(axis)) for axis in axes]
        chosen = [axis_text(cell.chosen.get(axis)) for axis in study.select]
        count = f"{cell.finished}/{cell.planned}"
        successes = [_solved(cell)] if has_success else []
        numbers = [_spread(cell.numbers(name), digits) for name, digits in metrics.items()]
        rows.append([*labels, *chosen, count, *successes, *numbers])
    if study.table.rows and not tasks:
        order = {tuple(row): place for place, row in enumerate(rows)}
        rows.sort(key=lambda row: order[tuple(row)])
    return header, rows


def _crossed(
    study: StudyFile, cells: Sequence[Cell], metric: str, digits: int
) -> tuple[list[str], list[list[str]]]:
    columns = study.table.columns
    others = [axis for axis in study.axes if axis not in (*columns, *study.select)]
    row_axes = [*study.table.rows, *(axis for axis in others if axis not in study.table.rows)]
    by_place: dict[tuple[str, ...], dict[str, str]] = {}
    heads: dict[str, None] = {}
    for cell in cells:
        head = ", ".join(axis_text(cell.axes.get(axis)) for axis in columns)
        heads[head] = None
        place = tuple(axis_text(cell.axes.get(axis)) for axis in row_axes)
        values = cell.numbers(metric)
        text = f"{median(values):.{digits}f}" if values else _EMPTY
        by_place.setdefault(place, {})[head] = text
    header = [*map(short, row_axes), *heads]
    rows = [
        [*place, *(texts.get(head, _EMPTY) for head in heads)] for place, texts in by_place.items()
    ]
    return header, rows


def _notes(study: StudyFile, runs: Sequence[StudyRun]) -> list[str]:
    notes = []
    if study.select:
        axes = " and ".join(map(short, study.select))
        notes.append(f"The value of {axes} is chosen by the median selection metric on validation.")
    states = [run.state for run in runs]
    missing = {state: states.count(state) for state in dict.fromkeys(states) if state != "finished"}
    if missing:
        text = ", ".join(f"{count} {state}" for state, count in missing.items())
        notes.append(f"{states.count('finished')} of {len(runs)} runs are finished; {text}.")
    return notes


def _missing_notes(runs: Sequence[StudyRun], shown: Sequence[str]) -> list[str]:
    """The reason why all numbers of a table are missing, although runs are finished."""
    numbers = [run.numbers for run in runs if run.numbers is not None]
    if not numbers or any(run.values().get(name) is not None for run in runs for name in shown):
        return []
    text = f"No finished run has {' or '.join(shown)}."
    roles = {range_role for each in numbers for range_role in each.roles.items()}
    if not roles:
        return [text]
    in_order = sorted(roles, key=lambda each: tuple(map(int, re.findall(r"\d+", each[0]))))
    scored = ", ".join(f"{lengths} ({role})" for lengths, role in in_order)
    return [
        f'{text} The scored ranges and their roles: {scored}. The role "test" is for the range of '
        "`task.test_lengths`, or else of `training.validation_lengths`. Set one of them to a range "
        "of `evaluation.lengths`, or choose the metric of another role."
    ]


def _solved(cell: Cell) -> str:
    found = cell.successes()
    if found is None:
        return _EMPTY
    correct, count, low, high = found
    return f"{correct}/{count} [{low:.2f}, {high:.2f}]"


def _spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return _EMPTY
    middle = f"{median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def short(axis: str) -> str:
    """The last part of an axis's name, for a heading; for model.memory.name it is "memory"."""
    *before, last = axis.split(".")
    return before[-1] if last == "name" and before else last


def axis_text(value: Any) -> str:
    """The text of an axis's value; a dash if the cell does not have the axis."""
    return _EMPTY if value is None else f"{value:g}" if isinstance(value, float) else str(value)
