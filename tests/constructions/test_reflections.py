"""Constructed DeltaNet and DeltaProduct are exact: their matrices do not drift."""

from __future__ import annotations

import pytest
import torch

from unbounded import constructions
from unbounded.constructions.assembly import SCALE
from unbounded.errors import ChoiceError
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange, make_task
from unbounded.verification import VerifyOptions, findings_of


def networks(name):
    """A task and its network."""
    if name == "parity":
        return make_task("parity_check"), constructions.parity_by_deltanet()
    return make_task("word_problem", group=name), constructions.word_problem_by_deltaproduct(name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", ["parity", "S3", "S5", "A5"])
def test_answers_are_exact_at_ten_times_the_length_of_training(name, backend, dtype):
    task, model = networks(name)
    model.sequence.layer.blocks[0].mixers[0].backend = backend
    for lengths, count in ((task.train_lengths, 40), (LengthRange(400, 400), 3)):
        batch = task.batch(1, "test", 0, count, lengths)
        logits, _ = model.to(dtype)(batch.inputs)
        assert torch.equal(logits.argmax(-1)[batch.mask], batch.targets[batch.mask])
        highest = logits[batch.mask].topk(2, dim=-1).values
        assert (highest[:, 0] - highest[:, 1]).min() > 19


@pytest.mark.parametrize("name", ["parity", "S5"])
def test_the_matrices_do_not_drift(name):
    task, model = networks(name)
    batch = task.batch(1, "test", 0, 1, LengthRange(3000, 3000))
    _, state = model(batch.inputs)
    assert set((state[0][0].matrix / SCALE).unique().tolist()) <= {-1.0, 0.0, 1.0}


def test_verify_lists_every_short_string():
    task, model = networks("S3")
    findings = list(findings_of(model, task, VerifyOptions(most=4, times=())))
    assert [finding.count for finding in findings] == [6, 36, 216, 1296]
    assert all(finding.correct == finding.count for finding in findings)


def test_networks_are_ordinary_models(tmp_path):
    task, model = networks("parity")
    model.save_pretrained(tmp_path)
    batch = task.batch(1, "test", 0, 4)
    again = MemoryModel.from_pretrained(tmp_path)
    assert torch.equal(again(batch.inputs)[0], model(batch.inputs)[0])


def test_a_group_without_permutations_is_refused():
    with pytest.raises(ChoiceError, match="Z60"):
        constructions.word_problem_by_deltaproduct("Z60")
