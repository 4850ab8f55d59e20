"""A page with all runs of a study and their curves, which can be searched and sorted."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from unbounded.errors import CheckpointError
from unbounded.experiments.trials.study_file import StudyFile
from unbounded.explorer.page import escaped
from unbounded.figures.curves import read_curves
from unbounded.files import json_text, write_text
from unbounded.studies.run_results import StudyRun
from unbounded.studies.study_folder import StudyFolder
from unbounded.studies.study_table import short

#: Greatest number of points of a curve in the page.
_POINTS: Final = 60
#: The explorer's page in a run folder (`unbounded explore RUN`).
_EXPLORER: Final = "explore.html"
_PLACE: Final = "{data}"


def write_study_page(study: StudyFile, runs: Sequence[StudyRun], folder: StudyFolder) -> str:
    """Write index.html, a single self-contained file, into the study's folder.

    Args:
        study: the study.
        runs: all its runs.
        folder: gets the file.
    Returns:
        The path of the page.
    Raises:
        StorageError: the file cannot be written.
    """
    metrics = list(dict.fromkeys(name for run in runs for name in run.values()))
    columns = [*map(short, study.axes), "seed", "state", *metrics, "batches", "minutes"]
    data = {
        "title": study.name,
        "about": study.about,
        "curve": "training perplexity",
        "columns": columns,
        "runs": [_row(study, run, metrics, folder) for run in runs],
    }
    template = resources.files("unbounded.studies").joinpath("page.html").read_text("utf-8")
    before, _, after = template.partition(_PLACE)
    text = escaped(json.dumps(json.loads(json_text(data)), separators=(",", ":")))
    write_text(folder.page_file, before + text + after)
    return str(folder.page_file)


def _row(
    study: StudyFile, run: StudyRun, metrics: Sequence[str], folder: StudyFolder
) -> dict[str, Any]:
    values, path = run.values(), folder.runs / run.name
    axes = [run.axes.get(axis) for axis in study.axes]
    cells = [
        *axes,
        run.seed,
        run.state,
        *(values.get(name) for name in metrics),
        run.batches or None,
        round(run.minutes, 3) or None,
    ]
    page = path / _EXPLORER
    link = os.path.relpath(page, folder.path) if page.is_file() else ""
    command = f"unbounded explore {shlex.quote(str(path))}" if run.numbers is not None else ""
    return {
        "name": run.name,
        "cells": cells,
        "error": run.error,
        "curve": _curve(folder, run),
        "explorer": link,
        "command": command,
    }


def _curve(folder: StudyFolder, run: StudyRun) -> list[list[float]]:
    """Some points of a run's training perplexity; empty if the run has not begun."""
    try:
        points = sorted(read_curves(folder.runs / run.name).perplexity.items())
    except CheckpointError:
        return []
    step = max(1, -(-len(points) // _POINTS))
    few = points[::step]
    few += points[-1:] if points and few[-1] != points[-1] else []
    return [[batch, float(f"{value:.4g}")] for batch, value in few]
