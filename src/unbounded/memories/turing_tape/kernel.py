"""The kernels' Turing tape (csrc/turing_tape.h)."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.errors import ShapeError
from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.turing_tape.reference import VARIANTS, TuringTape


class TapeStructure(Structure[TuringTape]):
    """A memory of locations that soft heads read and write.

    The options are listed in the header. The number 10^-floor_digits is added to weights before
    sharpening.
    """

    name, memory_type = "turing_tape", TuringTape
    option_names = (
        "slots", "width", "read_heads", "write_heads", "shift_range", "is_circular",
        "reads_before", "floor_digits",
    )  # fmt: skip

    @property
    def options(self) -> tuple[int, ...]:
        """Return the options in the header's order."""
        tape = self.memory
        sizes = tape.slots, tape.width, tape.read_heads, tape.write_heads, tape.shift_range
        choices = int(tape.shift == "circular"), int(tape.reads == "before")
        return *sizes, *choices, VARIANTS[tape.variant].floor_digits

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> TuringTape:
        """Build a tape with the activations of the variant that has this floor."""
        slots, width, readers, writers, shift_range, is_circular, reads_before, digits = options
        variants = {variant.floor_digits: name for name, variant in VARIANTS.items()}
        if digits not in variants:
            raise ShapeError(f"floor_digits: expected one of {[*variants]}, got {digits}.")
        return TuringTape(
            slots,
            width,
            readers,
            writers,
            "circular" if is_circular else "zero",
            shift_range=shift_range,
            variant=variants[digits],
            reads="before" if reads_before else "after",
        )

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the instruction of each step, and all heads' weights after the step."""
        leading, heads = (
            (sizes.steps, sizes.batch),
            self.memory.read_heads + self.memory.write_heads,
        )
        return {
            "instructions": Buffer((*leading, self.head_rows)),
            "weights": Buffer((*leading, heads, sizes.padded(self.memory.slots))),
        }

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """The cells."""
        return self.memory.width * sizes.padded(self.memory.slots)
