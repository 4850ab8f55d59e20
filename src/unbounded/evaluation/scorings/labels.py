"""Labels at each prefix: sequences whose labels are all right, and the share of labels that are."""

from __future__ import annotations

from torch import Tensor

from unbounded.evaluation.metrics import check_scored
from unbounded.evaluation.scorings.sequences import Sequences

_LEGEND = """\
Accuracies are coarse / fine: sequences of which every label is right, and the share of right labels
of a sequence, each on sequences of the test split, at the training range ("train") and at the test
range ("test")."""


def label_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Score each sequence of a batch by its labels.

    Args:
        predicted, targets: labels, int64 [B, T].
        mask: True at the steps that have one, bool [B, T], at least one a row.
    Returns:
        coarse, bool [B], whether all are right; fine, float64 [B], the share that is.
    Raises:
        ShapeError: the three shapes differ, or a row has no label.
    """
    count = check_scored(predicted, targets, mask)
    right = ((predicted == targets) & mask).sum(dim=1)
    return right == count, right.double() / count


def labels() -> Sequences:
    """The scoring of labels."""
    return Sequences(label_scores, _LEGEND)
