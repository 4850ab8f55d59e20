"""Comparison of two models on the same strings: the sets, and when the second is worse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.constructions import model_of
from tests.evaluation.evaluators import evaluator_of
from unbounded.evaluation.comparison import (
    ComparisonSet,
    Share,
    compare,
    comparison_rows,
    comparison_sets,
    is_exact,
    mean_share,
    worse_sets,
)
from unbounded.evaluation.metric_sets import Evaluator, metric_set_of
from unbounded.tasks import LengthRange, make_task


def evaluator(name: str, **options: Any) -> Evaluator:
    task = make_task(name, **options)
    return evaluator_of(model_of(task, hidden_size=8).eval(), task, count=100)


def test_copy_is_compared_on_ranges_far_beyond_and_on_shifted_inputs() -> None:
    own = evaluator("copy")
    ranges = own.train_lengths, own.validation_lengths
    sets = comparison_sets(own, ranges, LengthRange(640, 640))
    assert [
        (subset.name, subset.evaluator.validation_count, subset.is_shifted) for subset in sets
    ] == [
        ("lengths 8:64", 1000, False),
        ("lengths 65:128", 1000, False),
        ("lengths 640:640", 1000, False),
        ("two symbols, lengths 65:128", 200, True),
        ("two symbols, lengths 640:640", 200, True),
        ("one symbol repeated, lengths 65:128", 200, True),
        ("lengths 1:7", 200, True),
        ("lengths 1:1", 200, True),
    ]
    for subset in sets:
        few = {"two": 2, "one": 1}.get(subset.name.split()[0], 128)
        examples = subset.evaluator.task.examples(
            1, "validation", 0, 20, subset.evaluator.validation_lengths
        )
        symbols = {symbol for example in examples for symbol in example.source}
        assert symbols <= {f"s{number}" for number in range(few)}
        assert all(example.target == example.source for example in examples)


@pytest.mark.parametrize(
    ("name", "shifted"),
    [
        ("anbn", ["lengths 1:1"]),
        ("anbmc_sum", ["lengths 2:2"]),
        ("ntm_copy", ["lengths 1:1"]),
        ("dyck_prefixes", ["lengths 1:1"]),
        (
            "bigram_flip",
            [
                "two symbols, lengths 65:128",
                "one symbol repeated, lengths 65:128",
                "lengths 2:7",
                "lengths 2:2",
            ],
        ),
    ],
)
def test_every_layout_has_its_shortest_length(name: str, shifted: list[str]) -> None:
    own = evaluator(name)
    sets = comparison_sets(own, [own.train_lengths])
    if name == "bigram_flip":
        sets = comparison_sets(own, [own.train_lengths, own.validation_lengths])
    assert [subset.name for subset in sets if subset.is_shifted] == shifted


def test_strings_of_fewer_symbols_keep_the_vocabularies() -> None:
    for name in ("reversal", "svo_sov", "answer_odd_first"):
        task = make_task(name)
        few = task.over(2)
        assert few is not None
        assert few.input_vocabulary == task.input_vocabulary
        assert few.output_vocabulary == task.output_vocabulary
        full = {str(example) for example in task.examples(3, "test", 0, 50)}
        assert not full & {str(example) for example in few.examples(3, "test", 0, 50)}
    assert make_task("anbn").over(1) is None


def test_a_share_is_the_metric_sets() -> None:
    own = evaluator("copy", symbols=2, train_lengths="1:3", test_lengths="4:5")
    metric_set = metric_set_of("sequences")
    sets = comparison_sets(own, [own.train_lengths])
    shares = compare(metric_set, own.model, sets)
    score = metric_set.assess(own, own.train_lengths, 0, 1000)
    assert shares["lengths 1:3"] == (score.correct, 1000)
    assert set(shares) == {subset.name for subset in sets}


def test_sets_that_are_worse_beyond_their_interval() -> None:
    own = evaluator("copy")
    names = {"exact": False, "nearly": False, "wrong": False, "short": True}
    sets = [ComparisonSet(name, own, is_shifted) for name, is_shifted in names.items()]
    before = {"exact": Share(1000, 1000), "nearly": Share(990, 1000), "wrong": Share(0, 200)}
    good = {"exact": Share(1000, 1000), "nearly": Share(985, 1000), "wrong": Share(200, 200)}
    before["short"], good["short"] = Share(200, 200), Share(196, 200)
    assert worse_sets(sets, before, good) == []
    assert worse_sets(sets, before, {**good, "exact": Share(999, 1000)}) == ["exact"]
    assert worse_sets(sets, before, {**good, "nearly": Share(980, 1000)}) == ["nearly"]
    assert worse_sets(sets, before, {**good, "wrong": Share(0, 200)}) == []
    assert worse_sets(sets, before, {**good, "short": Share(195, 200)}) == ["short"]
    assert comparison_rows(before, good)[1] == {
        "set": "nearly",
        "count": 1000,
        "trained": 990,
        "hardened": 985,
    }
    assert mean_share(before) == pytest.approx((1 + 0.99 + 0 + 1) / 4)


def test_exact_ignores_shifted_inputs() -> None:
    own = evaluator("copy")
    sets = comparison_sets(own, [own.train_lengths])
    shares = {subset.name: Share(0 if subset.is_shifted else 5, 5) for subset in sets}
    assert is_exact(shares, sets)
    assert not is_exact({**shares, "lengths 8:64": Share(4, 5)}, sets)
