"""Plots of a study: a metric against an axis."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from unbounded.errors import ConfigError, did_you_mean
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.metric_sets.base import ROLES
from unbounded.experiments.trials.study_file import StudyFile
from unbounded.figures.sweep import draw_sweep
from unbounded.studies.missing import missing_notes
from unbounded.studies.run_results import StudyRun, check_metric
from unbounded.studies.study_table import axis_text, short

#: Names of shares, as fields of a report's rows and in the names of metrics.
_SHARES: Final = ("exact_match", "accuracy", "auc")


def draw_study(
    study: StudyFile,
    runs: Sequence[StudyRun],
    folder: Path,
    *,
    metric: str,
    against: str | None = None,
    by: Sequence[str] | None = None,
) -> list[Path]:
    """Draw a metric against an axis, with a line for each value of the other axes.

    Args:
        study: the study.
        runs: all its runs.
        folder: folder of the SVG.
        metric: a metric, selection_metric, success, minutes or batches.
        against: an axis; None for the last one.
        by: axes that make lines; None for all others. Seeds and other axes are joined.
    Raises:
        ConfigError: there is no such metric or axis, or nothing to draw.
        StorageError: the folder cannot be written.
    """
    if not study.axes:
        raise ConfigError("plot: the study has no axis")
    against = study.axes[-1] if against is None else _axis(study, against, "against")
    others = [axis for axis in study.axes if axis != against]
    lines_by = others if by is None else [_axis(study, axis, "by") for axis in by]
    if metric not in ("minutes", "batches"):
        check_metric(metric, runs)
    lines: dict[str, dict[Any, list[float]]] = {}
    for run in runs:
        value = _value(run, metric)
        if value is None or against not in run.axes:
            continue
        label = ", ".join(f"{short(axis)} {axis_text(run.axes.get(axis))}" for axis in lines_by)
        lines.setdefault(label, {}).setdefault(run.axes[against], []).append(value)
    if not lines:
        notes = " ".join(missing_notes(runs, [metric]))
        raise ConfigError(f"plot: no finished run has {metric} and {against}. {notes}".rstrip(". "))
    name = re.sub(r"[^\w.-]+", "_", f"{metric}_by_{short(against)}")
    return draw_sweep(
        lines,
        folder,
        name,
        axis=against,
        metric="success rate" if metric == "success" else metric,
        title=study.name,
        is_share=metric == "success",
        bounds=(0.0, 1.0) if is_share(metric, runs) else (-math.inf, math.inf),
    )


def is_share(metric: str, runs: Sequence[StudyRun]) -> bool:
    """Whether a metric is a share in [0, 1], such as an exact match, an accuracy or an area."""
    sets = [metric_set_of(run.numbers.metric_set) for run in runs if run.numbers is not None]
    fields = [
        field
        for metric_set in sets
        for measure, field in metric_set.measures.items()
        for row in ROLES
        if metric_set.column.format(row=row, measure=measure) == metric
    ]
    # A scaled accuracy is below 0 if a model is worse than chance.
    is_named = any(word in metric for word in _SHARES) and "scaled" not in metric
    return is_named or (bool(fields) and set(fields) <= set(_SHARES))


def _value(run: StudyRun, metric: str) -> float | None:
    if run.numbers is None:
        return None
    if metric in ("minutes", "batches"):
        return float(getattr(run, metric))
    return run.values().get(metric)


def _axis(study: StudyFile, name: str, option: str) -> str:
    """Find an axis by its name, or by the last part of its name."""
    if name in study.axes:
        return name
    ends: Iterable[str] = [axis for axis in study.axes if short(axis) == name]
    found = list(ends)
    if len(found) == 1:
        return found[0]
    hint = did_you_mean(name, study.axes)
    raise ConfigError(f"{option}: {name!r} is no axis.{hint} Axes: {', '.join(study.axes)}.")
