"""Tasks against models, with two shares in each cell, such as exact match at two lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.patches import Polygon

from unbounded.errors import ConfigError
from unbounded.figures.style import READ_COLOURS, new_figure, plain, save, style


def draw_matrix(
    numbers: Mapping[tuple[str, str], Sequence[float | None]],
    tasks: Mapping[str, str],
    models: Mapping[str, str],
    folder: Path,
    name: str = "matrix",
    *,
    title: str = "",
    halves: str = "above: training lengths; below: twice these",
) -> list[Path]:
    """Draw each cell as a diagonally split square.

    By default, training lengths are above longer lengths.

    Args:
        numbers: (task, model) -> two shares in 0..1, the upper one first; None for a missing one.
            A missing cell is white.
        tasks, models: names in order, with titles.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        title: heading.
        halves: what the two halves of a cell show.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: there is no cell.
        StorageError: the folder cannot be written.
    """
    if not numbers:
        raise ConfigError("numbers: there is nothing to draw: no cell has a number")
    import matplotlib as mpl

    colours = mpl.colormaps[READ_COLOURS]
    rows, columns = list(tasks), list(models)
    with style():
        figure = new_figure(2.2 + 0.75 * len(columns), 1.6 + 0.5 * len(rows))
        axis = figure.subplots()
        axis.set_title(title)
        for (task, model), values in numbers.items():
            x, y = columns.index(model), rows.index(task)
            corners = ([(x, y), (x + 1, y), (x, y + 1)], [(x + 1, y), (x + 1, y + 1), (x, y + 1)])
            centres = ((x + 0.3, y + 0.32), (x + 0.7, y + 0.72))
            for corner, centre, value in zip(corners, centres, values, strict=False):
                if value is None:
                    continue
                axis.add_patch(Polygon(corner, facecolor=colours(value), edgecolor="white"))
                ink = "white" if value > 0.6 else "black"
                text = f"{value:.2f}"
                axis.text(*centre, text, ha="center", va="center", fontsize=6.5, color=ink)
        axis.set_xlim(0, len(columns))
        axis.set_ylim(len(rows), 0)
        axis.set_xticks([x + 0.5 for x in range(len(columns))])
        axis.set_xticklabels([plain(text) for text in models.values()], rotation=40, ha="right")
        axis.set_yticks([y + 0.5 for y in range(len(rows))])
        axis.set_yticklabels([plain(text) for text in tasks.values()])
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
        axis.set_xlabel(halves)
        return save(figure, folder, name)
