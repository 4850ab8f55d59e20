"""A figure of an extracted automaton, with states on a circle and cases at the arrows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch

from unbounded.extraction import Automaton, edges
from unbounded.figures.style import PALETTE, new_figure, plain, save, style

#: Greatest number of cases that are shown at an arrow.
MOST_CASES = 20
#: Greatest number of states in a readable figure.
MOST_STATES = 24

_SIZE = 0.32
_INCHES_A_LINE = 0.13


def draw_automaton(
    automaton: Automaton, folder: Path, name: str = "automaton", *, title: str | None = None
) -> list[Path]:
    """Draw the graph of an automaton.

    The lines at an arrow have the form: input, read symbols / actions : output.

    Args:
        automaton: of at most MOST_STATES states.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        title: heading.
    Returns:
        The path written, in a list; empty for an automaton with more states.
    Raises:
        StorageError: the folder cannot be written.
    """
    if automaton.states > MOST_STATES:
        return []
    arrows = edges(automaton)
    radius = 0.0 if automaton.states == 1 else max(1.6, 0.55 * automaton.states)
    places = [
        (
            radius * math.cos(math.pi - 2 * math.pi * k / automaton.states),
            radius * math.sin(math.pi - 2 * math.pi * k / automaton.states),
        )
        for k in range(automaton.states)
    ]
    loops = [len(cases) for (state, after), cases in arrows.items() if state == after]
    lines = min(max(loops, default=0), MOST_CASES + 1)
    with style():
        high = radius + 1.0 + _INCHES_A_LINE * lines
        figure = new_figure(2 * radius + 5.6, radius + 1.4 + high)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        low = 0.8 if automaton.states <= 2 else radius + 0.8
        axes.set_xlim(-radius - 2.7, radius + 2.7)
        axes.set_ylim(-low, high)
        if title:
            axes.set_title(plain(title))
        for (state, after), cases in arrows.items():
            _arrow(axes, places, state, after, _label(cases))
        for number, (x, y) in enumerate(places):
            axes.add_patch(Circle((x, y), _SIZE, facecolor="white", edgecolor="black", zorder=3))
            axes.text(x, y, f"q{number}", ha="center", va="center", zorder=4)
        x, y = places[automaton.start]
        axes.annotate(
            "", (x - _SIZE, y), (x - 3 * _SIZE, y), arrowprops={"arrowstyle": "->", "lw": 1.4}
        )
        return save(figure, folder, name)


def _label(cases: list[str]) -> str:
    shown = _in_columns(cases[:MOST_CASES])
    if len(cases) > MOST_CASES:
        shown.append(f"and {len(cases) - MOST_CASES} more".ljust(len(shown[0])))
    # A browser merges normal spaces, but not the spaces used here.
    return plain("\n".join(shown)).replace(" ", "\u00a0")


def _in_columns(cases: list[str]) -> list[str]:
    """Align read symbols, actions and output in columns."""
    rows = []
    for case in cases:
        read, actions = case.split(" / ", 1)
        actions, colon, output = actions.partition(" : ")
        rows.append((read, " / ", actions, colon or "   ", output))
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
    # The text is on the convex side of the arc, nearer to its start.
    along, aside = 0.36, 0.5 * bend
    near = (
        x + along * (to_x - x) + aside * (to_y - y),
        y + along * (to_y - y) - aside * (to_x - x),
    )
    axes.text(*near, label, ha="center", va="center", **text)
