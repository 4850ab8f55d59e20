"""The gates of a memory at each step, as columns of text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from torch import Tensor

from unbounded.memories import Head, Memory

#: A gate with at least this weight is saturated and shown without its weight.
SATURATED: Final = 0.995
#: A head with more gates than this, such as the cells that a tape erases, is not shown.
_MOST: Final = 10


def choice_text(name: str, weight: float) -> str:
    """The name of a choice, and its weight unless it is saturated."""
    name = name.replace("_", " ")
    return name if weight >= SATURATED else f"{name} {weight:.2f}"


def gate_columns(
    memory: Memory[Any, Any], fields: Mapping[str, Tensor]
) -> list[tuple[str, list[str]]]:
    """Titles and texts of a memory's gates at each step.

    A softmax is shown by its heaviest choice. A head with more than 10 gates is left out.

    Args:
        memory: declares the heads. fields: of the instructions, by head, [T, *head.shape].
    """
    columns = []
    for head in memory.heads:
        axes = head.shape[:-1] if head.choices else head.shape
        count = math.prod(axes)
        if not head.gate or count > _MOST:
            continue
        title = head.name.replace("_", " ")
        field = fields[head.name].reshape(-1, count, *head.shape[len(axes) :])
        for number, gate in enumerate(field.unbind(1), 1):
            texts = [_text(head, value) for value in gate]
            columns.append((title if count == 1 else f"{title} {number}", texts))
    return columns


def _text(head: Head, value: Tensor) -> str:
    """One gate: a number in [0, 1], or the weights [C] of choices."""
    if not head.choices:
        return f"{float(value):.2f}"
    weight, choice = value.max(dim=-1)
    return choice_text(head.choices[int(choice)], float(weight))
