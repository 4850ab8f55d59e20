"""The heads of a Lie-access memory in the space of keys, and their gates over time.

Source: Yang 2016, arXiv:1602.08671, as in its figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbounded.errors import ConfigError
from unbounded.figures.style import line_colour, new_figure, plain, save, set_heading, style
from unbounded.figures.traces import Array, steps_and_symbols
from unbounded.rnn.trace import Trace

#: First and last of x, first and last of y.
Bounds: TypeAlias = tuple[float, float, float, float]

#: The gates of a head, with their labels.
GATES: Final = {
    "read_key_gate": "read key",
    "read_action_gate": "read action",
    "write_key_gate": "write key",
    "write_action_gate": "write action",
    "strength": "strength",
}
_MOST_LABELS = 40


@dataclass(frozen=True)
class KeyTrace:
    """The heads of a Lie-access memory on one sequence of T steps.

    Fields:
        symbols: of each step.
        read, write: position of each head, [T, heads, n].
        gates: name in GATES -> [T, heads]; only the memory's own gates.
        answers: first step after the last write of any head, T if the last step writes.
    """

    symbols: tuple[str, ...]
    read: Array
    write: Array
    gates: dict[str, Array]
    answers: int


def has_keys(trace: Trace) -> bool:
    """Whether a trace has the keys of heads that read and write."""
    return "read_key" in trace.arrays and "write_key" in trace.arrays


def read_keys(trace: Trace, example: int = 0) -> KeyTrace:
    """Sequence `example` of the trace of a Lie-access memory, truncated to its length.

    Raises:
        ConfigError: the trace is of another memory, or `example` is not in the batch.
    """
    if not has_keys(trace):
        raise ConfigError(f"trace: expected keys, got a trace of {trace.memory}")
    steps, names = steps_and_symbols(trace, example)

    def array(name: str, axes: int) -> Array:
        numbers = trace.arrays[name][example, :steps].detach().cpu().double().numpy()
        # Memories with one head have no axis of heads.
        return np.asarray(numbers if numbers.ndim == axes else np.expand_dims(numbers, 1))

    gates = {
        name: array(f"instruction.{name}", 2)
        for name in GATES
        if f"instruction.{name}" in trace.arrays
    }
    written = np.flatnonzero(gates["strength"].any(axis=1))
    answers = int(written[-1]) + 1 if len(written) else 0
    return KeyTrace(names, array("read_key", 3), array("write_key", 3), gates, answers)


def draw_keys(
    trace: Trace, folder: Path, name: str = "keys", *, example: int = 0, title: str = ""
) -> list[Path]:
    """Draw the write and read positions for one input, with the gates of each step below.

    Dots are writes, and their size shows the strength. Crosses are reads in the answer phase, and
    small dots are earlier reads. Each head has a colour of its own. For longer keys, the first two
    components are drawn. Keys of one component are drawn over time.

    Args:
        trace: of a layer, or from `unbounded.load_trace`.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        example: index of the sequence in the trace's batch, from 0.
        title: heading.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: see `read_keys`.
        StorageError: the folder cannot be written.
    Source: Yang 2016, arXiv:1602.08671.
    """
    heads = read_keys(trace, example)
    with style():
        figure = key_figure(heads)
        set_heading(figure, title)
        return save(figure, folder, name)


def key_figure(trace: KeyTrace, bounds: Bounds | None = None) -> Figure:
    """Make the figure of `draw_keys`. Call this function inside `style()`.

    Args:
        trace: the heads on a sequence.
        bounds: of the axes; None for those of the trace.
    """
    gates = [
        # With several heads a gate has the colour of its number, else of its kind.
        (_numbered(label, gate, head), gate[:, head], head if gate.shape[1] > 1 else place)
        for place, (name, label) in enumerate(GATES.items())
        if (gate := trace.gates.get(name)) is not None
        for head in range(gate.shape[1])
    ]
    count = len(gates)
    figure = new_figure(7.0, 5.0 + 0.7 * count)
    grid = figure.add_gridspec(1 + count, 1, height_ratios=[5.0, *[0.7] * count])
    axis = figure.add_subplot(grid[0])
    _plot_keys(axis, trace, key_bounds([trace]) if bounds is None else bounds)
    below: Axes | None = None
    for row, (label, gate, place) in enumerate(gates):
        below = figure.add_subplot(grid[1 + row], sharex=below)
        _plot_gate(below, gate, trace.answers, label, place)
        below.tick_params(labelbottom=row == count - 1)
    if below is not None:
        _name_steps(below, trace.symbols)
    return figure


def key_bounds(traces: Iterable[KeyTrace]) -> Bounds:
    """Limits of axes that show all keys of some traces, with a margin."""
    heads = [
        keys[:, head]
        for trace in traces
        for keys in (trace.read, trace.write)
        for head in range(keys.shape[1])
    ]
    points = np.concatenate([_points(keys) for keys in heads])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return -1.0, 1.0, -1.0, 1.0
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.maximum(0.05 * (high - low), 0.1)
    (left, bottom), (right, top) = low - margin, high + margin
    return float(left), float(right), float(bottom), float(top)


def _points(keys: Array) -> Array:
    """Points in a plane: the first two components of each key, or time and the only component."""
    if keys.shape[1] == 1:
        return np.stack([np.arange(len(keys), dtype=float), keys[:, 0]], axis=1)
    return keys[:, :2]


def _numbered(label: str, values: Array, head: int) -> str:
    """The label of one head; heads have numbers where there are several."""
    return label if values.shape[1] == 1 else f"{label}, head {head + 1}"


def _plot_keys(axis: Axes, trace: KeyTrace, bounds: Bounds) -> None:
    for head in range(trace.write.shape[1]):
        _plot_writes(axis, trace, head)
    for head in range(trace.read.shape[1]):
        _plot_reads(axis, trace, head, line_colour(trace.write.shape[1] + head))
    axis.set_xlim(bounds[:2])
    axis.set_ylim(bounds[2:])
    is_scalar = trace.read.shape[2] == 1
    axis.set_xlabel("step" if is_scalar else "key 1")
    axis.set_ylabel("key" if is_scalar else "key 2")
    axis.legend(fontsize=8)


def _plot_writes(axis: Axes, trace: KeyTrace, head: int) -> None:
    writes = _points(trace.write[: trace.answers, head])
    strengths = trace.gates["strength"][: trace.answers, head]
    colour, label = line_colour(head), _numbered("written", trace.write, head)
    x, y = writes.T
    axis.plot(x, y, color=colour, linewidth=0.6, alpha=0.5)
    axis.scatter(x, y, s=4 + 40 * strengths, color=colour, label=label)
    if head == 0 and trace.answers <= _MOST_LABELS:
        for point, symbol in zip(writes, trace.symbols, strict=False):
            axis.annotate(
                plain(symbol), point, xytext=(3, 3), textcoords="offset points", fontsize=7
            )


def _plot_reads(axis: Axes, trace: KeyTrace, head: int, colour: str) -> None:
    reads = _points(trace.read[:, head])
    early = "read before the answer" if head == 0 else None
    x, y = reads[: trace.answers].T
    axis.scatter(x, y, s=6, color="grey", label=early)
    answered = reads[trace.answers :]
    if len(answered):
        label = _numbered("read while answering", trace.read, head)
        x, y = answered.T
        axis.plot(x, y, color=colour, linewidth=0.6, alpha=0.6)
        axis.scatter(x, y, s=36, marker="x", color=colour, label=label)


def _plot_gate(axis: Axes, gate: Array, answers: int, name: str, place: int) -> None:
    axis.stairs(gate, np.arange(len(gate) + 1), fill=True, color=line_colour(place))
    if answers < len(gate):
        axis.axvspan(answers, len(gate), color="grey", alpha=0.15, linewidth=0)
    axis.set_ylim(0, 1)
    axis.set_xlim(0, len(gate))
    axis.set_yticks([0, 1])
    axis.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)


def _name_steps(axis: Axes, symbols: tuple[str, ...]) -> None:
    if len(symbols) <= _MOST_LABELS and max(map(len, symbols)) <= 4:
        axis.set_xticks(np.arange(len(symbols)) + 0.5, [plain(symbol) for symbol in symbols])
        axis.tick_params(axis="x", length=0, labelsize=7)
    else:
        axis.set_xlabel("step; grey while it answers")
