"""The data structures as equations: one file for each memory, to be read with its paper."""

from collections.abc import Callable
from typing import Any

from unbounded.memories.backend import BACKENDS
from unbounded.memories.base import Memory
from unbounded.memories.deque import DequeState, NeuralDeque, TwoEndedPushPop, quiet_deque
from unbounded.memories.head import Head
from unbounded.memories.initializers import (
    Constant,
    Drawn,
    FirstOne,
    Fixed,
    Initializer,
    Learned,
)
from unbounded.memories.lie_access import LieAccessMemory
from unbounded.memories.lie_groups import Group
from unbounded.memories.lie_instructions import LieAccessInstruction, LieAccessState
from unbounded.memories.queue import NeuralQueue, QueueState
from unbounded.memories.stack import NeuralStack, StackState
from unbounded.memories.state import detach_state, index_state, move_state
from unbounded.memories.state_field import StateField
from unbounded.memories.strengths import PushPop
from unbounded.memories.superposition import ActionValue, SuperpositionMemory
from unbounded.memories.superposition_list import ListCells, SuperpositionList
from unbounded.memories.superposition_stack import (
    StackCells,
    SuperpositionStack,
    trim_cells,
)
from unbounded.memories.turing_tape import TapeInstruction, TapeState, TuringTape

#: Every memory by its name in configurations. "quiet_deque" is a deque with an initial bias against
#: pushes at the bottom; without it, copying was not learned (results/grefenstette2015).
MEMORIES: dict[str, Callable[..., Memory[Any, Any]]] = {
    "stack": NeuralStack,
    "queue": NeuralQueue,
    "deque": NeuralDeque,
    "quiet_deque": quiet_deque,
    "superposition_stack": SuperpositionStack,
    "superposition_list": SuperpositionList,
    "turing_tape": TuringTape,
    "lie_access": LieAccessMemory,
}

__all__ = [
    "BACKENDS",
    "MEMORIES",
    "ActionValue",
    "Constant",
    "DequeState",
    "Drawn",
    "FirstOne",
    "Fixed",
    "Group",
    "Head",
    "Initializer",
    "Learned",
    "LieAccessInstruction",
    "LieAccessMemory",
    "LieAccessState",
    "ListCells",
    "Memory",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "PushPop",
    "QueueState",
    "StackCells",
    "StackState",
    "StateField",
    "SuperpositionList",
    "SuperpositionMemory",
    "SuperpositionStack",
    "TapeInstruction",
    "TapeState",
    "TuringTape",
    "TwoEndedPushPop",
    "detach_state",
    "index_state",
    "move_state",
    "trim_cells",
]
