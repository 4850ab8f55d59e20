"""The memories as equations: each has its own folder, to be read together with the paper."""

from collections.abc import Callable
from typing import Any

import unbounded
from unbounded.memories.core import (
    BACKENDS,
    Constant,
    Drawn,
    FirstOne,
    Fixed,
    Head,
    Initializer,
    Learned,
    Memory,
    StateField,
    detach_state,
    index_state,
    move_state,
    portable,
)
from unbounded.memories.dnc import (
    DNC,
    DNCInstruction,
    DNCState,
    LinklessInstruction,
    LinklessState,
)
from unbounded.memories.lie_access import (
    Group,
    LieAccessInstruction,
    LieAccessMemory,
    LieAccessState,
)
from unbounded.memories.nondeterministic_stack import (
    NondeterministicInstruction,
    NondeterministicStack,
    NondeterministicState,
)
from unbounded.memories.push_pop import (
    DequeState,
    NeuralDeque,
    NeuralQueue,
    NeuralStack,
    PushPop,
    QueueState,
    StackState,
    TwoEndedPushPop,
    quiet_deque,
)
from unbounded.memories.random_access import (
    RandomAccessInstruction,
    RandomAccessMemory,
    RandomAccessState,
)
from unbounded.memories.rolling_tape import RollingTape, RollInstruction, RollState
from unbounded.memories.superposition import (
    ActionValue,
    ListCells,
    StackCells,
    SuperpositionList,
    SuperpositionMemory,
    SuperpositionStack,
    trim_cells,
)
from unbounded.memories.turing_tape import TapeInstruction, TapeState, TuringTape

#: Every memory by its name in configurations. "quiet_deque" is a deque with an initial bias against
#: pushes at the bottom. Without this bias, copying was not learned (results/grefenstette2015).
MEMORIES: dict[str, Callable[..., Memory[Any, Any]]] = {
    "stack": NeuralStack,
    "queue": NeuralQueue,
    "deque": NeuralDeque,
    "quiet_deque": quiet_deque,
    "superposition_stack": SuperpositionStack,
    "superposition_list": SuperpositionList,
    "turing_tape": TuringTape,
    "rolling_tape": RollingTape,
    "nondeterministic_stack": NondeterministicStack,
    "dnc": DNC,
    "lie_access": LieAccessMemory,
    "ram": RandomAccessMemory,
}

__all__ = [
    "BACKENDS",
    "DNC",
    "MEMORIES",
    "ActionValue",
    "Constant",
    "DNCInstruction",
    "DNCState",
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
    "LinklessInstruction",
    "LinklessState",
    "ListCells",
    "Memory",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "NondeterministicInstruction",
    "NondeterministicStack",
    "NondeterministicState",
    "PushPop",
    "QueueState",
    "RandomAccessInstruction",
    "RandomAccessMemory",
    "RandomAccessState",
    "RollInstruction",
    "RollState",
    "RollingTape",
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
    "portable",
    "trim_cells",
]

# The kernels import this package and register themselves for `Memory.unroll`.
unbounded.load_kernels()
