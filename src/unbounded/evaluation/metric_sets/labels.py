"""Labels at each prefix: sequences with all labels correct, and the share of correct labels."""

from __future__ import annotations

from torch import Tensor

from unbounded.evaluation.metric_sets.sequences import Sequences
from unbounded.evaluation.metrics import check_scored

_LEGEND = """\
Each cell is exact match / symbol accuracy: the share of sequences whose labels are all correct, and
the mean share of correct labels of a sequence. Sequences are of the test split, at the training
range ("train") and the test range ("test")."""


def label_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Score each sequence of a batch by its labels.

    Args:
        predicted, targets: labels, int64 [B, T].
        mask: True at the steps with a label, bool [B, T], at least one a row.
    Returns:
        exact match, bool [B]; symbol accuracy, float64 [B], the share of correct labels.
    Raises:
        ShapeError: the three shapes differ, or a row has no label.
    """
    count = check_scored(predicted, targets, mask)
    correct = ((predicted == targets) & mask).sum(dim=1)
    return correct == count, correct.double() / count


def labels() -> Sequences:
    """The metric set of labels."""
    return Sequences(label_scores, _LEGEND)
