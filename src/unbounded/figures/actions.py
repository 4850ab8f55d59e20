"""Actions of stacks or lists over an input, in colour, and the paper's Table 3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from unbounded.errors import ConfigError
from unbounded.evaluation import ActionRow, action_cells
from unbounded.figures.style import PALETTE, new_figure, plain, save, set_heading, style
from unbounded.figures.traces import steps_and_symbols
from unbounded.memories import SuperpositionList, SuperpositionStack
from unbounded.memories.superposition import NO_OP
from unbounded.rnn import Trace

#: NO-OP is pale, so that actions that change a stack are more visible.
ACTION_COLOURS = {
    "PUSH": PALETTE[0],
    "POP": PALETTE[1],
    "INSERT": PALETTE[2],
    "LEFT": PALETTE[4],
    "RIGHT": PALETTE[5],
    "NO-OP": "#DDDDDD",
}
TOP_COLOURS = "PuOr"

#: The actions of each memory name in a trace, without NO-OP.
_ACTIONS = {
    memory.__name__: memory.basic_actions for memory in (SuperpositionStack, SuperpositionList)
}
_FIELD = "instruction.action"

#: Greatest number of rows in a readable table.
MOST_TABLE_ROWS = 100

_INCHES_A_STEP = 0.22
_INCHES_A_STACK = 0.26
_INCHES_A_LABEL = 0.14
_LEAST_INCHES = 1.4
_WIDTH_RANGE_INCHES = (4.0, 13.0)


def draw_actions(
    rows: Sequence[ActionRow], folder: Path, name: str = "actions", *, title: str | None = None
) -> list[Path]:
    """Draw each stack's actions over the input, as the paper's Figure 3, and its tops below.

    A line represents a stack or list, and a column represents a step. The colour shows the action
    of greatest weight. A soft action is fainter. A dot below a symbol marks a step whose next
    symbol was not the likeliest.

    Args:
        rows: from `unbounded.evaluation.action_rows`.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        title: heading.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: there is no row.
        StorageError: the folder cannot be written.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, Figure 3.
    """
    _check(rows)
    count, steps = len(rows[0].actions), len(rows)
    width = float(np.clip(steps * _INCHES_A_STEP, *_WIDTH_RANGE_INCHES))
    height = count * _INCHES_A_STACK
    with style():
        figure = new_figure(width + 1.6, max(2 * height, _LEAST_INCHES) + 1.9)
        set_heading(figure, title or "Actions over the input")
        actions, tops = figure.subplots(2, 1, sharex=True)
        # A pixel's colour is mixed with white if its action does not have all the weight.
        colours = np.array(
            [[to_rgb(ACTION_COLOURS[action]) for action in row.actions] for row in rows]
        )
        weights = np.array([row.weights for row in rows])[:, :, None]
        pixels = 1 - np.clip(weights, 0, 1) * (1 - colours)
        actions.imshow(pixels.transpose(1, 0, 2), aspect="auto", interpolation="nearest")
        shown = tops.imshow(
            np.array([row.tops for row in rows]).T,
            aspect="auto",
            interpolation="nearest",
            cmap=TOP_COLOURS,
            vmin=-1.0,
            vmax=1.0,
        )
        figure.colorbar(shown, ax=tops, aspect=10, pad=0.01, ticks=[-1, 0, 1])
        for axis, label in ((actions, "action"), (tops, "top, or cell at HEAD, after it")):
            axis.set_title(label, loc="left", fontsize=10)
            axis.set_yticks(range(count), [str(place) for place in range(1, count + 1)])
            axis.tick_params(length=0)
        _symbols(tops, rows, width)
        used_actions = [name for name in ACTION_COLOURS if any(name in row.actions for row in rows)]
        handles = [Patch(color=ACTION_COLOURS[action], label=action) for action in used_actions]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return save(figure, folder, name)


def has_actions(trace: Trace) -> bool:
    """Whether a trace is of superposition stacks or lists."""
    return trace.memory in _ACTIONS and _FIELD in trace.arrays


def read_actions(trace: Trace, example: int = 0) -> list[ActionRow]:
    """The actions and tops of one sequence of a trace, for `draw_actions`.

    A trace has no predictions, so these rows have the next symbol instead, and probability NaN.

    Args:
        trace: of superposition stacks or lists.
        example: index along the batch, 0..B-1.
    Raises:
        ConfigError: the trace is of another memory, or `example` is not in the batch.
    """
    if not has_actions(trace):
        raise ConfigError(f"trace: expected actions, got a trace of {trace.memory}")
    steps, symbols = steps_and_symbols(trace, example)
    weights, actions = trace.arrays[_FIELD][example, :steps].max(dim=-1)
    read_vectors = trace.arrays["read_vector"][example, :steps]
    tops = read_vectors.view(steps, actions.shape[1], -1)[:, :, 0]
    names = (*_ACTIONS[trace.memory], NO_OP)
    return [
        ActionRow(
            *(symbols[t], following, following, float("nan")),
            tuple(names[action] for action in actions[t].tolist()),
            tuple(weights[t].tolist()),
            tuple(tops[t].tolist()),
        )
        for t, following in enumerate([*symbols[1:], ""])
    ]


def draw_action_table(
    rows: Sequence[ActionRow], folder: Path, name: str = "action_table", *, title: str | None = None
) -> list[Path]:
    """Draw the paper's Table 3: symbols, prediction, actions and tops of each step.

    Args, errors and returns are as for `draw_actions`. The table has at most 100 rows.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 3.
    """
    _check(rows)
    if len(rows) > MOST_TABLE_ROWS:
        raise ConfigError(
            f"rows: {len(rows)} are too many for a picture; give at most {MOST_TABLE_ROWS}"
        )
    headings, *lines = (tuple(map(plain, line)) for line in action_cells(rows))
    first = headings.index("action 1")
    colours = [
        [
            _pale(ACTION_COLOURS[row.actions[column - first]])
            if 0 <= column - first < len(row.actions)
            else _prediction_colour(row, headings[column])
            for column in range(len(headings))
        ]
        for row in rows
    ]
    with style():
        figure = new_figure(0.85 * len(headings), 0.25 * (len(rows) + 1) + 0.6)
        set_heading(figure, title or "Actions and tops")
        axis = figure.subplots()
        axis.set_axis_off()
        table = axis.table(
            cellText=lines,
            colLabels=headings,
            cellColours=colours,
            cellLoc="center",
            bbox=Bbox.unit(),
        )
        table.auto_set_font_size(False)
        table.set_fontsize(9)
        for cell in table.get_celld().values():
            cell.set_linewidth(0.4)
        return save(figure, folder, name)


def _check(rows: Sequence[ActionRow]) -> None:
    if not rows:
        raise ConfigError("rows: there is nothing to draw; give at least one step")


def _symbols(axis: Axes, rows: Sequence[ActionRow], inches: float) -> None:
    """Label as many steps as fit with the input symbol, and dot steps with a wrong prediction."""
    every = max(1, int(np.ceil(len(rows) * _INCHES_A_LABEL / inches)))
    places = range(0, len(rows), every)
    axis.set_xticks(list(places), [plain(rows[place].current) for place in places])
    wrong = [t for t, row in enumerate(rows) if _is_wrong(row)]
    dots = "; a dot: the next symbol was not the likeliest" if wrong else ""
    axis.set_xlabel(f"input symbol of the step{dots}")
    axis.plot(
        wrong,
        [-0.07] * len(wrong),
        "k.",
        markersize=4,
        clip_on=False,
        transform=axis.get_xaxis_transform(),
    )


def _pale(colour: str) -> tuple[float, float, float]:
    red, green, blue = (1 - 0.35 * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def _prediction_colour(row: ActionRow, heading: str) -> str:
    """A wrong prediction is grey, because the correct symbol may not be determined."""
    return "#DDDDDD" if heading == "predicted" and _is_wrong(row) else "white"


def _is_wrong(row: ActionRow) -> bool:
    """Whether another symbol was predicted; False for a step without a prediction."""
    return bool(row.predicted) and row.predicted != row.following
