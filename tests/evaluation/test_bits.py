"""Incorrect bits by hand; the objective of bits; the metric set of bit vectors."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.errors import ShapeError
from unbounded.evaluation import EvaluationPlan, metric_set_of
from unbounded.evaluation.metric_sets.bits import bits_wrong
from unbounded.tasks import LengthRange, make_task
from unbounded.training import OBJECTIVES, masked_bit_cross_entropy

METRIC_SET = metric_set_of("bits")


def test_bits_wrong_by_hand():
    targets = torch.tensor([[0b101, 0b011, 0], [0b111, 0, 0]])
    predicted = torch.tensor([[0b100, 0b011, 0b111], [0b000, 0b1000, 0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert bits_wrong(predicted, targets, mask).tolist() == [1, 4]
    with pytest.raises(ShapeError):
        bits_wrong(predicted[:, :2], targets, mask)


def test_the_objective_of_bits_by_hand():
    logits = torch.tensor([[[0.5, -1.0], [2.0, 3.0]]])
    targets, mask = torch.tensor([[0b10, 0b01]]), torch.tensor([[True, False]])

    def nats(logit: float, bit: int) -> float:
        return math.log1p(math.exp(-logit if bit else logit))

    loss = masked_bit_cross_entropy(logits, targets, mask)
    assert float(loss) == pytest.approx(nats(0.5, 0) + nats(-1.0, 1), rel=1e-6)
    assert OBJECTIVES["bits"].predict(logits).tolist() == [[0b01, 0b11]]
    assert masked_bit_cross_entropy(logits.half(), targets, mask).dtype == torch.float32
    with pytest.raises(ShapeError, match=r"logits must be \[B, T, K\]"):
        masked_bit_cross_entropy(logits[0], targets, mask)


class Echo(nn.Module):
    """Copies perfectly up to a number of vectors, and predicts zeros beyond."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, inputs, state=None):
        bits = torch.full((*inputs.shape, 8), -1.0)
        for row, tokens in enumerate(inputs):
            end = int((tokens == 256).nonzero()[0])
            for place in range(min(self.most, end)):
                step = end + 1 + place
                bits[row, step] = ((tokens[place] >> torch.arange(8)) & 1) * 2.0 - 1
        return bits, None


def test_a_range_for_both_counts_as_the_training_range():
    task = make_task("ntm_copy", train_lengths="1:3", test_lengths="1:3")
    evaluator = evaluator_of(Echo(5), task, validation=task.train_lengths)
    rows = METRIC_SET.rows(evaluator, EvaluationPlan("test", 1, None, 50))
    assert [row["role"] for row in rows] == ["train"]
    assert METRIC_SET.succeeded(rows) is True


def test_rows_selection_metric_and_success():
    task = make_task("ntm_copy", train_lengths="1:5", test_lengths="6:8")
    evaluator = evaluator_of(Echo(5), task, validation=task.train_lengths)
    evaluation_plan = EvaluationPlan("test", 1, None, 50)
    rows = METRIC_SET.rows(evaluator, evaluation_plan)
    assert [row["role"] for row in rows] == ["train", "test"]
    assert rows[0]["bits_wrong_per_sequence"] == 0
    # Of one to three vectors half of the bits are incorrect.
    assert 4 < rows[1]["bits_wrong_per_sequence"] < 12
    assert rows[1]["exact_match"] == 0
    assert 0.6 < rows[1]["symbol_accuracy"] < 0.95
    assert json.dumps(rows)
    facts = METRIC_SET.facts(evaluator, evaluation_plan)
    assert 0 < METRIC_SET.selection_metric_of(facts) <= 1e-3
    assert METRIC_SET.succeeded(rows) is True
    assert METRIC_SET.succeeded(rows[1:]) is None  # the training range has no row
    assert METRIC_SET.values({"rows": rows})["train"] == 0
    assert METRIC_SET.lines(rows)[1][:6] == ("1:5", "50", "0.000", "0.000", "24.2", "1.000")
    assert METRIC_SET.label(rows) == "1-5_6-8-n50"
    assert METRIC_SET.further([{**rows[1], "role": "longer"}]).keys() == {"6:8"}
    assert METRIC_SET.assess(evaluator, LengthRange(6, 8), 3, 10).correct == 0
    assert METRIC_SET.validation_batch(evaluator).inputs.shape[0] == 20
