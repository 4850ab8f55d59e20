"""The kernels' declarations of memories: one file for each header of csrc/."""

from dataclasses import fields
from functools import lru_cache
from typing import Final

from unbounded.errors import ChoiceError, ShapeError
from unbounded.kernels.structures.lie_access import LieAccess
from unbounded.kernels.structures.push_pop import Deque, Queue, Stack
from unbounded.kernels.structures.register import Register
from unbounded.kernels.structures.structure import ACTIVATIONS, Field, Structure
from unbounded.kernels.structures.superposition import SuperpositionList, SuperpositionStack
from unbounded.kernels.structures.turing_tape import TuringTape

#: Every memory with a kernel, by its name in csrc/library.cpp.
STRUCTURES: Final[dict[str, type[Structure]]] = {
    "stack": Stack,
    "queue": Queue,
    "deque": Deque,
    "superposition_stack": SuperpositionStack,
    "superposition_list": SuperpositionList,
    "register": Register,
    "turing_tape": TuringTape,
    "lie_access": LieAccess,
}


@lru_cache(maxsize=256)
def structure_of(name: str, options: tuple[int, ...]) -> Structure:
    """Create a structure from an operator's arguments.

    Raises:
        ChoiceError: unknown structure. ShapeError: wrong number of options, or one out of range.
    """
    if name not in STRUCTURES:
        raise ChoiceError("structure", name, STRUCTURES)
    kind = STRUCTURES[name]
    names = [option.name for option in fields(kind)]
    if len(options) != len(names):
        raise ShapeError(f"options: expected {', '.join(names)} of a {name}, got {options}.")
    return kind(*options)


__all__ = [
    "ACTIVATIONS",
    "STRUCTURES",
    "Deque",
    "Field",
    "LieAccess",
    "Queue",
    "Register",
    "Stack",
    "Structure",
    "SuperpositionList",
    "SuperpositionStack",
    "TuringTape",
    "structure_of",
]
