"""A register (csrc/register.h)."""

from __future__ import annotations

from dataclasses import dataclass

from unbounded.kernels.structures.structure import Buffer, CallSizes, Field, Shape, Structure


@dataclass(frozen=True)
class Register(Structure):
    """One value [M] that is overwritten; `width` is M."""

    width: int
    name = "register"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_at_least(1, "width")

    @property
    def heads(self) -> dict[str, Shape]:
        """Value [M] and write."""
        return {"value": (self.width,), "write": ()}

    @property
    def read_vector(self) -> int:
        """M."""
        return self.width

    @property
    def fields(self) -> tuple[Field, ...]:
        """The value [M]."""
        return (Field("value", (self.width,)),)

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The instruction of each step, and the value before it."""
        widths = {"instructions": self.width + 1, "before": self.width}
        return {name: Buffer((sizes.steps, sizes.batch, w)) for name, w in widths.items()}
