"""The data structures as equations: one file a memory, readable beside its paper."""

from collections.abc import Callable

from unbounded.memories.base import BACKENDS, Head, Memory
from unbounded.memories.deque import NeuralDeque, TwoEndedPushPop, quiet_deque
from unbounded.memories.queue import NeuralQueue
from unbounded.memories.stack import NeuralStack
from unbounded.memories.state import detach_state, index_state, move_state
from unbounded.memories.strengths import PushPop, StrengthState

#: Every memory by the name that configurations use. "quiet_deque" is the deque whose bottom is
#: pushed little at first; with both ends alike, copying was not learned (results/grefenstette2015).
MEMORIES: dict[str, Callable[..., NeuralStack | NeuralQueue | NeuralDeque]] = {
    "stack": NeuralStack,
    "queue": NeuralQueue,
    "deque": NeuralDeque,
    "quiet_deque": quiet_deque,
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
