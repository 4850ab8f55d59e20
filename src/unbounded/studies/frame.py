"""A study as a data frame, and its tables in formats other than Markdown."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unbounded.errors import LabError
from unbounded.files import replacing, write_text
from unbounded.studies.run_results import StudyRun, study_runs
from unbounded.studies.study_folder import StudyFolder
from unbounded.studies.study_table import Table

if TYPE_CHECKING:
    import pandas as pd

#: Formats of tables, and the files that each format writes.
FORMATS: Final = {"md": "table.md", "csv": "table.csv", "parquet": "table.parquet",
                  "latex": "table.tex"}  # fmt: skip


def load(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """The runs of a study as a pandas DataFrame, with one row for each run.

    Columns are run, task, one for each axis by its name (such as model.memory), seed, state,
    batches, minutes, the metrics on the test split, selection_metric (on validation, lower is
    better), success, and error.

    Args:
        folder: the study's folder.
    Raises:
        LabError: pandas is not installed.
        CheckpointError: the folder is not a study's, or a report is damaged.
    """
    return frame_of(study_runs(StudyFolder(Path(folder))))


def frame_of(runs: list[StudyRun]) -> pd.DataFrame:
    """The runs as a DataFrame, as `load` returns it.

    Raises:
        LabError: pandas is not installed.
    """
    pandas = need("pandas", "tables")
    axes = dict.fromkeys(axis for run in runs for axis in run.axes)
    metrics = dict.fromkeys(name for run in runs for name in run.values())
    rows = [
        {
            "run": run.name,
            "task": run.task,
            **{axis: run.axes.get(axis) for axis in axes if axis != "task"},
            "seed": run.seed,
            "state": run.state,
            "batches": run.batches,
            "minutes": run.minutes,
            **{name: run.values().get(name) for name in metrics},
            "error": run.error,
        }
        for run in runs
    ]
    frame: pd.DataFrame = pandas.DataFrame(rows)
    # An axis with values of several types, such as null and numbers, is text in Parquet.
    for axis in axes:
        if axis in frame and len({type(value) for value in frame[axis]}) > 1:
            frame[axis] = frame[axis].map(lambda value: None if value is None else str(value))
    return frame


def write_tables(kind: str, table: Table, runs: list[StudyRun], folder: StudyFolder) -> list[Path]:
    """Write a study's table in a format. CSV and Parquet also have all runs, one row for each.

    Args:
        kind: one of FORMATS.
        table: the table.
        runs: all runs.
        folder: gets the files.
    Raises:
        LabError: a package of the format is not installed.
        StorageError: a file cannot be written.
    """
    path = folder.path / FORMATS[kind]
    if kind == "md":
        write_text(path, table.markdown() + "\n")
        return [path]
    if kind == "latex":
        write_text(path, latex(table))
        return [path]
    pandas = need("pandas", "tables")
    frame = pandas.DataFrame([list(row) for row in table.rows], columns=list(table.header))
    every = path.with_name(f"runs.{kind}")
    for own, content in ((path, frame), (every, frame_of(runs))):
        with replacing(own) as draft:
            if kind == "csv":
                content.to_csv(draft, index=False)
            else:
                need("pyarrow", "tables")
                content.to_parquet(draft, index=False)
    return [path, every]


def latex(table: Table) -> str:
    """Format the table in LaTeX for the package booktabs."""
    lines = [" & ".join(map(_escaped, cells)) + r" \\" for cells in (table.header, *table.rows)]
    columns = "l" * len(table.header)
    notes = "".join(f"% {note}\n" for note in table.notes)
    body = "\n".join(lines[1:])
    return (
        f"{notes}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{lines[0]}\n\\midrule\n{body}\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: f"\\{character}" for character in "&%$#_{}"}
    return "".join(special.get(character, character) for character in text).replace("–", "--")


def need(package: str, extra: str) -> Any:
    """Import a package that belongs to an extra.

    Raises:
        LabError: it is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise LabError(
            f"this needs {package}: pip install 'unbounded[{extra}]' ({error})"
        ) from error
