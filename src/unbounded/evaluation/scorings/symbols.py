"""Symbols right: sequences of which at least nine tenths of the target is right."""

from __future__ import annotations

from torch import Tensor

from unbounded.evaluation.metrics import check_scored
from unbounded.evaluation.scorings.sequences import Sequences

_ENOUGH = 0.9
_LEGEND = """\
Accuracies are coarse / fine: sequences of which nine tenths of the target are right, and the share
of a target that is right, at the training range ("train") and at the test range ("test")."""


def symbol_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Score each sequence of a batch by its symbols; as `label_scores`, but for what is enough."""
    count = check_scored(predicted, targets, mask)
    share = ((predicted == targets) & mask).sum(dim=1).double() / count
    return share >= _ENOUGH, share


def symbols() -> Sequences:
    """The scoring of symbols."""
    return Sequences(symbol_scores, _LEGEND)
