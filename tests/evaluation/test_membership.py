"""The area under the ROC curve by counting pairs; words scored by their last step, in bands."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from torch import nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.errors import ShapeError
from unbounded.evaluation import EvaluationPlan, metric_set_of
from unbounded.evaluation.metric_sets.membership import against_nan, auc, bands_of
from unbounded.tasks import LengthRange, make_task

METRIC_SET = metric_set_of("membership")


def by_pairs(scores, labels):
    positives = [s for s, label in zip(scores, labels, strict=True) if label]
    negatives = [s for s, label in zip(scores, labels, strict=True) if not label]
    pairs = list(itertools.product(positives, negatives))
    return sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs)


def test_auc_is_the_share_of_pairs_in_order():
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(2, (60,), generator=generator)
    scores = (torch.randn(60, generator=generator) + labels).round(decimals=1)  # with ties
    area = auc(scores, labels)
    assert area.area == pytest.approx(by_pairs(scores.tolist(), labels.tolist()), abs=1e-6)
    assert auc(-30 * scores, labels).area == pytest.approx(1 - area.area, abs=1e-6)
    # Only the order counts: 40 and 50 would be the same after a sigmoid.
    sure = auc(torch.tensor([50.0, 40.0, 45.0]), torch.tensor([1, 0, 0]))
    assert sure == (1.0, 1.0, 1.0)


def test_no_area_is_above_1():
    """In float32, sums of trapezia can be above 1: 1.0000001 for 2 in 13."""
    for count in range(3, 60):
        area = auc(torch.arange(float(count)), torch.arange(count) >= count - 2)
        assert area is not None
        assert 1 - 1e-6 < area.area <= 1


def test_delong_interval_covers_the_area_in_95_percent():
    rng = np.random.default_rng(3)
    true, hits = 0.7602499389065233, 0  # Phi(1 / sqrt 2): normal scores a deviation apart
    for _ in range(400):
        labels = torch.tensor([1] * 40 + [0] * 60)
        scores = torch.tensor(rng.normal(size=100)) + labels
        _, low, high = auc(scores, labels)
        hits += low <= true <= high
    assert 365 <= hits <= 395


def test_one_class_has_no_area_and_shapes_must_agree():
    assert auc(torch.ones(3), torch.ones(3)) is None
    with pytest.raises(ShapeError, match=r"scores and labels must have one shape \[N\]"):
        auc(torch.ones(3), torch.ones(2))


class Counter(nn.Module):
    """Accepts Dyck words with heights below a bound, and rejects higher ones."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, inputs, state=None):
        heights = (1 - 2 * inputs).cumsum(dim=1)
        sound = heights.cummin(dim=1).values >= 0
        low = heights.cummax(dim=1).values <= self.most
        logits = torch.where(sound & low & (heights == 0), 2.0, -2.0)
        return logits.unsqueeze(-1), None


def evaluator(most, **options):
    return evaluator_of(Counter(most), make_task("dyck", **options), count=50)


def test_a_counter_is_exact_and_a_low_counter_fails_on_high_words():
    evaluation_plan = EvaluationPlan("test", 1, None, 40, every=10)
    rows = METRIC_SET.rows(evaluator(1000, test_lengths="6:40"), evaluation_plan)
    assert [row["role"] for row in rows] == ["train", "test", "longer"]
    assert [at["lengths"] for at in rows[1]["per_n"]] == ["6:15", "16:25", "26:35", "36:40"]
    assert all(at["auc"] == at["exact_match"] == 1.0 for row in rows for at in row["per_n"])
    assert METRIC_SET.succeeded(rows)
    assert METRIC_SET.notes(rows) == ["AUC is at least 0.999 up to n = 80: words of 160 symbols"]
    assert json.dumps(rows)
    low = METRIC_SET.rows(evaluator(5, test_lengths="6:40"), evaluation_plan)
    assert METRIC_SET.succeeded(low) is False
    areas = [at["auc"] for row in low for at in row["per_n"]]
    assert areas[0] == 1.0
    assert areas[-1] < 0.6
    so_far = [at["auc_so_far"] for row in low for at in row["per_n"]]
    assert areas[-1] < so_far[-1] < so_far[0] == 1.0
    line = METRIC_SET.lines(low)[1]
    assert line[:5] == ("1:5", "40", "1.0000", "1.0000-1.0000", "1.0000")
    assert METRIC_SET.label(low) == "1-5_6-40_41-80-by10-n40"
    low_at_once = METRIC_SET.rows(evaluator(0), EvaluationPlan("test", 1, None, 20, every=100))
    assert METRIC_SET.notes(low_at_once) == ["AUC is below 0.999 already at the shortest lengths"]


def test_words_with_one_label_are_scored_alike_and_choose_by_validation():
    own = evaluator(1000, labels="word", test_lengths="6:9")
    evaluation_plan = EvaluationPlan("test", 1, (LengthRange(2, 3),), 30)
    facts = METRIC_SET.facts(own, evaluation_plan)
    assert facts["validation"]["auc"] == 1.0
    assert 0 < METRIC_SET.selection_metric_of(facts) < 1e-3
    assert METRIC_SET.assess(own, LengthRange(3, 9), 5, 20).exact_match == 1.0
    rows = METRIC_SET.rows(own, evaluation_plan)
    assert METRIC_SET.values({"rows": rows}) == dict.fromkeys(METRIC_SET.columns)
    assert METRIC_SET.further([{**rows[0], "role": "other"}]) == {"2:3": (1.0,)}
    assert METRIC_SET.succeeded(rows) is None


def test_bands():
    assert [str(band) for band in bands_of(LengthRange(6, 16), 5)] == ["6:10", "11:15", "16:16"]


def test_nan_counts_as_the_most_confident_wrong_answer():
    logits = torch.tensor([[[torch.nan], [2.0]], [[torch.nan], [torch.nan]]])
    targets = torch.tensor([[1, 1], [0, 1]])
    values = against_nan(logits, targets)[..., 0].tolist()
    assert values == [[-torch.inf, 2.0], [torch.inf, -torch.inf]]
    ends = torch.tensor([5.0, 4.0, torch.nan, torch.nan, -5.0])
    labels = torch.tensor([1, 1, 1, 0, 0])
    area = auc(against_nan(ends.view(-1, 1, 1), labels.view(-1, 1)).flatten(), labels)
    # The fourth is above all, the third below all: 2 of 6 pairs are in order.
    assert area is not None
    assert area.area == pytest.approx(2 / 6)
