"""Scores of labels and the binary objective, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from unbounded.errors import ShapeError
from unbounded.evaluation.metric_sets.membership import label_scores
from unbounded.training import OBJECTIVES, masked_binary_cross_entropy

MASK = torch.tensor([[True, True, True], [True, True, False]])


def test_label_scores_by_hand():
    targets = torch.tensor([[0, 1, 1], [1, 0, 0]])
    predicted = torch.tensor([[1, 1, 0], [1, 0, 1]])
    exact_match, partial_accuracy = label_scores(predicted, targets, MASK)
    assert exact_match.tolist() == [False, True]
    assert partial_accuracy.tolist() == pytest.approx([1 / 3, 1.0])
    with pytest.raises(ShapeError):
        label_scores(predicted, targets[:, :2], MASK)


def test_the_binary_objective_by_hand():
    logits = torch.tensor([[0.0, 2.0, -1.0], [3.0, -0.5, 9.0]]).unsqueeze(-1)
    targets = torch.tensor([[1, 1, 0], [0, 1, 0]])
    loss = masked_binary_cross_entropy(logits, targets, MASK)

    def nats(logit: float, target: int) -> float:
        return math.log1p(math.exp(-logit if target else logit))

    by_hand = nats(0, 1) + nats(2, 1) + nats(-1, 0) + nats(3, 0) + nats(-0.5, 1)
    assert float(loss) == pytest.approx(by_hand, rel=1e-6)
    assert OBJECTIVES["binary"].predict(logits).tolist() == [[0, 1, 0], [1, 0, 1]]
    half = masked_binary_cross_entropy(logits.half(), targets, MASK)
    assert half.dtype == torch.float32
    with pytest.raises(ShapeError, match=r"logits must be \[B, T, 1\]"):
        masked_binary_cross_entropy(logits.expand(-1, -1, 2), targets, MASK)
