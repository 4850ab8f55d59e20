"""Constructed networks with a tape and with keys agree with plain Python, up to the tape's end."""

from __future__ import annotations

import random

import pytest
import torch

from unbounded import constructions
from unbounded.errors import ConfigError
from unbounded.evaluation import score, score_streams
from unbounded.evaluation.metric_sets.answer_scores import answer_scores
from unbounded.tasks import LengthRange, make_task
from unbounded.verification import VerifyOptions, findings_of

MADE = {
    "copy_on_tape": (constructions.copy_on_tape, lambda source: source, 1),
    "reversal_on_tape": (constructions.reversal_on_tape, lambda source: source[::-1], -1),
    "reversal_by_keys": (constructions.reversal_by_keys, lambda source: source[::-1], None),
}


def on(name, length, symbols=5):
    make = MADE[name][0]
    return make(symbols) if name == "reversal_by_keys" else make(symbols, slots=max(3, length + 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", MADE)
def test_sources_and_targets(name, backend, dtype):
    generator = random.Random(1)
    for length in (1, 2, 3, 10, 36):
        model = on(name, length).to(dtype)
        model.sequence.layer.backend = backend
        source = [generator.randrange(5) for _ in range(length)]
        target = MADE[name][1](source)
        # <s>, the source, |||, the target that is fed back.
        read = [0, *(2 + s for s in source), 1, *(7 + s for s in target)]
        prediction = model(torch.tensor([read]))[0].argmax(-1)[0, length + 1 :].tolist()
        assert prediction == [*(s + 1 for s in target), 0]


@pytest.mark.parametrize("name", MADE)
def test_at_ten_times_the_length_of_training(name):
    task = make_task(name.split("_")[0], symbols=5)
    model = on(name, 640)
    result = score(model, task, seed=1, split="test", lengths=LengthRange(640, 640), count=2)
    assert result.correct == 2


@pytest.mark.parametrize(
    ("lengths", "count", "backend"),
    [("1:40", 100, "auto"), ("1:40", 100, "reference"), ("640:640", 2, "auto")],
)
def test_two_rolling_tapes_duplicate_a_string(lengths, count, backend):
    task, model = make_task("duplicate_string", computation=1), constructions.duplicate_on_tapes()
    model.sequence.layer.backend = backend
    found = score(
        model, task, seed=1, split="test", lengths=LengthRange.parse(lengths), count=count,
        judge=lambda *answer: answer_scores(*answer)[:2],
    )  # fmt: skip
    assert found.correct == count


def test_rolling_tapes_are_moved_by_gates_of_0_or_1():
    task, model = make_task("duplicate_string", computation=1), constructions.duplicate_on_tapes()
    batch = task.batch(1, "test", 0, 4, LengthRange(7, 7))
    layer = model.sequence.layer
    _, _, trace = layer(
        model.sequence.embed(batch.inputs), model.sequence.started(batch.inputs), return_trace=True
    )
    assert trace.arrays["instruction.action"].unique().tolist() == [0.0, 1.0]


def test_a_tape_counts_as_far_as_it_has_slots():
    """With one slot more than n, the cell before the first a stays empty for the next sequence."""
    task, options = make_task("anbn"), VerifyOptions(most=21, times=())
    result = list(findings_of(constructions.anbn_on_tape(slots=20), task, options))
    assert [measured.correct for measured in result] == [1] * 20 + [0]
    streams = make_task("anbn", sequences=4).judged(1, "test", 0, 2, LengthRange(19, 19))
    assert score_streams(constructions.anbn_on_tape(slots=20), streams).correct == 6
    assert all(measured.certainty == 1 for measured in result)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_tape_adds_two_numbers(backend):
    task = make_task("chomsky_binary_addition")
    for lengths, count in ((LengthRange(3, 40), 60), (LengthRange(400, 400), 3)):
        model = constructions.binary_addition_on_tape(slots=lengths.maximum + 1)
        model.sequence.layer.backend = backend
        found = score(
            model, task, seed=1, split="test", lengths=lengths, count=count,
            judge=lambda *answer: answer_scores(*answer)[:2],
        )  # fmt: skip
        assert found.correct == count


def test_a_tape_adds_every_two_short_numbers():
    task, options = make_task("chomsky_binary_addition"), VerifyOptions(most=8, times=())
    findings = list(findings_of(constructions.binary_addition_on_tape(slots=9), task, options))
    assert [finding.correct for finding in findings] == [1, 6, 23, 72, 201, 522]
    assert all(finding.correct == finding.count for finding in findings)
    assert all(finding.certainty == 1 and finding.displaced == 0 for finding in findings)


def test_a_copy_on_a_tape_that_is_too_short_is_wrong():
    task = make_task("copy", symbols=5)
    result = score(
        on("copy_on_tape", 9), task, seed=1, split="test", lengths=LengthRange(10, 10), count=5
    )
    assert result.correct == 0


@pytest.mark.parametrize("name", [*MADE, "anbn_on_tape"])
def test_every_gate_and_shift_is_0_or_1(name):
    model = constructions.anbn_on_tape() if name == "anbn_on_tape" else on(name, 20)
    batch = make_task(name.split("_")[0], **({} if "anbn" in name else {"symbols": 5})).batch(
        1, "test", 0, 2, LengthRange(2, 6)
    )
    layer = model.sequence.layer
    _, _, trace = layer(model.sequence.embed(batch.inputs), return_trace=True)
    saturated = [head.name for head in layer.memory.heads if head.can_harden]
    assert saturated
    for field in saturated:
        assert set(trace.arrays[f"instruction.{field}"].unique().tolist()) <= {0.0, 1.0}


def test_bad_input():
    for slots in (2, 2.5):
        with pytest.raises(
            ConfigError, match=f"slots: expected an integer of at least 3, got {slots}"
        ):
            constructions.copy_on_tape(slots=slots)
    with pytest.raises(ConfigError, match="symbols"):
        constructions.reversal_by_keys(symbols=0)
