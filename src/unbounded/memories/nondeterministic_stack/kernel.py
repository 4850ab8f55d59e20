"""The kernels' nondeterministic stack (csrc/nondeterministic.h)."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.nondeterministic_stack.reference import NondeterministicStack


class NondeterministicStackStructure(Structure[NondeterministicStack]):
    """A memory of sums over the runs between two times."""

    name, memory_type = "nondeterministic", NondeterministicStack
    option_names = ("states", "symbols", "width", "window", "normalized")

    @property
    def options(self) -> tuple[int, ...]:
        """Return the options in the header's order. A window of 0 represents no window."""
        memory = self.memory
        sizes = (memory.states, memory.symbols, memory.width)
        return (*sizes, memory.window or 0, int(memory.normalized))

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> NondeterministicStack:
        """Build a stack with these sizes."""
        states, symbols, width, window, normalized = options
        return NondeterministicStack(
            states, symbols, width, window=window or None, normalized=bool(normalized)
        )

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the instruction of each step, from which the backward pass repeats the sums."""
        return {"instructions": Buffer((sizes.steps, sizes.batch, self.head_rows))}
