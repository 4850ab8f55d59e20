"""Convergence as in the paper's Figure 2b: perplexity and accuracy against batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from unbounded.errors import ConfigError
from unbounded.figures.curves import Curves, Points
from unbounded.figures.style import (
    legend_below,
    line_colour,
    line_width,
    new_figure,
    save,
    style,
)

Dash = Literal["-", ":", "--", "-."]

# The longest lengths are the most interesting, so they have the solid line.
_DASHES: tuple[Dash, ...] = ("-", ":", "--", "-.")
_VALIDATION: Dash = "--"


def draw_convergence(
    groups: Mapping[str, Sequence[Curves]],
    folder: Path,
    name: str = "convergence",
    *,
    title: str = "Convergence",
) -> list[Path]:
    """Draw perplexity, exact match and partial accuracy against batches, as far as available.

    Each group has a line with the values of its single run, or the median over its runs. Solid
    lines show training perplexity, and accuracies at the longest lengths. Solid lines have a band
    from the least to the greatest value of the runs. Lines for shorter lengths are dotted or
    dashed, and validation perplexity is dashed. A run that ended early keeps its last value.

    Args:
        groups: label -> runs that differ only in seed.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        title: heading.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: no group holds any measurement.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, Figure 2b.
    """
    measured = {
        label: runs
        for label, all_runs in groups.items()
        if (runs := [run for run in all_runs if run.batches])
    }
    if not measured:
        raise ConfigError("there is nothing to draw: no run has measured anything yet")
    with style():
        dashes = _dashes(measured)
        validated = any(run.validation for runs in measured.values() for run in runs)
        figure = new_figure(7.5, 8.5)
        figure.suptitle(title, fontsize=12)
        perplexity, *accuracies = figure.subplots(
            3 if dashes else 1, 1, sharex=True, squeeze=False
        )[:, 0]
        for index, runs in enumerate(measured.values()):
            _line(perplexity, [run.perplexity for run in runs], index, "-")
            _line(perplexity, [run.validation for run in runs], index, _VALIDATION)
            for lengths, dash in dashes.items():
                for axis, measure in zip(
                    accuracies, ("exact_match", "partial_accuracy"), strict=True
                ):
                    points = [getattr(run, measure).get(lengths, {}) for run in runs]
                    _line(axis, points, index, dash)
        _finish(perplexity, accuracies, "perplexity" if validated else "training perplexity")
        if validated:
            _keep_in_view(perplexity, [run for runs in measured.values() for run in runs])
        handles = [
            Line2D(
                [],
                [],
                color=line_colour(index),
                linewidth=line_width(index),
                label=_labelled(label, len(runs)),
            )
            for index, (label, runs) in enumerate(measured.items())
        ]
        handles += [
            Line2D([], [], color="grey", linestyle=dash, label=f"lengths {lengths}")
            for lengths, dash in dashes.items()
        ]
        if validated:
            for dash, label in (("-", "training"), (_VALIDATION, "validation")):
                handles.append(Line2D([], [], color="grey", linestyle=dash, label=label))
        legend_below(figure, handles, 7.2 if dashes else 3.4)
        return save(figure, folder, name)


def over_runs(runs: Sequence[Points]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Align the curves of several runs.

    Returns:
        the batches [P] of all values, and values [runs, P]: the run's last value at or before the
        batch; NaN before its first value.
    """
    batches = sorted({batch for points in runs for batch in points})
    values = np.full((len(runs), len(batches)), np.nan)
    for row, points in enumerate(runs):
        last = np.nan
        for column, batch in enumerate(batches):
            last = points.get(batch, last)
            values[row, column] = last
    return np.array(batches, dtype=np.int64), values


def _dashes(groups: Mapping[str, Sequence[Curves]]) -> dict[str, Dash]:
    """The dash pattern for each length range with a score, the longest range first."""
    all_lengths = {
        lengths for runs in groups.values() for run in runs for lengths in run.exact_match
    }
    ordered = sorted(all_lengths, key=lambda lengths: [int(end) for end in lengths.split(":")])
    return {lengths: _DASHES[index % 4] for index, lengths in enumerate(reversed(ordered))}


def _line(axis: Axes, runs: Sequence[Points], index: int, dash: Dash) -> None:
    runs = [points for points in runs if points]
    if not runs:
        return
    batches, values = over_runs(runs)
    complete = ~np.isnan(values).any(axis=0)
    batches, values = batches[complete], values[:, complete]
    median = np.median(values, axis=0)
    # A curve with a single point is drawn as a dot.
    marker = "o" if len(batches) == 1 else None
    colour = line_colour(index)
    width = line_width(index)
    axis.plot(batches, median, color=colour, linestyle=dash, linewidth=width, marker=marker)
    if len(runs) > 1 and dash == "-":
        low, high = values.min(axis=0), values.max(axis=0)
        axis.fill_between(batches, low, high, color=colour, alpha=0.18, linewidth=0)


def _finish(perplexity: Axes, accuracies: Sequence[Axes], label: str) -> None:
    perplexity.set_yscale("log")
    perplexity.set_ylabel(label)
    for axis, measure in zip(accuracies, ("exact_match", "partial_accuracy"), strict=False):
        axis.set_ylabel(measure.replace("_", " "))
        axis.set_ylim(-0.03, 1.03)
        axis.grid(axis="y", alpha=0.3)
    lowest = [perplexity, *accuracies][-1]
    lowest.set_xlabel("batches")
    lowest.set_xlim(left=0)


def _keep_in_view(perplexity: Axes, runs: Sequence[Curves]) -> None:
    """Limit the axis, so that an outlier in validation does not flatten all other lines."""
    trained = [value for run in runs for value in run.perplexity.values()]
    validation_values = [value for run in runs for value in run.validation.values()]
    if trained:
        perplexity.set_ylim(0.9 * min(trained + validation_values), 2 * max(trained))


def _labelled(label: str, runs: int) -> str:
    return label if runs == 1 else f"{label} (median and range of {runs} runs)"
