"""Accuracy against n as in the paper's Figure 2, with a line and a band for each model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unbounded.errors import ConfigError
from unbounded.figures.style import (
    legend_below,
    line_colour,
    line_width,
    new_figure,
    save,
    style,
)

#: A mapping for one run: n -> share of correct sequences.
Accuracies = Mapping[int, float]


def draw_lengths(
    groups: Mapping[str, Sequence[Accuracies]],
    folder: Path,
    name: str = "lengths",
    *,
    trained_to: int | None = None,
    title: str = "Accuracy by length",
    what: str = "correct sequences",
    shaded: bool = False,
    shares: bool = True,
) -> list[Path]:
    """Draw the share of correct sequences, or another number, against their length n.

    Each group has a line with the values of its single run, or the median over its restarts with a
    band from the least to the greatest value. If some restarts have no score at an n, the other
    restarts are used.

    Args:
        groups: label -> its restarts, each n -> share in 0..1, for example from
            `unbounded.evaluation.score_lengths`.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        trained_to: the longest training n, marked by a line; None for no mark.
        title: heading.
        what: label of the values.
        shaded: whether to shade the training lengths instead of marking their end.
        shares: whether the numbers are shares in 0..1; any finite numbers otherwise.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: no group holds any accuracy, or one is not in 0..1, or not finite.
        StorageError: the folder cannot be written.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, Figure 2.
    """
    measured = {
        label: runs
        for label, all_runs in groups.items()
        if (runs := [run for run in all_runs if run])
    }
    if not measured:
        raise ConfigError("groups: there is nothing to draw: no run has an accuracy")
    expected = "accuracies in 0..1" if shares else "finite numbers"
    errors = [
        f"groups: {label}: expected {expected}, got {accuracy!r} at n = {n}"
        for label, runs in measured.items()
        for run in runs
        for n, accuracy in run.items()
        if not (0 <= accuracy <= 1 if shares else math.isfinite(accuracy))
    ]
    if errors:
        raise ConfigError(errors)
    with style():
        figure = new_figure(7.5, 4.2)
        axis = figure.subplots()
        axis.set_title(title)
        for index, (label, runs) in enumerate(measured.items()):
            lengths = sorted({n for run in runs for n in run})
            values = np.array([[run.get(n, np.nan) for n in lengths] for run in runs])
            shown = label if len(runs) == 1 else f"{label} (median and range of {len(runs)} runs)"
            marker = "o" if len(lengths) == 1 else None
            colour = line_colour(index)
            axis.plot(
                lengths,
                np.nanmedian(values, axis=0),
                color=colour,
                linewidth=line_width(index),
                label=shown,
                marker=marker,
            )
            if len(runs) > 1:
                low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
                axis.fill_between(lengths, low, high, color=colour, alpha=0.18, linewidth=0)
        if trained_to is not None and shaded:
            axis.axvspan(axis.get_xlim()[0], trained_to, color="grey", alpha=0.2, linewidth=0)
        elif trained_to is not None:
            axis.axvline(trained_to, color="grey", linestyle=":", linewidth=1.2)
            axis.annotate(
                "longest of training",
                (trained_to, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -10),
                textcoords="offset points",
                fontsize=8,
                color="grey",
            )
        axis.set_xlabel("n")
        axis.set_ylabel(what)
        if shares:
            axis.set_ylim(-0.03, 1.03)
        axis.grid(axis="y", alpha=0.3)
        legend_below(figure, axis.get_legend_handles_labels()[0], 3.6)
        return save(figure, folder, name)
