"""Which memories have a kernel, and how a kernel describes a memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import torch

from unbounded.errors import ChoiceError, ShapeError
from unbounded.memories import Memory
from unbounded.memories.core.structure import Structure
from unbounded.memories.dnc.kernel import DNCStructure
from unbounded.memories.lie_access.kernel import LieAccessStructure
from unbounded.memories.nondeterministic_stack.kernel import NondeterministicStackStructure
from unbounded.memories.push_pop.kernel import DequeStructure, QueueStructure, StackStructure
from unbounded.memories.random_access.kernel import RandomAccessStructure
from unbounded.memories.register.kernel import RegisterStructure
from unbounded.memories.rolling_tape.kernel import RollingTapeStructure
from unbounded.memories.superposition.kernel import (
    SuperpositionListStructure,
    SuperpositionStackStructure,
)
from unbounded.memories.turing_tape.kernel import TapeStructure

#: Every memory with a kernel, by its name in csrc/choices.h.
STRUCTURES: Final[dict[str, type[Structure[Any]]]] = {
    kind.name: kind
    for kind in (
        StackStructure,
        QueueStructure,
        DequeStructure,
        SuperpositionStackStructure,
        SuperpositionListStructure,
        RegisterStructure,
        TapeStructure,
        RollingTapeStructure,
        NondeterministicStackStructure,
        DNCStructure,
        LieAccessStructure,
        RandomAccessStructure,
    )
}
#: The same by the memory's exact type: a subclass may compute something else.
BY_TYPE: Final = {kind.memory_type: kind for kind in STRUCTURES.values()}


@lru_cache(maxsize=256)
def structure_of(name: str, options: tuple[int, ...]) -> Structure[Any]:
    """Create a structure, with a memory of its own, from an operator's arguments.

    Raises:
        ChoiceError: unknown structure. UnboundedError: wrong number of options, or one out of
            range.
    """
    if name not in STRUCTURES:
        raise ChoiceError("structure", name, STRUCTURES)
    kind = STRUCTURES[name]
    if len(options) != len(kind.option_names):
        names = ", ".join(kind.option_names)
        raise ShapeError(f"options: expected {names} of a {name}, got {options}.")
    return kind(kind.memory_of(options))


def kernel_of(memory: Memory[Any, Any]) -> Structure[Any] | None:
    """The structure of a memory; None if no kernel supports it."""
    kind = BY_TYPE.get(type(memory))
    if kind is None or kind.why_not(memory) is not None:
        return None
    structure = kind(memory)
    if torch.compiler.is_compiling():  # a graph that is being captured cannot look it up
        return structure
    return structure_of(structure.name, structure.options)
