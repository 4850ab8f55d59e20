"""Cross entropy above the exact bound: 0 for a model of the distribution itself."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.errors import ConfigError
from unbounded.evaluation import METRIC_SETS, EvaluationPlan
from unbounded.tasks import LengthRange, make_task


class Exact(nn.Module):
    """The distribution of w # reverse(w) with a length of 1, 3, ..., `most` symbols, uniformly."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor, state: None = None) -> tuple[Tensor, None]:
        logits = torch.full((*inputs.shape, 4), -torch.inf)
        for row, tokens in enumerate(inputs.tolist()):
            word: list[int] = []
            marked = False
            for place, token in enumerate(tokens):
                if place and token == 3:
                    marked = True
                elif place and not marked:
                    word.append(token)
                elif place and word:
                    word.pop()
                if marked:
                    logits[row, place, word[-1] if word else 0] = 0.0
                    continue
                # Lengths that are still possible; one of them has # now.
                left = (self.most - 1) // 2 - len(word) + 1
                logits[row, place, 3] = math.log(1 / max(left, 1))
                if left > 1:
                    logits[row, place, 1:3] = math.log((1 - 1 / left) / 2)
        return logits, None


def test_the_exact_model_is_at_the_bound() -> None:
    task = make_task("stack_language", train_lengths="1:9", test_lengths="1:9")
    rule = METRIC_SETS["above_bound"]
    lengths = LengthRange(1, 9)
    plan = EvaluationPlan("test", 5, [lengths, LengthRange(1, 5)], 10)
    full, part = rule.rows(evaluator_of(Exact(9), task, lengths, lengths), plan)
    assert full["above_bound"] == pytest.approx(0, abs=1e-6)
    assert [at["n"] for at in full["per_n"]] == [1, 3, 5, 7, 9]
    assert all(at["above_bound"] == pytest.approx(0, abs=1e-6) for at in full["per_n"])
    # -log p of a string of n symbols: its length is one of five, its word one of 2^((n - 1) / 2).
    nats = sum(math.log(5) + k * math.log(2) for k in range(5)) / sum(2 * k + 2 for k in range(5))
    assert full["bound"] == pytest.approx(nats)
    # Strings of at most 5 symbols are likelier where no longer ones exist.
    assert part["above_bound"] > 0.05
    facts = rule.facts(evaluator_of(Exact(9), task, lengths, lengths), plan)["validation"]
    assert facts["above_bound"] == pytest.approx(0, abs=1e-6)
    assert rule.selection_metric_of({"validation": facts}) == facts["nats_per_symbol"]
    assert len(rule.lines([full, part])) == 3
    assert len(rule.details([full, part])) == 9
    assert rule.succeeded([full]) is None
    assert rule.values({"rows": [{**full, "role": "test"}]})["test_above_bound"] < 1e-6


def test_steps_are_of_lengths_with_strings() -> None:
    task = make_task("stack_language", train_lengths="1:9", test_lengths="1:9")
    rule, lengths = METRIC_SETS["above_bound"], LengthRange(2, 9)
    plan = EvaluationPlan("test", 5, [lengths], 3, every=2)
    (row,) = rule.rows(evaluator_of(Exact(9), task, lengths, lengths), plan)
    assert [at["n"] for at in row["per_n"]] == [3, 7]
    (short,) = rule.rows(evaluator_of(Exact(9), task, lengths, lengths), replace(plan, every=4))
    assert (short["every"], [at["n"] for at in short["per_n"]]) == (1, [3, 5, 7, 9])
    with pytest.raises(ConfigError, match="cannot be judged as correct or wrong"):
        rule.assess(evaluator_of(Exact(9), task, lengths, lengths), lengths, 0, 3)
