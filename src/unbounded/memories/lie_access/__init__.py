"""The memory of a Lie-access neural Turing machine."""

from unbounded.memories.lie_access.groups import GROUPS, Group
from unbounded.memories.lie_access.reference import (
    LieAccessInstruction,
    LieAccessMemory,
    LieAccessState,
)

__all__ = ["GROUPS", "Group", "LieAccessInstruction", "LieAccessMemory", "LieAccessState"]
