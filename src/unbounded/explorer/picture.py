"""A still picture of a memory's steps, for viewers without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

import torch
from torch import Tensor

from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.rnn import Trace
from unbounded.tasks import Batch, Task

_STEP, _ROW, _LEFT, _TOP = 26, 7, 8, 26
_BLUE: Final = "#0072b2"
#: Weights below this are not drawn.
_LEAST: Final = 0.02
#: Maximum number of steps, which is limited by the width of a page.
_MOST_STEPS: Final = 40


def still_picture(model: MemoryModel, task: Task, batch: Batch, title: str) -> str:
    """An SVG of the memory on an example.

    The vertical axis has memory rows, the horizontal axis steps.

    Args:
        model: a model on the CPU.
        task: names the symbols.
        batch: its first example is drawn, cut at 40 steps.
        title: the title.
    """
    run = run_trace(model, task, _first(batch), detailed=True)
    trace = None if run is None else run.steps
    symbols = [task.input_vocabulary[token] for token in batch.inputs[0, :_MOST_STEPS].tolist()]
    symbols = symbols[: int(batch.lengths[0])]
    what, grid = ("no memory", torch.zeros(len(symbols), 1)) if trace is None else _grid(trace)
    return drawn(f"{title}: {what}", symbols, grid[: len(symbols)])


def drawn(title: str, symbols: Sequence[str], grid: Tensor) -> str:
    """The SVG of a grid of weights.

    Args:
        title: the title.
        symbols: the T input symbols.
        grid: weights [T, N] in [0, 1]; rows with only small weights are omitted.
    """
    seen = (grid >= _LEAST).any(dim=0)
    shown = grid[:, seen] if bool(seen.any()) else grid[:, :1]
    steps, rows = shown.shape
    width, height = 2 * _LEFT + _STEP * steps, _TOP + _ROW * rows + 22
    cells = "".join(
        f'<rect x="{_LEFT + _STEP * t}" y="{_TOP + _ROW * n}" width="{_STEP}" height="{_ROW}" '
        f'fill-opacity="{min(1.0, weight):.2f}"/>'
        for t, row in enumerate(shown.tolist())
        for n, weight in enumerate(row)
        if weight >= _LEAST
    )
    names = "".join(
        f'<text x="{_LEFT + _STEP * (t + 0.5):.0f}" y="{height - 6}" text-anchor="middle">'
        f"{escape(symbol)}</text>"
        for t, symbol in enumerate(symbols)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(width, 360)} {height}" '
        f'width="{max(width, 360)}" font-family="sans-serif" font-size="11">'
        f'<text x="{_LEFT}" y="16" font-size="13">{escape(title)}</text>'
        f'<g fill="{_BLUE}">{cells}</g><g>{names}</g></svg>'
    )


def _first(batch: Batch) -> Batch:
    steps = min(int(batch.lengths[0]), _MOST_STEPS)
    inputs, targets, mask = (part[:1, :steps] for part in batch[:3])
    return Batch(inputs, targets, mask, torch.tensor([steps]))


def _grid(trace: Trace) -> tuple[str, Tensor]:
    """The title of a memory's drawn quantity, and its values [T, N]."""
    arrays = trace.arrays
    if trace.memory == "AttentionWeights":
        mean = arrays["read_weights"][0].detach().mean(dim=(1, 2))
        return "mean attention weight of each step, over all heads", mean
    for name, what in (
        ("strengths", "strength of each row after each step"),
        ("read_weights", "where the read head is after each step"),
        ("instruction.action", "weight of each action at each step"),
    ):
        if name in arrays:
            return what, arrays[name][0].flatten(1).detach()
    return "what was read at each step", arrays["read_vector"][0].detach().abs()
