"""A queue whose pushes and pops are soft is hardened: decided strengths, and right far beyond."""

from __future__ import annotations

import pytest
import torch

from tests.training.runs import Run
from tests.verification.runs import softened
from unbounded import machines
from unbounded.evaluation import score
from unbounded.models import discretized
from unbounded.models.decisions import certainties
from unbounded.tasks import LengthRange, make_task
from unbounded.training import Harden

TASK = make_task("copy", symbols=3, train_lengths="2:6")
NEAR, FAR = LengthRange(2, 6), LengthRange(60, 60)
VALIDATION = TASK.batch(0, "validation", 0, 20, NEAR)


def right(model: torch.nn.Module, lengths: LengthRange) -> int:
    return score(model, TASK, seed=1, split="test", lengths=lengths, count=20).right


def hardened(model, folder, *, factor=2.0):
    """The model after a hardening with so large steps, and what ended it."""

    def wrong(machine: torch.nn.Module) -> float:
        found = score(machine, TASK, seed=0, split="validation", lengths=NEAR, count=20)
        return 1 - found.right / found.count

    rule = Harden(model, VALIDATION, wrong, every=2, factor=factor)
    run = Run(folder, model, learning_rate=1e-4, batches=40)
    run.begin(TASK, rule, rule, lengths=NEAR, batch_size=4, report_every=1000)
    ended = run.train().finished
    rule.restore()
    return ended


@pytest.mark.parametrize("heads", [("push",), ("pop",), ("push", "pop")])
def test_soft_strengths_become_decided_and_the_words_stay_right(heads, tmp_path):
    model = softened(machines.copy(symbols=3), 0.97, *heads).requires_grad_(True)
    near = right(model, NEAR)
    assert near == 20
    # It drifts: rows are mixed after some tens of steps.
    assert right(model, FAR) == 0
    assert min(certainties(model, VALIDATION)[head].least for head in heads) < 0.98
    ended = hardened(model, tmp_path)
    assert ended.startswith("hardening: all is decided at sharpness ")
    assert all(each.undecided == 0 for each in certainties(model, VALIDATION).values())
    assert right(model, NEAR) == near
    assert right(discretized(model), FAR) == 20


def test_without_sharpening_they_stay_soft(tmp_path):
    """What the test above shows comes of the hardening, and not of the batches."""
    model = softened(machines.copy(symbols=3), 0.97, "push").requires_grad_(True)
    ended = hardened(model, tmp_path, factor=1.0000001)
    assert not ended.startswith("hardening: all is decided")
    assert certainties(model, VALIDATION)["push"].undecided > 0
    assert right(model, FAR) == 0
