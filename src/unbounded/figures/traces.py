"""One sequence of a trace as arrays, with the symbol of each row's push."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unbounded.errors import ConfigError
from unbounded.rnn.trace import Trace

Array = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class SequenceTrace:
    """A memory on one sequence of T steps.

    Fields:
        memory: name of the memory's class.
        symbols: the input symbol of each step, T of them; step numbers if the file has none.
        instruction: field name -> [T] or [T, M], e.g. "push", "pop", "value".
        strengths: [T, N] after each step; 0 for rows that do not exist yet.
        read_weights: "" (one read end) or "top" and "bottom" -> [T, N].
        row_steps: [N], the step (0-based) that pushed each row.
    """

    memory: str
    symbols: tuple[str, ...]
    instruction: dict[str, Array]
    strengths: Array
    read_weights: dict[str, Array]
    row_steps: NDArray[np.int64]


def read_sequence(trace: Trace, example: int = 0) -> SequenceTrace:
    """Sequence `example` of a trace, truncated to its length.

    Args:
        trace: of a layer, or from `unbounded.load_trace`.
        example: index along the batch, 0..B-1.
    Raises:
        ConfigError: the trace is of a memory without strengths and read weights, or `example` is
            not in the batch.
    """
    steps, symbols = steps_and_symbols(trace, example)
    arrays = {
        name: np.asarray(array[example, :steps].detach().cpu().double().numpy())
        for name, array in trace.arrays.items()
    }
    read_weights = _named(arrays, "read_weights")
    if not has_strengths(trace):
        raise ConfigError(
            f"trace: expected strengths and read weights, got a trace of {trace.memory}"
        )
    row_steps = _row_steps(*trace.arrays["strengths"].shape[1:])
    exists = row_steps < steps
    return SequenceTrace(
        memory=trace.memory,
        symbols=symbols,
        instruction=_named(arrays, "instruction"),
        strengths=arrays["strengths"][:, exists],
        read_weights={end: weights[:, exists] for end, weights in read_weights.items()},
        row_steps=row_steps[exists],
    )


def has_strengths(trace: Trace) -> bool:
    """Whether a trace has rows with strengths and read weights."""
    return "strengths" in trace.arrays and bool(_named(trace.arrays, "read_weights"))


def steps_and_symbols(trace: Trace, example: int) -> tuple[int, tuple[str, ...]]:
    """Length of a sequence in a trace, and the symbol of each step, or else the number of the step.

    Raises:
        ConfigError: `example` is not in the batch.
    """
    batch = len(trace.lengths)
    if not 0 <= example < batch:
        raise ConfigError(f"example: expected 0 to {batch - 1}, got {example}")
    steps = int(trace.lengths[example])
    if trace.symbols is None:
        return steps, tuple(str(step + 1) for step in range(steps))
    return steps, tuple(trace.symbols[example][:steps])


def _named(arrays: Mapping[str, T], prefix: str) -> dict[str, T]:
    """The arrays named "prefix" and "prefix.NAME", as entries "" and NAME."""
    return {
        name.removeprefix(prefix).removeprefix("."): array
        for name, array in arrays.items()
        if name == prefix or name.startswith(f"{prefix}.")
    }


def _row_steps(steps: int, rows: int) -> NDArray[np.int64]:
    """The step that pushed each row.

    A step pushes one row, or two with the oldest in the middle.
    """
    if rows == steps:
        return np.arange(steps)
    if rows == 2 * steps:
        return np.concatenate([np.arange(steps)[::-1], np.arange(steps)])
    raise ConfigError(
        f"trace: expected {steps} rows for {steps} steps, or twice as many of a deque, got "
        f"{rows}. A trace from a memory that was not empty cannot be drawn."
    )
