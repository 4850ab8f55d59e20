"""Figures of a memory over time: strengths and read weights, and the worked example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from unbounded.checks import check_choice
from unbounded.errors import ConfigError
from unbounded.figures.style import (
    PALETTE,
    READ_COLOURS,
    STRENGTH_COLOURS,
    new_figure,
    plain,
    save,
    style,
)
from unbounded.figures.traces import Array, SequenceTrace, read_sequence
from unbounded.rnn.trace import Trace

ROWS = ("all", "used")
# rows="used" omits a row that is never stronger than this.
USED_STRENGTH = 0.01

_INCHES_A_CELL = 0.17
_INCHES_A_LABEL = 0.15
_STRIP_INCHES = 0.22
_WIDTH_RANGE_INCHES = (5.0, 12.0)
_IMAGE_RANGE_INCHES = (1.4, 6.5)


def draw_memory(
    trace: Trace,
    folder: Path,
    name: str = "memory",
    *,
    example: int = 0,
    rows: Literal["all", "used"] = "all",
    title: str | None = None,
) -> list[Path]:
    """Draw a stack, queue or deque on one sequence.

    From top to bottom: a strip for each push and pop strength, an image of the strengths after
    each step, and an image of the read weights of each read end. Steps run to the right under their
    input symbols. Rows run upwards from the bottom of the memory to its top. Each row is labelled
    with the input symbol of its push.

    Args:
        trace: of a layer, or from `unbounded.load_trace`.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        example: index of the sequence in the trace's batch, from 0.
        rows: "used" omits rows whose strength never exceeds 0.01, and shows their number.
        title: heading; None for the memory's name.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: see `read_sequence`.
        ChoiceError: `rows` is neither "all" nor "used".
    """
    check_choice("choice of rows", rows, ROWS)
    sequence = read_sequence(trace, example)
    heading = title or f"{trace.memory} at work"
    if rows == "used":
        sequence, left_out = _used_rows(sequence)
        if left_out:
            heading += f" ({left_out} rows never stronger than {USED_STRENGTH} not shown)"
    with style():
        return _draw(sequence, heading, folder, name)


def _draw(trace: SequenceTrace, heading: str, folder: Path, name: str) -> list[Path]:
    strips = _strips(trace)
    images = [("strength", trace.strengths, STRENGTH_COLOURS)]
    for end, weights in sorted(trace.read_weights.items(), reverse=True):
        label = f"read weight, {end}" if end else "read weight"
        images.append((label, weights, READ_COLOURS))

    steps, row_count = trace.strengths.shape
    width = float(np.clip(steps * _INCHES_A_CELL, *_WIDTH_RANGE_INCHES))
    image_height = float(np.clip(row_count * _INCHES_A_CELL, *_IMAGE_RANGE_INCHES))
    figure = new_figure(width + 1.8, len(strips) * _STRIP_INCHES + len(images) * image_height + 1.3)
    figure.suptitle(heading, fontsize=12)
    ratios = [_STRIP_INCHES] * len(strips) + [image_height] * len(images)
    axes = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios, squeeze=False)[:, 0]

    for axis, (label, values) in zip(axes, strips, strict=False):
        _image(axis, values[:, None], "Greys")
        axis.set_yticks([0], [label])
    for axis, (label, values, colours) in zip(axes[len(strips) :], images, strict=True):
        drawn = _image(axis, values, colours)
        axis.set_title(label, loc="left", fontsize=10)
        axis.set_ylabel("row pushed at the symbol")
        pushed = [trace.symbols[step] for step in trace.row_steps]
        _symbol_ticks(axis, "y", pushed, image_height)
        figure.colorbar(drawn, ax=axis, aspect=25, pad=0.01, ticks=[0, 0.5, 1])
    _symbol_ticks(axes[-1], "x", trace.symbols, width)
    axes[-1].set_xlabel("input symbol of the step")
    return save(figure, folder, name)


def _image(axis: Axes, values: Array, colours: str) -> AxesImage:
    """Show [T, N] with time to the right and row 0 at the bottom."""
    axis.tick_params(length=0)
    return axis.imshow(
        values.T,
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        cmap=colours,
        vmin=0.0,
        vmax=1.0,
    )


def _symbol_ticks(axis: Axes, which: str, symbols: Sequence[str], inches: float) -> None:
    """Label as many cells as fit without overlap. The first cell is always labelled."""
    every = max(1, int(np.ceil(len(symbols) * _INCHES_A_LABEL / inches)))
    places = list(range(0, len(symbols), every))
    names = [plain(symbols[place]) for place in places]
    if which == "y":
        axis.set_yticks(places, names, fontsize=8)
    else:
        axis.set_xticks(places, names, fontsize=8, rotation=90)


def _strips(trace: SequenceTrace) -> list[tuple[str, Array]]:
    """The scalar fields of the instruction, each [T]: push before pop, top before bottom."""
    fields = [field for field, values in trace.instruction.items() if values.ndim == 1]
    fields.sort(key=lambda field: ("bottom" in field, "pop" in field, field))
    return [(field.replace("_", " "), trace.instruction[field]) for field in fields]


def _used_rows(trace: SequenceTrace) -> tuple[SequenceTrace, int]:
    used = trace.strengths.max(axis=0) > USED_STRENGTH
    kept = replace(
        trace,
        strengths=trace.strengths[:, used],
        read_weights={end: weights[:, used] for end, weights in trace.read_weights.items()},
        row_steps=trace.row_steps[used],
    )
    return kept, int((~used).sum())


MOST_STEPS = 8
# Smaller than any printed number: a strength of 0.7 is 0.70000000000000007 in binary.
_ZERO = 5e-3


def draw_worked_example(
    trace: Trace, folder: Path, name: str = "figure1a", *, example: int = 0
) -> list[Path]:
    """Draw a memory after each of a few steps, like Figure 1a of Grefenstette et al. 2015.

    Each step is a panel. A panel shows the push and pop strengths, and one box for each row with
    its strength (the oldest at the bottom). The row's share of the read vector is orange, and the
    read vector is a sum below.

    Args:
        trace: of a memory with one push, one pop and one read vector, of 1 to 8 steps.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        example: index of the sequence in the trace's batch, from 0.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: see `read_sequence`; or the trace is too long or is not of a stack or queue.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, Figure 1a.
    """
    sequence = read_sequence(trace, example)
    steps = len(sequence.symbols)
    errors = []
    if steps > MOST_STEPS:
        errors.append(f"trace: expected at most {MOST_STEPS} steps, got {steps}")
    if "" not in sequence.read_weights or not {"push", "pop"} <= sequence.instruction.keys():
        errors.append(
            "trace: expected one push, one pop and one read vector a step, got a trace of "
            f"{trace.memory}"
        )
    if errors:
        raise ConfigError(errors)
    with style():
        figure = new_figure(1.0 + 1.9 * steps, 1.8 + 0.5 * steps)
        figure.suptitle(
            f"{trace.memory}: strength of each row (blue) and its read weight (orange)",
            fontsize=12,
        )
        axes = figure.subplots(1, steps, sharey=True, squeeze=False)[0]
        for step, axis in enumerate(axes):
            _panel(axis, sequence, step)
        return save(figure, folder, name)


def _panel(axis: Axes, trace: SequenceTrace, step: int) -> None:
    weights = trace.read_weights[""][step]
    push, pop = trace.instruction["push"][step], trace.instruction["pop"][step]
    axis.set_title(f"t = {step + 1}\npush {push:.2g}, pop {pop:.2g}")
    terms = []
    for row in range(step + 1):
        strength, weight = trace.strengths[step, row], weights[row]
        axis.add_patch(Rectangle((0, row), 1, 0.9, facecolor="white", edgecolor="black"))
        axis.add_patch(Rectangle((0, row), strength, 0.9, facecolor=PALETTE[5]))
        if weight > _ZERO:
            axis.add_patch(Rectangle((0, row), weight, 0.28, facecolor=PALETTE[1]))
            terms.append(f"{weight:.2g} {trace.symbols[row]}")
        gone = "" if strength > _ZERO else "  (gone)"
        text = f"{trace.symbols[row]}: {_rounded(strength)}{gone}"
        axis.text(0.5, row + 0.58, text, ha="center", va="center")
    axis.set_xlim(-0.02, 1.02)
    axis.set_ylim(-0.05, len(trace.symbols))
    axis.set_xticks([0, 1])
    axis.set_yticks([])
    axis.set_xlabel("read: " + (" + ".join(terms) or "nothing"))
    for spine in axis.spines.values():
        spine.set_visible(False)


def _rounded(value: float) -> str:
    return f"{value if abs(value) > _ZERO else 0.0:.2g}"
