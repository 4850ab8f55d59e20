"""Both accuracies of answers by hand; rows, columns and texts of both metric sets."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.constructions import model_of
from tests.evaluation.evaluators import evaluator_of
from unbounded.errors import ShapeError
from unbounded.evaluation import EvaluationPlan, answer_to, answers_of, metric_set_of, with_room
from unbounded.evaluation.metric_sets.answer_scores import answer_scores
from unbounded.tasks import make_task

SIZES, PROGRAMS = metric_set_of("answers"), metric_set_of("programs")


def test_partial_and_prefix_accuracy_by_hand():
    targets = torch.tensor([[9, 1, 2, 3, 0], [9, 9, 1, 2, 0], [9, 9, 9, 1, 0]])
    predicted = torch.tensor([[5, 1, 7, 3, 0], [5, 5, 7, 2, 0], [5, 5, 5, 1, 0]])
    mask = targets != 9
    exact_match, partial_accuracy, prefix = answer_scores(predicted, targets, mask)
    assert exact_match.tolist() == [False, False, True]
    assert partial_accuracy.tolist() == [3 / 4, 2 / 3, 1]
    assert prefix.tolist() == [1 / 4, 0, 1]
    with pytest.raises(ShapeError, match="a row has no target symbol"):
        answer_scores(predicted, targets, torch.zeros_like(mask))


class Copies(nn.Module):
    """Copies a source up to a number of symbols, optionally with an incorrect second symbol."""

    def __init__(self, most: int, slip: bool = False) -> None:
        super().__init__()
        self.most, self.slip = most, slip

    def forward(self, inputs, state=None):
        predicted = torch.zeros_like(inputs)
        for row, tokens in enumerate(inputs):
            first = int((tokens == 1).nonzero()[0])
            for place in range(min(self.most, first - 1)):
                wrong = self.slip and place == 1
                predicted[row, first + place] = 0 if wrong else tokens[1 + place] - 1
        return F.one_hot(predicted, 4).float(), None


def test_rows_are_at_1_2_4_and_8_times_the_longest_training_length():
    task = make_task("answer_copy", symbols=3, train_lengths="2:4", test_lengths="5:8")
    own = evaluator_of(Copies(8), task)
    evaluation_plan = EvaluationPlan("test", 1, None, 30)
    rows = SIZES.rows(own, evaluation_plan)
    assert [row["lengths"] for row in rows] == ["2:4", "5:8", "9:16", "17:32"]
    assert [row["role"] for row in rows] == ["train", "test", "longer", "longer"]
    assert [row["times"] for row in rows] == [1, 2, 4, 8]
    assert [row["exact_match"] for row in rows] == [1, 1, 0, 0]
    assert 0.3 < rows[2]["prefix_accuracy"] < 1
    assert json.dumps(rows)
    report = {"rows": rows, **SIZES.facts(own, evaluation_plan)}
    values = SIZES.values(report)
    assert tuple(values) == tuple(SIZES.columns)
    assert (values["exact_match_2x"], values["exact_match_4x"]) == (1, 0)
    assert values["prefix_accuracy_8x"] == rows[3]["prefix_accuracy"]
    assert SIZES.succeeded(rows) is True
    assert SIZES.further(rows) == {}
    assert 0 < SIZES.selection_metric_of(report) <= 1e-3
    assert SIZES.values({"rows": rows[:2]})["exact_match_4x"] is None


def test_symbol_and_prefix_accuracy_differ_if_an_error_is_in_the_middle():
    task = make_task("answer_copy", symbols=3, train_lengths="4:4", test_lengths="8:8")
    own = evaluator_of(Copies(8, slip=True), task)
    rows = SIZES.rows(own, EvaluationPlan("test", 1, None, 30))
    assert rows[0]["symbol_accuracy"] == pytest.approx(4 / 5)
    assert rows[0]["prefix_accuracy"] == pytest.approx(1 / 5)
    assert rows[1]["symbol_accuracy"] == pytest.approx(8 / 9)
    assert SIZES.succeeded(rows) is False
    assert own.task.metric_set == "answers"
    assert SIZES.assess(own, task.test_lengths, 0, 10).partial_accuracy == pytest.approx(8 / 9)
    assert SIZES.selection_metric_of(SIZES.facts(own, EvaluationPlan("test", 1, None, 5))) > 0.1
    head, first = SIZES.lines(rows)[:2]
    assert head[5:] == ("symbol accuracy", "+-", "prefix accuracy")
    assert first == ("4:4", "1x", "30", "0.000", "0.000-0.114", "0.800", "0.000", "0.200")
    assert 'share before the first error ("fine" of Grefenstette)' in SIZES.notes(rows)[0]
    assert SIZES.label(rows[:2]) == "4-4_8-8-n30"


def test_every_column_belongs_to_a_group():
    for metric_set in (SIZES, PROGRAMS):
        assert [c for group in metric_set.groups.values() for c in group] == list(
            metric_set.columns
        )
        assert metric_set.spread[0] in metric_set.columns
        assert metric_set.shown in metric_set.groups


class Silent(nn.Module):
    def forward(self, inputs, state=None):
        predicted = torch.full_like(inputs, 41)
        return F.one_hot(predicted, 42).float(), None


def test_programs():
    task = make_task("programs")
    own = evaluator_of(Silent(), task)
    evaluation_plan = EvaluationPlan("test", 1, None, 200)
    rows = PROGRAMS.rows(own, evaluation_plan)
    assert [(row["lengths"], row["role"]) for row in rows] == [("2:4", "train"), ("4:4", "test")]
    # Only the end is correct.
    assert all(0 < row["symbol_accuracy"] < 0.5 and row["exact_match"] == 0 for row in rows)
    assert PROGRAMS.succeeded(rows) is None
    assert set(PROGRAMS.values({"rows": rows})) == {
        "exact_match_test",
        "symbol_accuracy_test",
        "prefix_accuracy_test",
    }
    operators = list(task.operators)
    assert list(PROGRAMS.further(rows)) == ["2:4", *operators]
    for row in rows:
        parts = row["per_operator"]
        assert list(parts) == operators
        assert sum(part["count"] for part in parts.values()) == 200
        share = sum(part["count"] * part["symbol_accuracy"] for part in parts.values()) / 200
        assert share == pytest.approx(row["symbol_accuracy"])
    headings, *lines = PROGRAMS.details(rows)
    assert headings[:3] == ("operator", "programs", "lengths")
    assert [line[0] for line in lines] == 2 * operators
    alone = make_task("small_loops")
    rows = PROGRAMS.rows(evaluator_of(Silent(), alone), evaluation_plan)
    assert PROGRAMS.details(rows) == []
    assert list(PROGRAMS.further(rows)) == ["2:4"]


def test_answers_are_those_of_a_memory_with_room():
    """A capacity that was enough in training limits no answer, as it limits no score."""
    torch.manual_seed(6)
    task = make_task("answer_reverse", symbols=3, train_lengths="2:4", test_lengths="5:8")
    memory = {"name": "superposition_stack", "count": 2, "capacity": 3, "overflow": "error"}
    model = model_of(task, memory=memory, hidden_size=6)
    roomy, _ = with_room(model, 200)
    batch = task.batch(1, "test", 0, 3)
    assert answers_of(model, task, batch) == answers_of(roomy, task, batch)
    source = ["s0", "s1", "s2"] * 3
    answer = answer_to(model, task, source)
    for field, same in zip(answer, answer_to(roomy, task, source), strict=True):
        assert torch.equal(field, same)
    assert model.sequence.layer.memory.capacity == 3
