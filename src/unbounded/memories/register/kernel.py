"""The kernel of the memory `Register` (csrc/register.h)."""

from __future__ import annotations

from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.register.reference import Register


class RegisterStructure(Structure[Register]):
    """A memory with one value [M] that is overwritten."""

    name, memory_type, option_names = "register", Register, ("width",)

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the instruction of each step, and the value before the step."""
        widths = {"instructions": self.head_rows, "before": self.read_vector}
        return {name: Buffer((sizes.steps, sizes.batch, w)) for name, w in widths.items()}
