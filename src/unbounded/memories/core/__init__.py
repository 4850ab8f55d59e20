"""The parts that all memories share: interface, declarations, and functions on states."""

from unbounded.memories.core.backend import (
    BACKENDS,
    autocast_dtype,
    check_backend,
    choose_backend,
    without_autocast,
)
from unbounded.memories.core.head import ACTIVATIONS, VALUE_ACTIVATIONS, Head
from unbounded.memories.core.memory import InstructionT, Memory, StateT
from unbounded.memories.core.rows import live_rows, read_rows
from unbounded.memories.core.state import (
    check_rows,
    detach_state,
    index_state,
    map_state,
    move_state,
    picked,
    portable,
    state_tensors,
)
from unbounded.memories.core.state_field import (
    Constant,
    Drawn,
    FirstOne,
    Fixed,
    Initializer,
    Learned,
    StateField,
)

__all__ = [
    "ACTIVATIONS",
    "BACKENDS",
    "VALUE_ACTIVATIONS",
    "Constant",
    "Drawn",
    "FirstOne",
    "Fixed",
    "Head",
    "Initializer",
    "InstructionT",
    "Learned",
    "Memory",
    "StateField",
    "StateT",
    "autocast_dtype",
    "check_backend",
    "check_rows",
    "choose_backend",
    "detach_state",
    "index_state",
    "live_rows",
    "map_state",
    "move_state",
    "picked",
    "portable",
    "read_rows",
    "state_tensors",
    "without_autocast",
]
