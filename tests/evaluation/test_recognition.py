"""Scores of recognition: labels at the last step, in all and by length."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.evaluation import METRIC_SETS, EvaluationPlan
from unbounded.tasks import LengthRange, make_task


class Recogniser(nn.Module):
    """Predict at each step whether the prefix is in the language, up to a length."""

    def __init__(self, task, most: int) -> None:
        super().__init__()
        self.language, self.most = task.language, most
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor, state: None = None) -> tuple[Tensor, None]:
        logits = torch.full((*inputs.shape, 1), -2.0)
        for row, tokens in enumerate(inputs.tolist()):
            for place in range(min(len(tokens), self.most + 1)):
                if 0 not in tokens[1 : place + 1]:
                    accepted = self.language.accepts([token - 1 for token in tokens[1 : place + 1]])
                    logits[row, place, 0] = 2.0 if accepted else -2.0
        return logits, None


def test_rows_are_of_all_strings_and_of_bands() -> None:
    task = make_task("flare", language="first")
    rule = METRIC_SETS["recognition"]
    lengths = [LengthRange(1, 10), LengthRange(1, 30)]
    evaluator = evaluator_of(Recogniser(task, 10), task, lengths[0], lengths[0])
    train, test = rule.rows(evaluator, EvaluationPlan("test", 5, lengths, 300, every=10))
    assert (train["role"], train["accuracy"], train["count"]) == ("train", 1.0, 300)
    assert train["nats"] == pytest.approx(math.log1p(math.exp(-2)))
    bands = test["per_n"]
    assert [band["lengths"] for band in bands] == ["1:10", "11:20", "21:30"]
    assert sum(band["count"] for band in bands) == test["count"] == 300
    assert bands[0]["accuracy"] == 1.0
    # Beyond 10 symbols every string is rejected.
    assert bands[1]["positives_correct"] == bands[2]["positives_correct"] == 0
    assert bands[1]["correct"] == bands[1]["count"] - bands[1]["positives"]
    assert rule.succeeded([train, test]) is None
    facts = rule.facts(evaluator, EvaluationPlan("test", 5, None, 4))["validation"]
    assert facts["accuracy"] == 1.0
    assert rule.selection_metric_of({"validation": facts}) == facts["nats"]
    assert len(rule.lines([train, test])) == 3
    assert len(rule.details([train, test])) == 5
    assert rule.label([train]) == "1-10-by10-n300"


def test_success_is_an_accuracy_of_one_to_two_digits() -> None:
    rule = METRIC_SETS["recognition"]
    for accuracy, success in ((0.996, True), (0.994, False)):
        rows = [{"role": "test", "accuracy": accuracy, "nats": 0.1, "lengths": "1:500"}]
        assert rule.succeeded(rows) is success
        assert rule.values({"rows": rows}) == {
            "train_accuracy": None,
            "test_accuracy": accuracy,
            "longer_accuracy": None,
            "test_nats": 0.1,
        }
