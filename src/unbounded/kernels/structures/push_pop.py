"""Neural stack, queue and deque (csrc/push_pop.h)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from unbounded.kernels.structures.structure import (
    ROWS,
    Buffer,
    CallSizes,
    Field,
    Shape,
    Structure,
)


@dataclass(frozen=True)
class PushPop(Structure, ABC):
    """Rows of values with strengths.

    Args:
        width: M.
    """

    width: int

    #: Prefixes of the heads' names, one for each end.
    ends: ClassVar[tuple[str, ...]] = ("",)
    growth = (0, 1)
    nonnegative: ClassVar[tuple[str, ...]] = ("push", "pop", "strengths")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_at_least(1, "width")

    @property
    def heads(self) -> Mapping[str, Shape]:
        """Value [M], push and pop of each end."""
        kinds: dict[str, Shape] = {"value": (self.width,), "push": (), "pop": ()}
        return {f"{end}{kind}": shape for end in self.ends for kind, shape in kinds.items()}

    @property
    def read_vector(self) -> int:
        """M for each end."""
        return len(self.ends) * self.width

    @property
    def fields(self) -> tuple[Field, ...]:
        """Values [N, M] and strengths [N]."""
        return Field("values", (ROWS, self.width), is_live=True), Field("strengths", (ROWS,))

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Pushes and pops of each step, the changes by its pops, and dead rows."""
        ends, of_pops = len(self.ends), (sizes.batch, sizes.steps, len(self.ends))
        rows = (sizes.batch, self.rows_after(sizes.rows, sizes.steps))
        return {
            "pushes_and_pops": Buffer((sizes.steps, sizes.batch, 2 * ends)),
            "changes": Buffer(of_pops, is_integer=True),
            "kept": Buffer(of_pops),
            "grave_rows": Buffer(rows, is_integer=True, starts_zero=True),
            "grave_strengths": Buffer(rows, starts_zero=True),
            "live_range": Buffer((sizes.batch, 3), is_integer=True),
        }


class Stack(PushPop):
    """Popped and read at the top."""

    name = "stack"


class Queue(PushPop):
    """Popped and read at the bottom."""

    name = "queue"


class Deque(PushPop):
    """Pushed, popped and read at both ends."""

    name = "deque"
    ends = ("top_", "bottom_")
    growth = (1, 1)
    nonnegative = ("top_push", "top_pop", "bottom_push", "bottom_pop", "strengths")
