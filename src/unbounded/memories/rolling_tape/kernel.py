"""The kernels' rolling tape (csrc/rolling_tape.h)."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.rolling_tape.reference import RollingTape


class RollingTapeStructure(Structure[RollingTape]):
    """A memory of cells in a ring under a fixed head."""

    name, memory_type = "rolling_tape", RollingTape
    option_names = ("slots", "width", "tapes", "jumps_write")

    @property
    def options(self) -> tuple[int, ...]:
        """Return the options in the header's order."""
        tape = self.memory
        return tape.slots, tape.width, tape.tapes, int(tape.jumps_write)

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> RollingTape:
        """Build a tape of the variant in which jumps write, or of the other variant."""
        slots, width, tapes, jumps_write = options
        return RollingTape(slots, width, tapes, variant="code" if jumps_write else "paper")

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the instruction of each step."""
        return {"instructions": Buffer((sizes.steps, sizes.batch, self.head_rows))}

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """The cells."""
        del sizes  # rows are not padded
        return self.memory.tapes * self.memory.slots * self.memory.width
