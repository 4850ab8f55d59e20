"""The table of a study, with one line for each cell, or with axes as rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.trials.study_file import StudyFile
from unbounded.studies.missing import missing_notes
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


def table_of(study: StudyFile, runs: Sequence[StudyRun], *, longer: bool = False) -> Table:
    """The table that a study's file describes.

    Args:
        study: the study; it names the axes to choose over, and rows and columns.
        runs: all its runs.
        longer: whether a table of all metrics includes the metrics of the role "longer".
    Raises:
        ConfigError: no run has the table's metric.
    """
    cells = cells_of(runs, study.select)
    metrics, digits = metrics_of(runs, longer=longer), metrics_of(runs, longer=True)
    metric = study.table.metric
    if metric is not None:
        check_metric(metric, runs)
    notes = list(_notes(study, runs, cells))
    if study.table.columns:
        # A metric of the test range is the most informative column, so it is the default.
        tested = [name for name in metrics if name.startswith("test")]
        metric = metric or next(iter([*tested, *metrics]), "selection_metric")
        header, rows = _crossed(study, cells, metric, digits.get(metric, 4))
        shown = [metric]
        notes.insert(0, f"{metric}: median over seeds.")
    else:
        shown = list(metrics) if metric is None else [metric]
        header, rows = _listed(study, cells, {name: digits.get(name, 4) for name in shown})
        text = "Metrics: median over seeds (least to greatest)."
        if "solved" in header:
            text += " Solved: seeds that reach the task's criterion, with Wilson's 95 % interval."
        notes.insert(0, text)
        if study.select:
            notes.append(
                "The column `runs` counts the runs of every value; all other columns are for the "
                "chosen value only."
            )
    notes += missing_notes(runs, shown)
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


def _notes(study: StudyFile, runs: Sequence[StudyRun], cells: Sequence[Cell]) -> list[str]:
    notes = []
    axes = " and ".join(map(short, study.select))
    undecided = [cell for cell in cells if cell.is_undecided]
    if study.select and len(undecided) < len(cells):
        notes.append(f"The value of {axes} is chosen by the median selection metric on validation.")
    if undecided:
        where = (
            "" if len(undecided) == len(cells) else f" in {len(undecided)} of {len(cells)} cells"
        )
        notes.append(
            f"No value of {axes} can be chosen{where}, because at every value at least half of the "
            f"runs have no selection metric. {_why_undecided(runs)}Leave `select` out to show "
            "every value."
        )
    states = [run.state for run in runs]
    missing = {state: states.count(state) for state in dict.fromkeys(states) if state != "finished"}
    if missing:
        text = ", ".join(f"{count} {state}" for state, count in missing.items())
        notes.append(f"{states.count('finished')} of {len(runs)} runs are finished; {text}.")
    return notes


def _why_undecided(runs: Sequence[StudyRun]) -> str:
    """The reason why runs have no selection metric, if it is known."""
    names = {run.numbers.metric_set for run in runs if run.numbers is not None}
    measured = {metric_set_of(name).selection_metric for name in names}
    if "training perplexity" not in measured:
        return ""
    return (
        "It is the training perplexity, which is measured every `training.report_every` batches: "
        "a run of fewer batches has none. "
    )


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
