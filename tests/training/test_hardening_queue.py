"""Hardening a queue with soft pushes and pops: saturated strengths, correct far beyond."""

from __future__ import annotations

import pytest
import torch

from tests.training.runs import Run
from tests.verification.runs import softened
from unbounded import constructions
from unbounded.evaluation import score
from unbounded.models import discretized
from unbounded.models.gates import certainties
from unbounded.tasks import LengthRange, make_task
from unbounded.training import Harden

TASK = make_task("copy", symbols=3, train_lengths="2:6")
NEAR, FAR = LengthRange(2, 6), LengthRange(60, 60)
VALIDATION = TASK.batch(0, "validation", 0, 20, NEAR)


def correct(model: torch.nn.Module, lengths: LengthRange) -> int:
    return score(model, TASK, seed=1, split="test", lengths=lengths, count=20).correct


def hardened(model, folder, *, factor=2.0):
    """The model after a hardening with that factor, and its reason to stop."""

    def error(model: torch.nn.Module) -> float:
        result = score(model, TASK, seed=0, split="validation", lengths=NEAR, count=20)
        return 1 - result.correct / result.count

    rule = Harden(model, VALIDATION, error, every=2, factor=factor)
    run = Run(folder, model, learning_rate=1e-4, batches=40)
    run.begin(TASK, rule, lengths=NEAR, batch_size=4, report_every=1000)
    return run.train().finished


@pytest.mark.parametrize("heads", [("push",), ("pop",), ("push", "pop")])
def test_soft_strengths_become_saturated_and_the_strings_stay_correct(heads, tmp_path):
    model = softened(constructions.copy(symbols=3), 0.97, *heads).requires_grad_(True)
    near = correct(model, NEAR)
    assert near == 20
    # It drifts: read vectors mix rows after some tens of steps.
    assert correct(model, FAR) == 0
    assert min(certainties(model, VALIDATION)[head].least for head in heads) < 0.98
    ended = hardened(model, tmp_path)
    assert ended.startswith("hardening: every gate is saturated at inverse temperature ")
    assert all(each.unsaturated == 0 for each in certainties(model, VALIDATION).values())
    assert correct(model, NEAR) == near
    assert correct(discretized(model), FAR) == 20


def test_without_sharpening_strengths_stay_soft(tmp_path):
    """The effect above comes from the hardening, not from the batches."""
    model = softened(constructions.copy(symbols=3), 0.97, "push").requires_grad_(True)
    ended = hardened(model, tmp_path, factor=1.0000001)
    assert not ended.startswith("hardening: every gate is saturated")
    assert certainties(model, VALIDATION)["push"].unsaturated > 0
    assert correct(model, FAR) == 0
