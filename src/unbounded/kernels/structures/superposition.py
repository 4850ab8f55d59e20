"""Superposition stacks and lists (csrc/superposition.h)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unbounded.errors import MemoryOverflowError, ShapeError
from unbounded.kernels.structures.structure import (
    ROWS,
    Buffer,
    CallSizes,
    Field,
    Shape,
    Structure,
)

# Rows of the kernel's buffers on either side of the cells.
_ROW_MARGIN = 2


@dataclass(frozen=True)
class Superposition(Structure, ABC):
    """Cells that are mixed by the weights of actions.

    Args:
        count: S. actions: A, of each structure. depth: k, cells read from each.
        capacity: of the memory; 0 for none.
        is_strict: whether a full structure that loses a cell that is not empty is an error.
        is_zero: whether an empty cell holds 0 instead of -1.
    """

    count: int
    actions: int
    depth: int
    capacity: int
    is_strict: bool
    is_zero: bool = False

    #: Actions without NO-OP.
    basic_actions: ClassVar[int]
    #: The cell lost at either end of a full structure.
    lost: ClassVar[tuple[str, ...]]
    #: The policy that drops it.
    policy: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_at_least(1, "count", "depth")
        if self.actions - self.basic_actions not in (0, 1):
            raise ShapeError(
                f"actions: a {self.name} has {self.basic_actions}, with NO-OP "
                f"{self.basic_actions + 1}, got {self.actions}."
            )
        if self.capacity and self.capacity < self.depth:
            raise ShapeError(
                f"capacity: expected at least the depth {self.depth}, got {self.capacity}."
            )

    @property
    def heads(self) -> Mapping[str, Shape]:
        """Weights of the actions [S, A] and values [S]."""
        return {"action": (self.count, self.actions), "value": (self.count,)}

    def activations(self, head: str) -> tuple[str, ...]:
        """Values have no axis of their own, so softmax is excluded for them."""
        known = super().activations(head)
        return known if head == "action" else tuple(a for a in known if a != "softmax")

    @property
    def read_vector(self) -> int:
        """S k."""
        return self.count * self.depth

    @property
    def fields(self) -> tuple[Field, ...]:
        """Cells [S, N]."""
        return (Field("cells", (self.count, ROWS)),)

    @abstractmethod
    def buffer_rows(self, rows: int) -> int:
        """Rows of the kernel's buffers for a number of cells, margins included."""

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The weights of the actions and the values, one plane each."""
        planes = (sizes.steps, sizes.batch, self.actions + 1, self._padded(sizes))
        return {"planes": Buffer(planes)}

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """All rows of the kernel's buffer."""
        most = self.rows_after(sizes.rows, sizes.steps)
        return (self.buffer_rows(most) + 2 * _ROW_MARGIN) * self._padded(sizes)

    def _padded(self, sizes: CallSizes) -> int:
        return -(-self.count // sizes.lanes) * sizes.lanes

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether the next step would exceed the capacity, and a lost cell is an error."""
        full = self.rows_after(rows, steps + 1) == self.rows_after(rows, steps)
        return self.is_strict and full

    def check_errors(self, errors: Tensor | None) -> None:
        """Raise MemoryOverflowError if a cell was lost."""
        if errors is None or not bool(errors.any()):
            return
        place = self.lost[int((errors & 1).max() == 0)]
        raise MemoryOverflowError(
            f"{place} is not empty and would be lost at capacity {self.capacity}, in "
            f"{int((errors > 0).sum())} of {len(errors)} sequences. Give a larger capacity, "
            f"capacity=None, or overflow={self.policy!r} to drop it."
        )


class SuperpositionStack(Superposition):
    """Cells below the top."""

    name = "superposition_stack"
    growth = (0, 1)
    basic_actions = 2
    lost = ("the bottom cell of a full stack",)
    policy = "drop_bottom"

    @property
    def most_rows(self) -> int | None:
        """The capacity."""
        return self.capacity or None

    def buffer_rows(self, rows: int) -> int:
        """At least the number of cells read."""
        return max(rows, self.depth)


class SuperpositionList(Superposition):
    """Cells on both sides of a head."""

    name = "superposition_list"
    growth = (1, 1)
    basic_actions = 3
    lost = ("the leftmost cell of a full list", "the rightmost cell of a full list")
    policy = "drop_ends"

    @property
    def most_rows(self) -> int | None:
        """The head and capacity - 1 cells on either side."""
        return 2 * self.capacity - 1 if self.capacity else None

    def buffer_rows(self, rows: int) -> int:
        """On either side of the head, at least the number of cells read."""
        return 2 * max(rows // 2, self.depth - 1) + 1

    def check_rows(self, rows: int) -> None:
        """Raise ShapeError unless the number of cells is odd."""
        if rows % 2 == 0:
            raise ShapeError(
                f"cells: expected an odd number N with HEAD in the middle, got {rows}."
            )
