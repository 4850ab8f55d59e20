"""The kernels' memory of a DNC (csrc/dnc.h)."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.dnc.reference import DNC

# Usage, write weights and precedence; the weights of the read heads follow.
_ROWS = 3


class DNCStructure(Structure[DNC]):
    """A memory of slots that are allocated, linked and freed."""

    name, memory_type = "dnc", DNC
    option_names = ("slots", "width", "read_heads", "links")

    @property
    def options(self) -> tuple[int, ...]:
        """Return the options in the header's order."""
        memory = self.memory
        return memory.slots, memory.width, memory.read_heads, int(memory.links)

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> DNC:
        """Build the memory with these options."""
        slots, width, read_heads, links = options
        return DNC(slots, width, read_heads, links=bool(links))

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the instruction of each step, and the resulting usage and weights of slots."""
        leading = sizes.steps, sizes.batch
        rows = _ROWS + self.memory.read_heads
        return {
            "instructions": Buffer((*leading, self.head_rows)),
            "rows": Buffer((*leading, rows, sizes.padded(self.memory.slots))),
        }

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """Checkpoints hold the cells and the links."""
        rows = self.memory.width + (self.memory.slots if self.memory.links else 0)
        return rows * sizes.padded(self.memory.slots)
