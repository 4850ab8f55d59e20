"""The data structures as equations: one file a memory, readable beside its paper."""

from unbounded.memories.base import BACKENDS, Head, Memory
from unbounded.memories.deque import NeuralDeque, TwoEndedPushPop
from unbounded.memories.queue import NeuralQueue
from unbounded.memories.stack import NeuralStack
from unbounded.memories.state import detach_state, index_state, move_state
from unbounded.memories.strengths import PushPop, StrengthState

#: Every memory by the name that configurations use.
MEMORIES: dict[str, type[NeuralStack] | type[NeuralQueue] | type[NeuralDeque]] = {
    "stack": NeuralStack,
    "queue": NeuralQueue,
    "deque": NeuralDeque,
}

__all__ = [
    "BACKENDS",
    "MEMORIES",
    "Head",
    "Memory",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "PushPop",
    "StrengthState",
    "TwoEndedPushPop",
    "detach_state",
    "index_state",
    "move_state",
]
