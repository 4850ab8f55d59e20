"""The tape of a Neural Turing Machine (csrc/turing_tape.h)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unbounded.errors import ShapeError
from unbounded.kernels.structures.structure import Buffer, CallSizes, Field, Shape, Structure

# 10 to a smaller power is no normal number of 32 bits.
_MOST_DIGITS = 37


@dataclass(frozen=True)
class TuringTape(Structure):
    """Locations that soft heads read and write.

    Args:
        slots: N. width: M. read_heads: R. write_heads: W.
        shift_range: s; a head has 2 s + 1 shifts.
        is_circular: whether the last location is next to the first.
        reads_before: whether a step reads before it writes.
        floor_digits: 10^-floor_digits is added to weights before sharpening.
    """

    slots: int
    width: int
    read_heads: int
    write_heads: int
    shift_range: int
    is_circular: bool
    reads_before: bool
    floor_digits: int
    name = "turing_tape"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_at_least(1, "slots", "width", "read_heads", "write_heads")
        if 2 * self.shift_range >= self.slots:
            raise ShapeError(
                f"shift_range: expected 2 * range + 1 shifts to fit on {self.slots} slots, got "
                f"{self.shift_range}."
            )
        if self.floor_digits > _MOST_DIGITS:
            raise ShapeError(
                f"floor_digits: expected at most {_MOST_DIGITS}, got {self.floor_digits}."
            )

    @property
    def heads(self) -> Mapping[str, Shape]:
        """Key, strength, gate, shift and sharpening of readers and writers; erase and add."""
        shapes: dict[str, Shape] = {
            "key": (self.width,),
            "strength": (),
            "gate": (),
            "shift": (2 * self.shift_range + 1,),
            "sharpening": (),
        }
        written = (self.write_heads, self.width)
        return {
            **{f"read_{kind}": (self.read_heads, *shape) for kind, shape in shapes.items()},
            **{f"write_{kind}": (self.write_heads, *shape) for kind, shape in shapes.items()},
            "erase": written,
            "add": written,
        }

    @property
    def read_vector(self) -> int:
        """R M."""
        return self.read_heads * self.width

    @property
    def fields(self) -> tuple[Field, ...]:
        """Cells [N, M], read weights [R, N] and write weights [W, N]."""
        return (
            Field("cells", (self.slots, self.width)),
            Field("read_weights", (self.read_heads, self.slots)),
            Field("write_weights", (self.write_heads, self.slots)),
        )

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The instruction of each step, and all heads' weights after it."""
        leading, heads = (sizes.steps, sizes.batch), self.read_heads + self.write_heads
        return {
            "instructions": Buffer((*leading, self.head_rows)),
            "weights": Buffer((*leading, heads, self._padded(sizes))),
        }

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """The cells."""
        return self.width * self._padded(sizes)

    def _padded(self, sizes: CallSizes) -> int:
        return -(-self.slots // sizes.lanes) * sizes.lanes
