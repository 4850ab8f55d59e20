"""Hardening as a stop rule of the training loop."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tests.constructions import counter, stream_model
from tests.metrics import read_metrics
from tests.training.runs import InterruptAt, Run
from unbounded.errors import ConfigError, DTypeError
from unbounded.evaluation import remove_unused, score_lengths, stream_loss
from unbounded.memories import detach_state
from unbounded.models import MemoryModel, discretized, least_saturated, sharpen
from unbounded.tasks import LengthRange, chunks, make_task
from unbounded.training import Harden, Hook, Interrupted
from unbounded.training.progress import describe

TASK = make_task("anbn", sequences=6)
VALIDATION = TASK.batch(0, "validation", 0, 2, LengthRange(2, 8))


def soft_counter() -> MemoryModel:
    """A counter with soft actions."""
    model = counter(2)
    with torch.no_grad():
        model.sequence.layer.layers[0].heads.weight.mul_(0.02)
    return model


def loss(candidate: torch.nn.Module) -> float:
    return stream_loss(candidate, VALIDATION)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def action_weights(model: MemoryModel) -> torch.Tensor:
    heads = model.sequence.layer.layers[0].heads
    return heads.weight[heads.rows("action")].detach().clone()


class Hardening(Run):
    def __init__(self, folder: Path, model, rule: Harden, batches=40, rate=0.01, hooks=()):
        super().__init__(folder, model, learning_rate=rate, batches=batches)
        options = {"lengths": LengthRange(2, 6), "batch_size": 4, "clip": 1.0, "chunk_steps": 25}
        self.begin(TASK, rule, *hooks, report_every=1000, **options)

    def checks(self) -> list[dict]:
        return [line for line in read_metrics(self.metrics) if line["kind"] == "hardening"]


@pytest.mark.parametrize(
    "lengths",
    [range(10, 101, 30), pytest.param(LengthRange(2, 100), marks=pytest.mark.slow)],
    ids=str,
)
def test_actions_are_sharpened_until_they_are_saturated_and_the_best_is_kept(tmp_path, lengths):
    model = soft_counter()
    start = least_saturated(model, VALIDATION)
    rule = Harden(model, VALIDATION, loss, every=4, factor=3.0)
    run = Hardening(tmp_path, model, rule)
    state = run.train()
    checks = run.checks()
    assert state.finished.startswith("hardening: every gate is saturated at inverse temperature ")
    assert [check["batch"] for check in checks] == [1, *range(4, state.batch + 1, 4)]
    assert [check["inverse_temperature"] for check in checks] == [
        3.0**k for k in range(len(checks))
    ]
    assert checks[0]["least_action_weight"] == pytest.approx(start, abs=0.02)
    assert start < 0.7
    assert checks[-1]["least_action_weight"] >= 0.999 > checks[-2]["least_action_weight"]
    best = min(check["validation_loss_discrete"] for check in checks)
    assert loss(discretized(model)) == checks[-1]["best_validation_loss_discrete"] == best
    scores = score_lengths(discretized(model), TASK, lengths, seed=1)
    assert all(score.accuracy == 1 for score in scores)
    assert "inverse temperature 1, least saturated" in describe(checks[0])


def test_the_weights_train_between_the_checks(tmp_path):
    model = soft_counter()
    before = copy.deepcopy(model)
    rule = Harden(model, VALIDATION, loss, every=2, factor=2.0, largest=2.0)
    state = Hardening(tmp_path, model, rule).train()
    assert state.batch == 2
    assert (
        "inverse temperature reached 2; the least saturated gate has certainty 0." in state.finished
    )
    assert torch.allclose(action_weights(model), 2 * action_weights(before), atol=0.05)
    assert not torch.equal(action_weights(model), 2 * action_weights(before))
    others = model.sequence.output.weight, before.sequence.output.weight
    assert not torch.equal(*others)


def test_the_model_with_the_least_and_latest_validation_error_is_kept(tmp_path):
    model = soft_counter()
    measured, kept = iter([2.5, 2.0, 1.0, 3.0, 1.0, 4.0]), []

    def validate(candidate):
        if candidate is model:
            return 1.0
        kept.append(weights(model))
        return next(measured)

    rule = Harden(model, VALIDATION, validate, every=2, factor=1.01, largest=1.035)
    run = Hardening(tmp_path, model, rule)
    run.train()
    assert len(run.checks()) == 5
    assert torch.equal(weights(model), kept[4])


@pytest.mark.parametrize("within", [False, True], ids=["after a check", "within a check"])
def test_an_interrupted_hardening_resumes(tmp_path, within):
    calls = 0

    def interrupted(candidate):
        nonlocal calls
        calls += 1
        if calls == 8:  # the hardened model of the third check, after batch 4
            raise Interrupted(15)
        return loss(candidate)

    def make(folder, *hooks, validate=loss):
        model = soft_counter()
        rule = Harden(model, VALIDATION, validate, every=2, factor=1.5)
        return model, rule, Hardening(tmp_path / folder, model, rule, 6, hooks=hooks)

    full, full_rule, run = make("whole")
    run.train()
    if within:
        _, _, first = make("cut", validate=interrupted)
    else:
        _, _, first = make("cut", InterruptAt(4))
    with pytest.raises(Interrupted):
        first.train()
    model, rule, again = make("cut", *([] if within else [Hook()]))
    with torch.no_grad():
        model.sequence.output.weight.zero_()
    again.train()
    assert again.checks() == run.checks()
    assert rule.inverse_temperature == full_rule.inverse_temperature == 1.5**3
    assert torch.equal(weights(model), weights(full))


@pytest.mark.parametrize(
    ("soft", "hard", "options", "batch", "why", "saturated"),
    [
        # The hardened model has settled.
        ([0.0] * 8, [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0], {"settle": 3}, 6,
         "validation error was at most 0.001 at 3 checks in a row", True),
        # Once a check counted as settled when model and hardened model were equally bad.
        ([0.0, *[0.02] * 20], [0.0, *[0.02] * 20], {"settle": 3, "tolerance": 0.03}, 10, "budget",
         True),
        # Both errors are small: before training and at the first check the hardened model is
        # wrong, at the second the model; at the third the hardened model's error is slightly
        # above `enough`.
        ([0.0, 0.0, 0.3, 0.01, 0.0], [0.5, 0.5, 0.01, 0.02, 0.01],
         {"enough": 0.01, "tolerance": 1.0}, 4,
         "the hardened model has validation error 0.01 at inverse temperature", True),
        # Checks without a better hardened model.
        ([0.3] * 7, [0.5, 0.5, 0.47, 0.44, 0.43, 0.42, 0.41], {"patience": 3}, 6,
         "no clearly better hardened model in 3 checks, the best has validation error 0.41", False),
    ],
    ids=["settled", "equally bad", "both errors small", "not better"],
)  # fmt: skip
def test_hardening_ends(tmp_path, soft, hard, options, batch, why, saturated):
    model, of_model, of_hardened = soft_counter(), iter(soft), iter(hard)

    def validate(candidate):
        return next(of_model if candidate is model else of_hardened)

    rule = Harden(model, VALIDATION, validate, every=1, factor=1.01, **options)
    state = Hardening(tmp_path, model, rule, batches=10, rate=1e-9).train()
    assert state.batch == batch
    assert why in state.finished
    assert rule.is_saturated is saturated


@pytest.mark.parametrize(
    ("errors", "batches", "options", "asked_at", "taken", "why"),
    [
        # At checks 2, 7 and 12, counted from 1.
        ([2, 1, 0], 40, {}, 3, -1, "at most 0.001 at 12 checks in a row"),
        # At checks 2, 7, 12, 17, 22 and at the end. The validation error is the same for all, so
        # the last of all models was selected.
        pytest.param(
            [0.3, 0.1, 0.2, 0.4, 0.5, 0.5], 25, {"cool_at": 25}, 6, 1, "budget",
            marks=pytest.mark.slow,
        ),
        ([0.3, 0.1, 0.2, 0.4, 0.5, 0.5], 25, {"cool": 3, "cool_at": 22}, 6, 1, "the rate fell"),
        ([1, 1 / 2, 1 / 3], 9, {"cool_at": 9}, 3, -1, "budget"),
        # A confirmed model is kept during the cooling.
        ([0, 1], 40, {"cool": 3}, 2, 0, "the rate fell over 3 checks"),
    ],
)  # fmt: skip
def test_the_recheck_selects_the_model(tmp_path, errors, batches, options, asked_at, taken, why):
    model, asked = soft_counter(), []

    def recheck(candidate):
        assert not candidate.training
        asked.append(weights(candidate))
        return errors[len(asked) - 1]

    options = {"every": 1, "factor": 1.01, "settle": 2, **options}
    rule = Harden(model, VALIDATION, lambda candidate: 0.0, recheck=recheck, **options)
    state = Hardening(tmp_path, model, rule, batches=batches, rate=1e-3).train()
    assert why in state.finished
    assert len(asked) == asked_at
    assert torch.equal(weights(discretized(model)), asked[taken])
    assert rule.is_saturated or why == "budget"


def test_cooling_at_the_end_does_not_sharpen(tmp_path):
    model = soft_counter()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda batch: 1.0)
    options = {"every": 1, "factor": 1.5, "settle": 2, "cool": 3}
    rule = Harden(
        model, VALIDATION, lambda _: 0.0, optimizer=optimizer, schedule=schedule, **options
    )
    run = Hardening(tmp_path, model, rule, rate=1e-9)
    state = run.train()
    # Two checks until it is settled; the cooling starts at the second; three more.
    assert [check["inverse_temperature"] for check in run.checks()] == [1, 1.5, 1.5, 1.5, 1.5]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-9 * 0.8**3)
    assert "the rate fell over 3 checks at inverse temperature 1.5" in state.finished
    rule.load_state_dict(rule.state_dict())
    assert rule.inverse_temperature == 1.5


def test_cooling_starts_before_the_budget_ends(tmp_path):
    options = {"every": 1, "factor": 1.5, "cool": 2, "cool_at": 3}
    rule = Harden(model := soft_counter(), VALIDATION, lambda _: 0.0, **options)
    run = Hardening(tmp_path, model, rule, rate=1e-9)
    run.train()
    assert [check["inverse_temperature"] for check in run.checks()] == [1, 1.5, 2.25, 2.25, 2.25]


def test_bad_input():
    model = counter()
    with pytest.raises(ConfigError) as error:
        Harden(
            *(model, VALIDATION, loss), every=0, factor=1.0, saturated=1.0, largest=math.inf,
            settle=-1, enough=-1.0, patience=-1, tolerance=math.nan, cool=-1,
        )  # fmt: skip
    assert [fault.split(":")[0] for fault in error.value.errors] == [
        *("every", "factor", "saturated", "largest", "settle", "enough", "patience"),
        *("tolerance", "cool"),
    ]
    with pytest.raises(ConfigError, match="factor: expected a finite number above 1, got '2'"):
        Harden(model, VALIDATION, loss, factor="2")
    for arguments, message in (
        ((None, VALIDATION, loss), "model: expected a torch.nn.Module"),
        ((model, None, loss), "batch: expected a Batch"),
        ((model, VALIDATION, 0.5), "validate: expected a function"),
    ):
        with pytest.raises(DTypeError, match=message):
            Harden(*arguments)
    with pytest.raises(DTypeError, match="recheck: expected a function"):
        Harden(model, VALIDATION, loss, recheck=True)
    with pytest.raises(ConfigError, match="expected a memory with gates"):
        Harden(stream_model(vocabulary=2, memory="none", controller="gru"), VALIDATION, loss)


def test_validation_gets_a_hardened_model_and_training_keeps_soft_actions(tmp_path):
    model, seen = soft_counter(), []

    def validate(candidate):
        if candidate is not model:
            seen.append(least_saturated(candidate, VALIDATION))
        assert not candidate.training
        return 1.0

    sharpen(model, 1.0)
    Hardening(tmp_path, model, Harden(model, VALIDATION, validate), batches=1).train()
    assert seen == [1.0, 1.0]
    assert least_saturated(model, VALIDATION) < 0.8
    assert model.training


def test_the_trained_model_is_restored_where_fine_tuning_harms_it(tmp_path):
    """The rate is too large, so the first batch destroys the trained solution."""
    model = soft_counter()
    trained = weights(model).clone()

    def validate(candidate):
        return float(not torch.equal(weights(candidate), trained))

    rule = Harden(model, VALIDATION, validate, every=1, factor=1.5)
    state = Hardening(tmp_path, model, rule, batches=60).train()
    assert "beyond inverse temperature 1 the model gets worse" in state.finished
    assert not rule.is_saturated
    assert torch.equal(weights(model), trained)


def test_too_large_steps_are_undone_and_the_next_ones_are_smaller(tmp_path):
    """Beyond an inverse temperature of 4 the model and its hardened model are always wrong."""
    model, start = soft_counter(), action_weights(soft_counter()).norm()

    def validate(candidate):
        return float(action_weights(candidate).norm() > 4 * start)

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda batch: 1.0)
    rule = Harden(
        model, VALIDATION, validate, every=1, factor=3.0, optimizer=optimizer, schedule=schedule
    )
    run = Hardening(tmp_path, model, rule, batches=100, rate=1e-9)
    state = run.train()
    assert state.finished.startswith("hardening: beyond inverse temperature 3.9")
    assert "the model gets worse, also with smaller steps; the least saturated" in state.finished
    assert rule.steps_back == 7
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-9 / 2**7)
    checks = run.checks()
    assert [check["steps_back"] for check in checks][:7] == [0, 0, 0, 0, 0, 1, 1]
    assert all(
        check["inverse_temperature"] <= 4 for check in checks if check["validation_loss"] == 0
    )
    assert not rule.is_saturated
    assert 3.9 < float(action_weights(model).norm() / start) <= 4


def test_a_model_that_cannot_be_saturated_stays_as_hard_as_possible(tmp_path):
    """A model with soft gates is correct, its hardened model is not."""
    model = soft_counter()

    def validate(candidate):
        return float(candidate is not model)

    rule = Harden(model, VALIDATION, validate, every=1, factor=10.0)
    run = Hardening(tmp_path, model, rule, rate=1e-9)
    run.train()
    assert not rule.is_saturated
    assert rule.steps_back == 0
    sharper = action_weights(model).norm() / action_weights(soft_counter()).norm()
    assert float(sharper) == pytest.approx(rule.inverse_temperature, rel=1e-3)
    assert rule.inverse_temperature >= 10


@pytest.mark.slow
def test_a_trained_stack_rnn_hardens_to_a_smaller_model_that_generalises(tmp_path):
    """Trained to n = 12 it fails beyond; hardened, without unused rows, it never fails."""
    torch.manual_seed(1)
    model = stream_model(vocabulary=2, hidden_size=20, count=4, capacity=60, overflow="drop_bottom")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(80):
        lengths, state = LengthRange(2, min(12, 3 + number // 8)), None
        batch = TASK.with_sequences(12).batch(1, "train", 16 * number, 16, lengths)
        for chunk in chunks(batch, 25):
            logits, state = model(chunk.inputs, detach_state(state) if state else None)
            if chunk.mask.any():
                optimizer.zero_grad()
                F.cross_entropy(logits[chunk.mask], chunk.targets[chunk.mask]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()

    def score(candidate, lengths, split="validation"):
        return sum(s.correct for s in score_lengths(candidate, TASK, lengths, seed=7, split=split))

    near, beyond = LengthRange(2, 20), LengthRange(40, 50)
    assert score(model, beyond, "test") < 5 * len(beyond)
    rule = Harden(model, VALIDATION, loss, every=5, factor=1.5)
    Hardening(tmp_path, model, rule, batches=200, rate=0.05).train()
    removal = remove_unused(discretized(model), lambda candidate: score(candidate, near))
    assert removal.removed
    assert score(removal.model, beyond, "test") == 5 * len(beyond)
