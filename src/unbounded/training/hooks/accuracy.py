"""The accuracies on fresh validation examples that the metrics log shows during training."""

from __future__ import annotations

from unbounded.tasks import LengthRange
from unbounded.training.hook import Assess, Hook, Record
from unbounded.training.state import LoopState


class Accuracy(Hook):
    """Records the accuracy on one range of lengths.

    Args:
        lengths: of the validation examples.
        count: examples of each assessment.
        every: batches between assessments.
    """

    in_cooldown = True

    def __init__(self, lengths: LengthRange, *, count: int, every: int) -> None:
        self._lengths, self._count, self._every = lengths, count, every

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> None:
        """Assess the model if an assessment is due."""
        if state.batch % self._every:
            return
        score = assess(self._lengths, state.drawn, self._count)
        state.drawn += self._count
        record(
            {
                "kind": "accuracy",
                "batch": state.batch,
                "lengths": str(self._lengths),
                "count": score.count,
                "exact_match": score.exact_match,
                "partial_accuracy": score.partial_accuracy,
            }
        )
