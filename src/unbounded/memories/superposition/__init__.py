"""Superposition stacks and lists."""

from unbounded.memories.superposition.reference import (
    EMPTY,
    NO_OP,
    ActionValue,
    ListCells,
    StackCells,
    SuperpositionList,
    SuperpositionMemory,
    SuperpositionStack,
    trim_cells,
)

__all__ = [
    "EMPTY",
    "NO_OP",
    "ActionValue",
    "ListCells",
    "StackCells",
    "SuperpositionList",
    "SuperpositionMemory",
    "SuperpositionStack",
    "trim_cells",
]
