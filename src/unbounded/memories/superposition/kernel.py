"""The kernels' superposition stacks and lists (csrc/superposition.h)."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from unbounded.errors import MemoryOverflowError, ShapeError
from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.superposition.reference import (
    SuperpositionList,
    SuperpositionMemory,
    SuperpositionStack,
)

# Number of rows of the kernel's buffers on each side of the cells.
_ROW_MARGIN = 2


class SuperpositionStructure(Structure[SuperpositionMemory[Any]], ABC):
    """A memory of cells that are mixed by the weights of actions.

    The options are listed in the header. A capacity of 0 represents no capacity. `empty_bits` are
    the bits of the number in an empty cell, in double precision.
    """

    memory_type: ClassVar[type[SuperpositionStack | SuperpositionList]]
    option_names = ("count", "actions", "depth", "capacity", "is_strict", "width", "empty_bits")

    @property
    def options(self) -> tuple[int, ...]:
        """Return the options in the header's order."""
        memory = self.memory
        is_strict = memory.overflow == "error"
        sizes = memory.count, len(memory.actions), memory.depth, memory.capacity or 0
        return *sizes, int(is_strict), memory.width, memory.empty_bits

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> SuperpositionMemory[Any]:
        """Build the memory. The memory's activation is not an option."""
        count, actions, depth, capacity, is_strict, width, empty_bits = options
        memory, basic = cls.memory_type, len(cls.memory_type.basic_actions)
        if actions not in (basic, basic + 1):
            raise ShapeError(
                f"actions: a {cls.name} has {basic}, or {basic + 1} with NO-OP, got {actions}."
            )
        overflow = "error" if is_strict or not capacity else memory.overflows[-1]
        (empty,) = struct.unpack("=d", struct.pack("=q", empty_bits))
        noop = actions > basic
        return memory(count, depth, noop, capacity or None, overflow, empty, width=width)

    def activations(self, head: str) -> tuple[str, ...]:
        """Values may be single numbers without an axis, so softmax is excluded for them."""
        known = super().activations(head)
        return known if head == "action" else tuple(a for a in known if a != "softmax")

    @abstractmethod
    def buffer_rows(self, rows: int) -> int:
        """Number of rows in the kernel's buffers for a number of cells, including margins."""

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the weights of the actions, and the values, each in a plane."""
        planes = len(self.memory.actions) + 1
        padded = sizes.padded(self.memory.count * self.memory.width)
        return {"planes": Buffer((sizes.steps, sizes.batch, planes, padded))}

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """A checkpoint has all rows of the kernel's buffer."""
        most = self.rows_after(sizes.rows, sizes.steps)
        row = sizes.padded(self.memory.count * self.memory.width)
        return (self.buffer_rows(most) + 2 * _ROW_MARGIN) * row

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether the memory is full before the next step, and a lost cell is an error."""
        full = self.rows_after(rows, steps + 1) == self.rows_after(rows, steps)
        return self.memory.overflow == "error" and full

    def check_errors(self, errors: Tensor | None) -> None:
        """Raise MemoryOverflowError if a cell was lost."""
        if errors is None or not bool(errors.any()):
            return
        place = self.memory.ends[int((errors & 1).max() == 0)]
        raise MemoryOverflowError(
            f"{place} is not empty and would be lost at capacity {self.memory.capacity}, in "
            f"{int((errors > 0).sum())} of {len(errors)} sequences. Give a larger capacity, "
            f"capacity=None, or overflow={self.memory.overflows[-1]!r} to drop it."
        )


class SuperpositionStackStructure(SuperpositionStructure):
    """A stack, with cells below the top."""

    name, memory_type = "superposition_stack", SuperpositionStack

    def buffer_rows(self, rows: int) -> int:
        """The number of rows, which is at least the number of cells that are read."""
        return max(rows, self.memory.depth)


class SuperpositionListStructure(SuperpositionStructure):
    """A list, with cells on both sides of a head."""

    name, memory_type = "superposition_list", SuperpositionList

    def buffer_rows(self, rows: int) -> int:
        """The number of rows.

        Each side of the head has at least the number of cells that are read.
        """
        return 2 * max(rows // 2, self.memory.depth - 1) + 1

    def check_rows(self, rows: int) -> None:
        """Raise ShapeError unless the number of cells is odd."""
        if rows % 2 == 0:
            raise ShapeError(
                f"cells: expected an odd number N with HEAD in the middle, got {rows}."
            )
