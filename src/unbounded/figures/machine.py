"""An extracted machine: its states on a circle, and on the arrows what each case reads and does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

from unbounded.extraction import Machine, edges
from unbounded.figures.style import PALETTE, new_figure, plain, save, style

#: Cases beside one arrow, of which more would hide the picture.
MOST_CASES = 20
#: States beyond which a picture shows nothing.
MOST_STATES = 24

_SIZE = 0.32
_INCHES_A_LINE = 0.13


def draw_machine(
    machine: Machine, folder: Path, name: str = "machine", *, title: str | None = None
) -> list[Path]:
    """Draw the graph of a machine.

    An arrow's lines are: input, symbols read / what is done : what is said.

    Args:
        machine: of at most MOST_STATES states.
        folder: where `name.png` and `name.svg` go; made when missing.
        name: file name without ending.
        title: heading.
    Returns:
        The paths written, PNG first; none of a machine with more states.
    Raises:
        StorageError: the folder cannot be written.
    """
    if machine.states > MOST_STATES:
        return []
    arrows = edges(machine)
    radius = 0.0 if machine.states == 1 else max(1.6, 0.55 * machine.states)
    places = [
        (
            radius * math.cos(math.pi - 2 * math.pi * k / machine.states),
            radius * math.sin(math.pi - 2 * math.pi * k / machine.states),
        )
        for k in range(machine.states)
    ]
    loops = [len(cases) for (state, after), cases in arrows.items() if state == after]
    lines = min(max(loops, default=0), MOST_CASES + 1)
    with style():
        high = radius + 1.0 + _INCHES_A_LINE * lines
        figure = new_figure(2 * radius + 5.6, radius + 1.4 + high)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        low = 0.8 if machine.states <= 2 else radius + 0.8
        axes.set_xlim(-radius - 2.7, radius + 2.7)
        axes.set_ylim(-low, high)
        if title:
            axes.set_title(plain(title))
        for (state, after), cases in arrows.items():
            _arrow(axes, places, state, after, _label(cases))
        for number, (x, y) in enumerate(places):
            axes.add_patch(Circle((x, y), _SIZE, facecolor="white", edgecolor="black", zorder=3))
            axes.text(x, y, f"q{number}", ha="center", va="center", zorder=4)
        x, y = places[machine.start]
        axes.annotate(
            "", (x - _SIZE, y), (x - 3 * _SIZE, y), arrowprops={"arrowstyle": "->", "lw": 1.4}
        )
        return save(figure, folder, name)


def _label(cases: list[str]) -> str:
    shown = _in_columns(cases[:MOST_CASES])
    if len(cases) > MOST_CASES:
        shown.append(f"and {len(cases) - MOST_CASES} more".ljust(len(shown[0])))
    # A browser makes one of several spaces, but not of these.
    return plain("\n".join(shown)).replace(" ", "\u00a0")


def _in_columns(cases: list[str]) -> list[str]:
    """What is read, what is done and what is said, each below the other."""
    rows = []
    for case in cases:
        read, done = case.split(" / ", 1)
        done, colon, said = done.partition(" : ")
        rows.append((read, " / ", done, colon or "   ", said))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        "".join(part.ljust(width) for part, width in zip(row, widths, strict=True)) for row in rows
    ]


def _arrow(
    axes: Axes, places: list[tuple[float, float]], state: int, after: int, label: str
) -> None:
    colour = PALETTE[state % len(PALETTE)]
    (x, y), (to_x, to_y) = places[state], places[after]
    text: dict[str, Any] = {"fontsize": 7, "family": "monospace", "color": colour, "zorder": 5}
    if state == after:
        loop = FancyArrowPatch(
            (x - 0.6 * _SIZE, y + 0.8 * _SIZE),
            (x + 0.6 * _SIZE, y + 0.8 * _SIZE),
            connectionstyle="arc3,rad=-1.6",
            arrowstyle="-|>",
            mutation_scale=10,
            color=colour,
        )
        axes.add_patch(loop)
        axes.text(x, y + 2.6 * _SIZE, label, ha="center", va="bottom", **text)
        return
    bend = 0.18
    axes.add_patch(
        FancyArrowPatch(
            (x, y),
            (to_x, to_y),
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=10,
            shrinkA=24,
            shrinkB=24,
            color=colour,
        )
    )
    # Beside the bow, on the side to which it bends, and nearer to where it begins.
    along, beside = 0.36, 0.5 * bend
    near = (
        x + along * (to_x - x) + beside * (to_y - y),
        y + along * (to_y - y) - beside * (to_x - x),
    )
    axes.text(*near, label, ha="center", va="center", **text)
