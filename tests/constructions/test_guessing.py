"""A constructed nondeterministic stack recognises w w^R, which no deterministic stack does."""

from __future__ import annotations

import pytest
import torch

from unbounded import constructions
from unbounded.tasks import LengthRange, make_task
from unbounded.verification import VerifyOptions, findings_of

LANGUAGE = "unmarked_reversal"


def is_reversal(bits):
    return len(bits) % 2 == 0 and bits == bits[::-1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_strings_of_training_lengths(backend, dtype):
    task, model = make_task("flare", language=LANGUAGE), constructions.unmarked_reversal()
    model.sequence.layer.backend = backend
    batch = task.batch(1, "test", 0, 30, LengthRange(1, 40 if backend == "auto" else 12))
    logits = model.to(dtype)(batch.inputs)[0][..., 0]
    assert 0 < int(batch.targets.sum()) < 30
    assert ((logits > 0).long() == batch.targets)[batch.mask].all()


def test_each_prefix_of_a_string_at_ten_times_the_length_of_training():
    """Equal bits have as many runs as symbols; the other half has one run at most places."""
    generator = torch.Generator().manual_seed(1)
    half = [1] * 100 + torch.randint(2, (100,), generator=generator).tolist()
    bits = half + half[::-1]
    model = constructions.CONSTRUCTIONS["flare"](language=LANGUAGE)
    logits = model(torch.tensor([[0, *(bit + 1 for bit in bits)]]))[0][0, :, 0]
    labels = [is_reversal(bits[:length]) for length in range(len(bits) + 1)]
    assert labels[-1]
    assert (logits > 0).tolist() == labels


def test_verify_lists_every_short_string():
    task, options = make_task("flare", language=LANGUAGE), VerifyOptions(most=6, times=())
    findings = list(findings_of(constructions.unmarked_reversal(), task, options))
    assert [finding.count for finding in findings] == [2**length for length in range(7)]
    assert all(finding.correct == finding.count for finding in findings)
