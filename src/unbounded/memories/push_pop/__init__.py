"""Neural stack, queue and deque."""

from unbounded.memories.push_pop.reference import (
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

__all__ = [
    "DequeState",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "PushPop",
    "QueueState",
    "StackState",
    "TwoEndedPushPop",
    "quiet_deque",
]
