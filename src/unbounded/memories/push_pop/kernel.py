"""The kernels' stack, queue and deque (csrc/push_pop.h)."""

from __future__ import annotations

from abc import ABC
from typing import Any

from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.push_pop.reference import (
    NeuralDeque,
    NeuralQueue,
    NeuralStack,
    RowMemory,
)


class PushPopStructure(Structure[RowMemory[Any, Any]], ABC):
    """A memory of rows with values and strengths."""

    option_names = ("width",)
    live_fields = ("values",)

    @property
    def nonnegative(self) -> tuple[str, ...]:
        """The fields that must be at least 0: pushes, pops and strengths."""
        return (*(head.name for head in self.memory.heads if head.gate), "strengths")

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Buffers of pushes and pops of each step, of the changes by its pops, and of dead rows."""
        ends = len(self.memory.ends)
        of_pops = (sizes.batch, sizes.steps, ends)
        rows = (sizes.batch, self.rows_after(sizes.rows, sizes.steps))
        return {
            "pushes_and_pops": Buffer((sizes.steps, sizes.batch, 2 * ends)),
            "changes": Buffer(of_pops, is_integer=True),
            "kept": Buffer(of_pops),
            "grave_rows": Buffer(rows, is_integer=True, starts_zero=True),
            "grave_strengths": Buffer(rows, starts_zero=True),
            "live_range": Buffer((sizes.batch, 3), is_integer=True),
        }


class StackStructure(PushPopStructure):
    """A stack, which is popped and read at the top."""

    name, memory_type = "stack", NeuralStack


class QueueStructure(PushPopStructure):
    """A queue, which is popped and read at the bottom."""

    name, memory_type = "queue", NeuralQueue


class DequeStructure(PushPopStructure):
    """A deque, which is pushed, popped and read at both ends."""

    name, memory_type = "deque", NeuralDeque
