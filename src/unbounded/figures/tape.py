"""The heads of a tape over time, with the path of a word and the labels of its prefixes.

Source: Deleu & Dureau 2016, arXiv:1612.00827, Figure 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from unbounded.errors import ConfigError
from unbounded.figures.style import (
    READ_COLOURS,
    STRENGTH_COLOURS,
    line_colour,
    new_figure,
    plain,
    save,
    set_heading,
    style,
)
from unbounded.figures.traces import Array, steps_and_symbols
from unbounded.rnn.trace import Trace

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
            "symbols and heights: expected the same number of both, at least one, got "
            f"{len(symbols)} and {len(heights)}"
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
    """Draw a path from height 0 into axes. Heights below 0 have another colour."""
    points = [0.0, *heights]
    axis.plot(range(len(points)), points, color=line_colour(0), marker="o", markersize=3)
    below = [(step, height) for step, height in enumerate(points) if height < 0]
    if below:
        axis.plot(*zip(*below, strict=True), "o", color=line_colour(1), markersize=4)
    axis.axhline(0, color="grey", linewidth=0.8)
    axis.set_ylabel("height")
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))


# Locations where every head always has less weight than this are not drawn.
_SEEN = 0.01
_MOST_LABELS = 40


@dataclass(frozen=True)
class TapeTrace:
    """The heads of a tape on one sequence of T steps.

    Fields:
        symbols: of each step.
        read_weights, write_weights: [T, heads, N]; each row sums to 1.
        heights: of the path after each step, [T]; None if the task has no path.
        chances: probability of label 1 for each prefix, [T]; None for a task without labels.
    """

    symbols: tuple[str, ...]
    read_weights: Array
    write_weights: Array
    heights: Array | None
    chances: Array | None


def read_tape(trace: Trace, example: int = 0) -> TapeTrace:
    """Sequence `example` of the trace of a tape, truncated to its length.

    Raises:
        ConfigError: the trace is of another memory, or `example` is not in the batch.
    """
    if not {"write_weights", "read_weights"} <= trace.arrays.keys():
        raise ConfigError(f"trace: expected the weights of a tape, got a trace of {trace.memory}")
    steps, names = steps_and_symbols(trace, example)

    def array(name: str) -> Array | None:
        values = trace.arrays.get(name)
        return (
            None
            if values is None
            else np.asarray(values[example, :steps].detach().cpu().double().numpy())
        )

    read, write = array("read_weights"), array("write_weights")
    assert read is not None
    assert write is not None
    return TapeTrace(names, read, write, array("height"), array("chance"))


def draw_tape(
    trace: Trace, folder: Path, name: str = "tape", *, example: int = 0, title: str = ""
) -> list[Path]:
    """Draw the positions of a tape's heads at each step.

    From top to bottom, as far as available: the probability of label 1 for each prefix, the lattice
    path, the weights of each write head, the weights of each read head. Steps run to the right
    under their symbols, and locations run upwards. Locations that no head visits are omitted.

    Args:
        trace: of a layer, or from `unbounded.load_trace`.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        example: index of the sequence in the trace's batch, from 0.
        title: heading.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: see `read_tape`.
        StorageError: the folder cannot be written.
    """
    heads = read_tape(trace, example)
    with style():
        figure = tape_figure(heads)
        set_heading(figure, title)
        return save(figure, folder, name)


def tape_figure(trace: TapeTrace, locations: tuple[int, int] | None = None) -> Figure:
    """Make the figure of `draw_tape`. Call this function inside `style()`.

    Args:
        trace: the heads on a sequence.
        locations: the first and the last that are drawn; None for those that a head visits.
    """
    first, last = seen_locations([trace]) if locations is None else locations
    strips = [trace.chances is not None, trace.heights is not None]
    heads = trace.write_weights.shape[1] + trace.read_weights.shape[1]
    ratios = [0.5] * strips[0] + [0.8] * strips[1] + [1.0] * heads
    steps = len(trace.symbols)
    figure = new_figure(min(12.0, max(5.0, 1.5 + 0.28 * steps)), 0.8 + 1.7 * sum(ratios))
    axes = figure.subplots(
        len(ratios), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": ratios}
    )[:, 0]
    place = 0
    if trace.chances is not None:
        axes[place].bar(np.arange(steps) + 0.5, trace.chances, width=0.8, color=line_colour(2))
        axes[place].set_ylim(0, 1)
        axes[place].set_ylabel("probability")
        place += 1
    if trace.heights is not None:
        plot_path(axes[place], trace.heights.tolist())
        place += 1
    for kind, weights, colours in (
        ("write", trace.write_weights, STRENGTH_COLOURS),
        ("read", trace.read_weights, READ_COLOURS),
    ):
        for head in range(weights.shape[1]):
            number = f" {head + 1}" if weights.shape[1] > 1 else ""
            _image(axes[place], weights[:, head, first : last + 1], first, colours)
            axes[place].set_ylabel(f"{kind}{number}\nlocation")
            place += 1
    axes[-1].set_xlim(0, steps)
    if steps <= _MOST_LABELS and max(map(len, trace.symbols)) <= 3:
        axes[-1].set_xticks(np.arange(steps) + 0.5, [plain(each) for each in trace.symbols])
        axes[-1].tick_params(axis="x", length=0)
    else:
        axes[-1].set_xlabel("step")
    return figure


def _image(axis: Axes, weights: Array, first: int, colours: str) -> None:
    steps, locations = weights.shape
    axis.imshow(
        weights.T,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=colours,
        vmin=0,
        vmax=1,
        extent=(0, steps, first - 0.5, first + locations - 0.5),
    )
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))


def seen_locations(traces: Iterable[TapeTrace]) -> tuple[int, int]:
    """The first and the last location where any head of any trace has weight."""
    most = [
        np.concatenate([trace.read_weights, trace.write_weights], axis=1).max(axis=(0, 1))
        for trace in traces
    ]
    seen = np.flatnonzero(np.max(most, axis=0) > _SEEN)
    if not len(seen):
        return 0, len(most[0]) - 1
    return int(seen[0]), int(seen[-1])
