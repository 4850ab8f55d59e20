"""Token accuracy and exact match by length, and their means over lengths."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.evaluation import METRIC_SETS, EvaluationPlan
from unbounded.tasks import LengthRange, make_task


class Correct(nn.Module):
    """Answers by the task's rule up to a length, and zeros beyond."""

    def __init__(self, task, most: int) -> None:
        super().__init__()
        self.task, self.most = task, most
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor, state: None = None) -> tuple[Tensor, None]:
        logits = torch.zeros(*inputs.shape, len(self.task.output_vocabulary))
        for row, tokens in enumerate(inputs):
            source = tokens[: int((tokens == self.task.answer_token).nonzero()[0])]
            answers, counts = self.task.pairs.answers(source.unsqueeze(0).numpy())
            count = int(counts[0])
            symbols = torch.tensor(answers[0, :count].tolist())
            if len(source) > self.most:
                symbols = torch.zeros_like(symbols)
            steps = len(source) + torch.arange(count)
            logits[row, steps, symbols] = 1.0
        return logits, None


def evaluator(most, task):
    return evaluator_of(Correct(task, most), task, validation=task.train_lengths)


def test_a_range_has_the_means_of_its_lengths() -> None:
    task = make_task("reverse_string")
    rule = METRIC_SETS["by_length"]
    lengths = [LengthRange(1, 40), LengthRange(41, 60)]
    plan = EvaluationPlan("test", 5, lengths, 16, every=2)
    train, test = rule.rows(evaluator(50, task), plan)
    assert (train["role"], train["token_accuracy"], train["exact_match"]) == ("train", 1.0, 1.0)
    assert train["correct_up_to"] == 39
    assert [at["n"] for at in test["per_n"]] == list(range(41, 60, 2))
    assert [at["exact_match"] for at in test["per_n"]] == [1.0] * 5 + [0.0] * 5
    assert (test["correct_up_to"], test["exact_match"]) == (49, 0.5)
    mean = sum(at["token_accuracy"] for at in test["per_n"]) / 10
    assert test["token_accuracy"] == pytest.approx(mean)
    assert 0.7 < mean < 0.8
    assert test["scaled_accuracy"] == pytest.approx(2 * mean - 1)
    assert (test["count"], test["lengths_scored"]) == (160, 10)
    assert len(rule.lines([train, test])) == 3
    assert len(rule.details([train, test])) == 31
    assert "of 41:60 every 2th length" in rule.notes([train, test])[-1]
    assert rule.label([train, test]) == "1-40_41-60-by2-n16"
    assert rule.label([{**train, "every": 1}, test]) == "1-40_41-60-by2-n16"


def test_a_range_that_is_not_longer_than_the_step_has_all_its_lengths() -> None:
    rule = METRIC_SETS["by_length"]
    lengths = [LengthRange(3, 6), LengthRange(7, 17)]
    plan = EvaluationPlan("test", 5, lengths, 4, every=10)
    rows = rule.rows(evaluator(5, make_task("reverse_string")), plan)
    assert [[at["n"] for at in row["per_n"]] for row in rows] == [[3, 4, 5, 6], [7, 17]]
    assert [(row["every"], row["correct_up_to"]) for row in rows] == [(1, 5), (10, None)]
    explained, note = rule.notes(rows)
    assert "the longest scored length up to which all answers" in explained
    assert note == "of 7:17 every 10th length was scored"


def test_success_and_selection_are_those_of_the_paper() -> None:
    rule = METRIC_SETS["by_length"]
    for accuracy, success in ((0.9, True), (0.89, False)):
        rows = [
            {"role": "test", "token_accuracy": accuracy, "exact_match": 0.0, "lengths": "41:50"}
        ]
        assert rule.succeeded(rows) is success
        assert rule.values({"rows": rows})["test_token_accuracy"] == accuracy
    assert rule.succeeded([]) is None
    report = {"validation": {"token_accuracy": 0.75, "nats_per_token": 0.5}}
    assert rule.selection_metric_of(report) == pytest.approx(0.2505)


def test_validation_is_of_the_training_lengths() -> None:
    task = make_task("parity_check")
    rule = METRIC_SETS["by_length"]
    facts = rule.facts(evaluator(40, task), EvaluationPlan("test", 5, None, 4))
    assert facts["validation"]["exact_match"] == 1.0
    assert facts["validation"]["lengths"] == "1:40"
    assert rule.validates_on == "train"
