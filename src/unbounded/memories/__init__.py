"""The data structures as equations: one file a memory, readable beside its paper."""

from unbounded.memories.base import BACKENDS, Head, Memory
from unbounded.memories.deque import NeuralDeque, TwoEndedPushPop
from unbounded.memories.queue import NeuralQueue
from unbounded.memories.stack import NeuralStack
from unbounded.memories.state import detach_state, index_state, move_state
from unbounded.memories.strengths import PushPop, StrengthState
from unbounded.memories.superposition import ActionValue, Cells, SuperpositionMemory
from unbounded.memories.superposition_list import SuperpositionList
from unbounded.memories.superposition_stack import SuperpositionStack, trim_cells

#: Every memory of vectors with strengths by the name that configurations use.
MEMORIES: dict[str, type[NeuralStack] | type[NeuralQueue] | type[NeuralDeque]] = {
    "stack": NeuralStack,
    "queue": NeuralQueue,
    "deque": NeuralDeque,
}

#: Every memory of cells in superposition by the name that configurations use.
SUPERPOSITION_MEMORIES: dict[str, type[SuperpositionStack] | type[SuperpositionList]] = {
    "superposition_stack": SuperpositionStack,
    "superposition_list": SuperpositionList,
}

__all__ = [
    "BACKENDS",
    "MEMORIES",
    "SUPERPOSITION_MEMORIES",
    "ActionValue",
    "Cells",
    "Head",
    "Memory",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "PushPop",
    "StrengthState",
    "SuperpositionList",
    "SuperpositionMemory",
    "SuperpositionStack",
    "TwoEndedPushPop",
    "detach_state",
    "index_state",
    "move_state",
    "trim_cells",
]
