"""RAM and RAM/tape, the memories that Yang & Rush compare Lie access with."""

from unbounded.memories.random_access.reference import (
    RandomAccessInstruction,
    RandomAccessMemory,
    RandomAccessState,
)

__all__ = ["RandomAccessInstruction", "RandomAccessMemory", "RandomAccessState"]
