"""The worked example of Figure 1a: each row of a small stack or queue, step by step."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from unbounded.errors import ConfigError
from unbounded.figures.style import PALETTE, new_figure, save, style
from unbounded.figures.traces import SequenceTrace, read_sequence
from unbounded.layers.trace import Trace

MOST_STEPS = 8
# Smaller than any printed number: a strength of 0.7 is 0.70000000000000007 in binary.
_ZERO = 5e-3


def draw_worked_example(
    trace: Trace, folder: Path, name: str = "figure1a", *, example: int = 0
) -> list[Path]:
    """Draw a memory after each of a few steps, like Figure 1a of Grefenstette et al. 2015.

    Each step is a panel. It shows the push and pop strengths, one box for each row (oldest at the
    bottom) with its strength, the row's share of the read vector in orange, and the read vector as
    a sum below.

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
