"""Answers scored in both senses of fine, by hand; the rows, columns and words of both scorings."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from unbounded.errors import ShapeError
from unbounded.evaluation import (
    Exam,
    Place,
    Sweep,
    answer_to,
    answers_of,
    scoring_of,
    with_room,
)
from unbounded.evaluation.scorings.answers import answer_scores
from unbounded.models import MemoryModel
from unbounded.tasks import make_task

SIZES, PROGRAMS = scoring_of("answers"), scoring_of("programs")


def test_both_senses_of_fine_by_hand():
    targets = torch.tensor([[9, 1, 2, 3, 0], [9, 9, 1, 2, 0], [9, 9, 9, 1, 0]])
    predicted = torch.tensor([[5, 1, 7, 3, 0], [5, 5, 7, 2, 0], [5, 5, 5, 1, 0]])
    mask = targets != 9
    coarse, fine, prefix = answer_scores(predicted, targets, mask)
    assert coarse.tolist() == [False, False, True]
    assert fine.tolist() == [3 / 4, 2 / 3, 1]
    assert prefix.tolist() == [1 / 4, 0, 1]
    with pytest.raises(ShapeError, match="a row has no target symbol"):
        answer_scores(predicted, targets, torch.zeros_like(mask))


class Copies(nn.Module):
    """Copies a source up to a number of symbols and says its second symbol wrong if asked to."""

    def __init__(self, most: int, slip: bool = False) -> None:
        super().__init__()
        self.most, self.slip = most, slip

    def forward(self, inputs, state=None):
        said = torch.zeros_like(inputs)
        for row, tokens in enumerate(inputs):
            first = int((tokens == 1).nonzero()[0])
            for place in range(min(self.most, first - 1)):
                wrong = self.slip and place == 1
                said[row, first + place] = 0 if wrong else tokens[1 + place] - 1
        return F.one_hot(said, 4).float(), None


def exam(model: nn.Module, task) -> Exam:
    place = Place(torch.device("cpu"))
    return Exam(model, task, 1, place, task.train_lengths, task.test_lengths, 20, 1)


def test_rows_at_one_two_four_and_eight_times_the_longest_of_training():
    task = make_task("answer_copy", symbols=3, train_lengths="2:4", test_lengths="5:8")
    own = exam(Copies(8), task)
    sweep = Sweep("test", 1, None, 30)
    rows = SIZES.rows(own, sweep)
    assert [row["lengths"] for row in rows] == ["2:4", "5:8", "9:16", "17:32"]
    assert [row["role"] for row in rows] == ["train", "test", "longer", "longer"]
    assert [row["times"] for row in rows] == [1, 2, 4, 8]
    assert [row["accuracy_coarse"] for row in rows] == [1, 1, 0, 0]
    assert 0.3 < rows[2]["accuracy_prefix"] < 1
    assert json.dumps(rows)
    report = {"rows": rows, **SIZES.facts(own, sweep)}
    values = SIZES.values(report)
    assert tuple(values) == tuple(SIZES.columns)
    assert (values["coarse_2x"], values["coarse_4x"]) == (1, 0)
    assert values["prefix_8x"] == rows[3]["accuracy_prefix"]
    assert SIZES.succeeded(rows) is True
    assert SIZES.further(rows) == {}
    assert 0 < SIZES.merit_of(report) <= 1e-3
    assert SIZES.values({"rows": rows[:2]})["coarse_4x"] is None


def test_the_two_senses_differ_where_an_error_stands_in_the_middle():
    task = make_task("answer_copy", symbols=3, train_lengths="4:4", test_lengths="8:8")
    own = exam(Copies(8, slip=True), task)
    rows = SIZES.rows(own, Sweep("test", 1, None, 30))
    assert rows[0]["accuracy_fine"] == pytest.approx(4 / 5)
    assert rows[0]["accuracy_prefix"] == pytest.approx(1 / 5)
    assert rows[1]["accuracy_fine"] == pytest.approx(8 / 9)
    assert SIZES.succeeded(rows) is False
    assert own.task.scoring == "answers"
    assert SIZES.assess(own, task.test_lengths, 0, 10).fine == pytest.approx(8 / 9)
    assert SIZES.merit_of(SIZES.facts(own, Sweep("test", 1, None, 5))) > 0.1
    head, first = SIZES.lines(rows)[:2]
    assert head[5:] == ("fine per symbol", "+-", "fine prefix")
    assert first == ("4:4", "1x", "30", "0.000", "0.000-0.114", "0.800", "0.000", "0.200")
    assert "share before the first error (Grefenstette)" in SIZES.notes(rows)[0]
    assert SIZES.label(rows[:2]) == "4-4_8-8-n30"


def test_every_column_stands_in_a_group():
    for scoring in (SIZES, PROGRAMS):
        assert [c for group in scoring.groups.values() for c in group] == list(scoring.columns)
        assert scoring.spread[0] in scoring.columns
        assert scoring.shown in scoring.groups


class Silent(nn.Module):
    def forward(self, inputs, state=None):
        said = torch.full_like(inputs, 41)
        return F.one_hot(said, 42).float(), None


def test_programs():
    task = make_task("programs")
    own = exam(Silent(), task)
    sweep = Sweep("test", 1, None, 20)
    rows = PROGRAMS.rows(own, sweep)
    assert [(row["lengths"], row["role"]) for row in rows] == [("2:4", "train"), ("4:4", "test")]
    # The end alone is right.
    assert all(0 < row["accuracy_fine"] < 0.5 and row["accuracy_coarse"] == 0 for row in rows)
    assert PROGRAMS.succeeded(rows) is None
    assert set(PROGRAMS.values({"rows": rows})) == {"coarse_test", "fine_test", "prefix_test"}
    assert PROGRAMS.further(rows).keys() == {"2:4"}


def test_answers_are_those_of_a_memory_with_room():
    """A capacity that was enough in training decides no answer, as it decides no score."""
    torch.manual_seed(6)
    task = make_task("answer_reverse", symbols=3, train_lengths="2:4", test_lengths="5:8")
    memory = {"name": "superposition_stack", "count": 2, "capacity": 3, "overflow": "error"}
    model = MemoryModel(
        inputs=len(task.input_vocabulary),
        outputs=len(task.output_vocabulary),
        memory=memory,
        hidden_size=6,
    )
    roomy, _ = with_room(model, 200)
    batch = task.batch(1, "test", 0, 3)
    assert answers_of(model, task, batch) == answers_of(roomy, task, batch)
    source = ["s0", "s1", "s2"] * 3
    answer = answer_to(model, task, source)
    for field, same in zip(answer, answer_to(roomy, task, source), strict=True):
        assert torch.equal(field, same)
    assert model.sequence.layer.memory.capacity == 3
