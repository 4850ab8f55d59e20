"""RAM and RAM/tape in the kernels (csrc/random_access.h)."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.random_access.reference import RandomAccessMemory


class RandomAccessStructure(Structure[RandomAccessMemory]):
    """Rows of a key, a value and a strength, read by the inner product of keys."""

    name, memory_type = "random_access", RandomAccessMemory
    option_names = ("width", "key_size", "tape", "sharpening")
    live_fields = ("keys", "values", "strengths")

    @property
    def options(self) -> tuple[int, ...]:
        """The options in the header's order."""
        memory = self.memory
        return memory.width, memory.key_size, int(memory.tape), int(memory.sharpening)

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> RandomAccessMemory:
        """The memory with these options."""
        width, key_size, tape, sharpening = options
        return RandomAccessMemory(width, key_size, bool(tape), bool(sharpening))

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The instruction of each step, and the tape's keys before it."""
        memory, leading = self.memory, (sizes.steps, sizes.batch)
        return {
            "instructions": Buffer((*leading, self.head_rows)),
            "tapes": Buffer((*leading, 2 * memory.key_size if memory.tape else 0)),
        }
