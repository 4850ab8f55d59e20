"""The memory of the differentiable neural computer."""

from unbounded.memories.dnc.reference import (
    DNC,
    DNCInstruction,
    DNCState,
    LinklessInstruction,
    LinklessState,
)

__all__ = ["DNC", "DNCInstruction", "DNCState", "LinklessInstruction", "LinklessState"]
