"""The lattice path of a bracket string: up for each opening bracket, down for each closing one.

Source: Deleu & Dureau 2016, arXiv:1612.00827, Figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from unbounded.errors import ConfigError
from unbounded.figures.style import line_colour, new_figure, plain, save, style

_INCHES_A_STEP = 0.32


def draw_path(
    symbols: Sequence[str],
    heights: Sequence[float],
    folder: Path,
    name: str = "path",
    *,
    title: str = "",
) -> list[Path]:
    """Draw the path of one bracket string, with its symbols below.

    Args:
        symbols: of the string, T of them.
        heights: after each symbol, T numbers.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        title: heading.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: there is no symbol, or not a height for each.
        StorageError: the folder cannot be written.
    """
    if not symbols or len(symbols) != len(heights):
        raise ConfigError(
            [
                "symbols and heights: expected as many of one as of the other, at least one, got "
                f"{len(symbols)} and {len(heights)}"
            ]
        )
    with style():
        figure = new_figure(min(14.0, 1.2 + _INCHES_A_STEP * len(symbols)), 2.6)
        axis = figure.subplots()
        plot_path(axis, heights)
        axis.set_xticks([step + 0.5 for step in range(len(symbols))])
        axis.set_xticklabels([plain(symbol) for symbol in symbols])
        axis.tick_params(axis="x", length=0)
        if title:
            axis.set_title(title)
        return save(figure, folder, name)


def plot_path(axis: Axes, heights: Sequence[float]) -> None:
    """Draw a path from height 0 into axes; heights below 0 have another colour."""
    points = [0.0, *heights]
    axis.plot(range(len(points)), points, color=line_colour(0), marker="o", markersize=3)
    below = [(step, height) for step, height in enumerate(points) if height < 0]
    if below:
        axis.plot(*zip(*below, strict=True), "o", color=line_colour(1), markersize=4)
    axis.axhline(0, color="grey", linewidth=0.8)
    axis.set_ylabel("height")
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
