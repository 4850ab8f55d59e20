"""The roles of a report's ranges."""

from __future__ import annotations

import pytest
from torch import nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.evaluation.metric_sets import Evaluator, metric_set_of
from unbounded.evaluation.metric_sets.base import default_lengths, roles_of
from unbounded.tasks import LengthRange, make_task


def evaluator(train: str, test: str, validation: str, task: str = "copy") -> Evaluator:
    built = make_task(task, train_lengths=train, test_lengths=test)
    own = (LengthRange.parse(text) for text in (train, validation))
    return evaluator_of(nn.Identity(), built, *own)


def roles(of: Evaluator, *texts: str) -> list[str]:
    roles = roles_of(of, [LengthRange.parse(text) for text in texts])
    return [roles[LengthRange.parse(text)] for text in texts]


@pytest.mark.parametrize("validation", ["30:40", "1:2", "9:11"])
def test_the_test_range_of_the_task_has_the_role_test(validation: str) -> None:
    own = evaluator("1:2", "30:40", validation)
    assert roles(own, "9:11", "1:2", "30:40", "41:80", "1:1") == [
        "longer",
        "train",
        "test",
        "longer",
        "other",
    ]


def test_the_range_of_the_stop_rule_is_the_test_without_a_task_range() -> None:
    assert roles(evaluator("1:2", "30:40", "9:11"), "1:2", "9:11", "12:13") == [
        "train",
        "test",
        "longer",
    ]
    assert roles(evaluator("1:2", "30:40", "1:2"), "1:2", "9:11") == ["train", "longer"]


def test_one_range_for_both_is_the_test() -> None:
    assert roles(evaluator("1:3", "1:3", "1:3"), "1:3") == ["test"]


def test_one_range_for_both_is_in_both_columns() -> None:
    metric_set = metric_set_of("sequences")
    rows = [
        {"lengths": "1:3", "role": "test", "exact_match": 0.5, "prefix_accuracy": 0.75},
        {"lengths": "2:3", "role": "other", "exact_match": 0.25, "prefix_accuracy": 0.5},
    ]
    assert metric_set.values({"rows": rows, "train_lengths": "1:3"}) == {
        "train_exact_match": 0.5,
        "train_prefix_accuracy": 0.75,
        "test_exact_match": 0.5,
        "test_prefix_accuracy": 0.75,
    }
    assert metric_set.further(rows) == {"2:3": (0.25, 0.5)}
    apart = metric_set.values({"rows": rows, "train_lengths": "1:2"})
    assert apart["train_exact_match"] is None


def test_no_range_is_added_that_the_task_cannot_draw() -> None:
    assert [str(each) for each in default_lengths(evaluator("1:2", "3:5", "3:5"))] == [
        "1:2",
        "3:5",
        "6:10",
    ]
    beyond = evaluator("3:5", "6:3000", "6:3000", task="svo_sov")
    assert [str(each) for each in default_lengths(beyond)] == ["3:5", "6:3000"]
