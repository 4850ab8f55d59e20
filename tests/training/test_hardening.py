"""Rounding as a stop rule of the training loop: sharper, decided, best kept, interrupted."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tests.machines import counter, stream_model
from tests.metrics import read_metrics
from tests.training.runs import Run
from unbounded.errors import CheckpointError, ConfigError, DTypeError
from unbounded.evaluation import remove_unused, score_lengths, stream_loss
from unbounded.memories import detach_state
from unbounded.models import MemoryModel, discretized, least_decided, sharpen
from unbounded.tasks import LengthRange, make_task, pieces
from unbounded.training import Harden
from unbounded.training.progress import describe

TASK = make_task("anbn", sequences=6)
VALIDATION = TASK.batch(0, "validation", 0, 2, LengthRange(2, 8))


def soft_counter() -> MemoryModel:
    """A counter whose actions are hardly decided."""
    model = counter(2)
    with torch.no_grad():
        model.sequence.layer.heads.weight.mul_(0.02)
    return model


def loss(machine: torch.nn.Module) -> float:
    return stream_loss(machine, VALIDATION)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def action_weights(model: MemoryModel) -> torch.Tensor:
    heads = model.sequence.layer.heads
    return heads.weight[heads.rows("action")].detach().clone()


class Rounding(Run):
    def __init__(self, folder: Path, model, rule: Harden, batches=40, rate=0.01):
        super().__init__(folder, model, learning_rate=rate, batches=batches)
        options = {"lengths": LengthRange(2, 6), "batch_size": 4, "clip": 1.0, "piece_steps": 25}
        self.begin(TASK, rule, rule, report_every=1000, **options)

    def looks(self) -> list[dict]:
        return [line for line in read_metrics(self.metrics) if line["kind"] == "rounding"]


def test_actions_are_sharpened_until_they_are_decided_and_the_best_is_kept(tmp_path):
    model = soft_counter()
    start = least_decided(model, VALIDATION)
    rule = Harden(model, VALIDATION, loss, every=4, factor=3.0)
    run = Rounding(tmp_path, model, rule)
    state = run.train()
    looks = run.looks()
    assert state.finished.startswith("hardening: all is decided at sharpness ")
    assert [look["batch"] for look in looks] == [1, *range(4, state.batch + 1, 4)]
    assert [look["sharpness"] for look in looks] == [3.0**k for k in range(len(looks))]
    assert looks[0]["least_action_weight"] == pytest.approx(start, abs=0.02)
    assert start < 0.7
    assert looks[-1]["least_action_weight"] >= 0.999 > looks[-2]["least_action_weight"]
    best = min(look["validation_loss_discrete"] for look in looks)
    rule.restore()
    assert loss(discretized(model)) == looks[-1]["best_validation_loss_discrete"] == best
    scores = score_lengths(discretized(model), TASK, LengthRange(2, 100), seed=1)
    assert all(score.accuracy == 1 for score in scores)
    assert "sharpness 1, least decided" in describe(looks[0])


def test_the_weights_learn_between_the_looks(tmp_path):
    model = soft_counter()
    before = copy.deepcopy(model)
    rule = Harden(model, VALIDATION, loss, every=2, factor=2.0, largest=2.0)
    state = Rounding(tmp_path, model, rule).train()
    assert state.batch == 2
    assert "sharpness reached 2; the least decided decision has certainty 0." in state.finished
    assert torch.allclose(action_weights(model), 2 * action_weights(before), atol=0.05)
    assert not torch.equal(action_weights(model), 2 * action_weights(before))
    others = model.sequence.output.weight, before.sequence.output.weight
    assert not torch.equal(*others)


def test_the_best_is_the_least_loss_and_of_equals_the_last(tmp_path):
    model = soft_counter()
    measured, kept = iter([2.5, 2.0, 1.0, 3.0, 1.0, 4.0]), []

    def validate(machine):
        if machine is model:
            return 1.0
        kept.append(weights(model))
        return next(measured)

    rule = Harden(model, VALIDATION, validate, every=2, factor=1.01, largest=1.035)
    run = Rounding(tmp_path, model, rule)
    run.train()
    assert len(run.looks()) == 5
    rule.restore()
    assert torch.equal(weights(model), kept[4])


def test_an_interrupted_rounding_goes_on_where_it_was(tmp_path):
    def make(folder, batches):
        model = soft_counter()
        rule = Harden(model, VALIDATION, loss, every=2, factor=1.5)
        return model, rule, Rounding(tmp_path / folder, model, rule, batches)

    whole, whole_rule, run = make("whole", 6)
    run.train()
    _, _, first = make("cut", 4)
    state = first.train()
    # As when it was stopped between the look at batch 4 and the checkpoint after it.
    state.finished, state.actions_due = None, True
    state.metrics_lines -= 1
    first.checkpoints.save(state)
    model, rule, again = make("cut", 6)
    with torch.no_grad():
        model.sequence.output.weight.zero_()
    again.log.cut(state.metrics_lines)
    again.train()
    assert again.looks() == run.looks()
    assert rule.sharpness == whole_rule.sharpness == 1.5**3
    assert torch.equal(weights(model), weights(whole))
    rule.restore()
    whole_rule.restore()
    assert torch.equal(weights(model), weights(whole))
    with pytest.raises(CheckpointError, match="has no looked, soft"):
        rule.load({})


def test_it_is_over_when_the_machine_has_done_as_well_so_many_times(tmp_path):
    model, measured = soft_counter(), iter([0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0])

    def validate(machine):
        return 0.0 if machine is model else next(measured)

    rule = Harden(model, VALIDATION, validate, every=1, factor=1.01, settle=3)
    run = Rounding(tmp_path, model, rule, rate=1e-9)
    state = run.train()
    assert state.batch == 6
    assert "validation error was at most 0.001 at 3 looks in a row" in state.finished


def test_a_hardened_model_no_worse_than_a_degraded_one_is_not_settled(tmp_path):
    """Before, looks counted as settled as soon as model and machine had become equally bad."""
    model, looks = soft_counter(), iter([0.0, *[0.02] * 20])
    error = 0.0

    def validate(machine):
        nonlocal error
        if machine is model:
            error = next(looks)
        return error

    rule = Harden(model, VALIDATION, validate, every=1, factor=1.01, settle=3, tolerance=0.03)
    run = Rounding(tmp_path, model, rule, batches=10, rate=1e-9)
    assert run.train().finished.startswith("budget")


def test_an_end_that_claims_success_is_confirmed_and_asked_again_later(tmp_path):
    model, asked = soft_counter(), []

    def confirm(machine):
        assert not machine.training
        asked.append(weights(machine))
        return len(asked) == 3

    rule = Harden(
        model, VALIDATION, lambda machine: 0.0, confirm=confirm, every=1, factor=1.01, settle=2
    )
    run = Rounding(tmp_path, model, rule, batches=40, rate=1e-3)
    state = run.train()
    assert "at most 0.001 at 12 looks in a row" in state.finished
    assert len(asked) == 3  # at looks 2, 7 and 12, counted from 1
    rule.restore()
    assert torch.equal(weights(discretized(model)), asked[-1])
    assert rule.is_decided


def test_it_is_over_when_validation_says_little_against_the_machine_and_the_model(tmp_path):
    model = soft_counter()
    soft, hard = iter([0.0, 0.0, 0.3, 0.01, 0.0]), iter([0.5, 0.5, 0.01, 0.02, 0.01])

    def validate(machine):
        return next(soft if machine is model else hard)

    # Before training, and at the first look, the machine is wrong; at the second, the model is; at
    # the third the machine is a little worse than what is enough.
    rule = Harden(model, VALIDATION, validate, every=1, factor=1.01, enough=0.01, tolerance=1.0)
    run = Rounding(tmp_path, model, rule, rate=1e-9)
    state = run.train()
    assert state.batch == 4
    assert "says 0.01 against the discrete machine at sharpness" in state.finished
    assert rule.is_decided


def test_it_is_given_up_after_looks_without_a_clearly_better_machine(tmp_path):
    model, measured = soft_counter(), iter([0.5, 0.5, 0.47, 0.44, 0.43, 0.42, 0.41])
    rule = Harden(
        model,
        VALIDATION,
        lambda machine: 0.3 if machine is model else next(measured),
        **{"every": 1, "factor": 1.01, "patience": 3},
    )
    run = Rounding(tmp_path, model, rule, rate=1e-9)
    state = run.train()
    assert state.batch == 6
    assert (
        "no clearly better discrete machine in 3 looks, validation says 0.41 against"
        in state.finished
    )
    # A checkpoint of before there was a patience.
    rule.load(
        {name: each for name, each in rule.tensors().items() if name not in ("stalled", "mark")}
    )
    assert rule.is_decided is False


def test_the_end_is_cooled_without_sharpening(tmp_path):
    model = soft_counter()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda batch: 1.0)
    options = {"every": 1, "factor": 1.5, "settle": 2, "cool": 3}
    rule = Harden(
        model, VALIDATION, lambda _: 0.0, optimizer=optimizer, schedule=schedule, **options
    )
    run = Rounding(tmp_path, model, rule, rate=1e-9)
    state = run.train()
    # Two looks until it is settled, the second of which begins to cool, and three more.
    assert [look["sharpness"] for look in run.looks()] == [1, 1.5, 1.5, 1.5, 1.5]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-9 * 0.8**3)
    assert "the rate fell over 3 looks at sharpness 1.5" in state.finished
    # A checkpoint of before there was a cooling.
    rule.load({name: each for name, each in rule.tensors().items() if name != "cooled"})
    assert rule.sharpness == 1.5


def test_what_was_confirmed_is_kept_while_the_rate_falls(tmp_path):
    model, asked = soft_counter(), []

    def confirm(machine):
        asked.append(weights(machine))
        return len(asked) == 1  # and not what comes of the falling rate

    rule = Harden(
        model,
        VALIDATION,
        lambda machine: 0.0,
        confirm=confirm,
        every=1,
        factor=1.01,
        settle=2,
        cool=3,
    )
    state = Rounding(tmp_path, model, rule, batches=40, rate=1e-3).train()
    assert "the rate fell over 3 looks" in state.finished
    assert len(asked) == 2
    rule.restore()
    assert torch.equal(weights(discretized(model)), asked[0])


def test_it_is_cooled_before_the_budget_ends(tmp_path):
    options = {"every": 1, "factor": 1.5, "cool": 2, "cool_at": 3}
    rule = Harden(model := soft_counter(), VALIDATION, lambda _: 0.0, **options)
    run = Rounding(tmp_path, model, rule, rate=1e-9)
    run.train()
    assert [look["sharpness"] for look in run.looks()] == [1, 1.5, 2.25, 2.25, 2.25]


def test_bad_input():
    model = counter()
    with pytest.raises(ConfigError) as error:
        Harden(
            model,
            VALIDATION,
            loss,
            every=0,
            factor=1.0,
            decided=1.0,
            largest=math.inf,
            settle=-1,
            enough=-1.0,
            patience=-1,
            tolerance=math.nan,
            cool=-1,
        )
    assert [fault.split(":")[0] for fault in error.value.faults] == [
        *("every", "factor", "decided", "largest", "settle", "enough", "patience"),
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
    with pytest.raises(DTypeError, match="confirm: expected a function"):
        Harden(model, VALIDATION, loss, confirm=True)
    with pytest.raises(ConfigError, match="expected a memory with heads that decide"):
        Harden(stream_model(vocabulary=2, memory="none", controller="gru"), VALIDATION, loss)


def test_validation_sees_a_discrete_machine_and_training_goes_on_with_soft_actions(tmp_path):
    model, seen = soft_counter(), []

    def validate(machine):
        if machine is not model:
            seen.append(least_decided(machine, VALIDATION))
        assert not machine.training
        return 1.0

    sharpen(model, 1.0)
    Rounding(tmp_path, model, Harden(model, VALIDATION, validate), batches=1).train()
    assert seen == [1.0, 1.0]
    assert least_decided(model, VALIDATION) < 0.8
    assert model.training


def test_a_trained_model_that_learning_on_harms_is_what_is_left(tmp_path):
    """The first batch at too large a rate takes away what training had learned."""
    model = soft_counter()
    trained = weights(model).clone()

    def validate(machine):
        return float(not torch.equal(weights(machine), trained))

    rule = Harden(model, VALIDATION, validate, every=1, factor=1.5)
    state = Rounding(tmp_path, model, rule, batches=60).train()
    assert "beyond sharpness 1 the model gets worse" in state.finished
    assert not rule.is_decided
    rule.restore()
    assert torch.equal(weights(model), trained)


def test_a_step_that_was_too_large_is_taken_back_and_the_next_ones_are_smaller(tmp_path):
    """Beyond a sharpness of 4 this model gets everything wrong, as a machine too."""
    model, start = soft_counter(), action_weights(soft_counter()).norm()

    def validate(machine):
        return float(action_weights(machine).norm() > 4 * start)

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda batch: 1.0)
    rule = Harden(
        model, VALIDATION, validate, every=1, factor=3.0, optimizer=optimizer, schedule=schedule
    )
    run = Rounding(tmp_path, model, rule, batches=100, rate=1e-9)
    state = run.train()
    assert state.finished.startswith("hardening: beyond sharpness 3.9")
    assert "the model gets worse, also with smaller steps; the least decided" in state.finished
    assert rule.steps_back == 7
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-9 / 2**7)
    looks = run.looks()
    assert [look["steps_back"] for look in looks][:7] == [0, 0, 0, 0, 0, 1, 1]
    assert all(look["sharpness"] <= 4 for look in looks if look["validation_loss"] == 0)
    assert not rule.is_decided
    rule.restore()
    assert 3.9 < float(action_weights(model).norm() / start) <= 4


def test_what_cannot_be_decided_stays_as_hard_as_it_went(tmp_path):
    """A model that is right while it mixes, and whose discrete machine is not."""
    model = soft_counter()

    def validate(machine):
        return float(machine is not model)

    rule = Harden(model, VALIDATION, validate, every=1, factor=10.0)
    run = Rounding(tmp_path, model, rule, rate=1e-9)
    run.train()
    rule.restore()
    assert not rule.is_decided
    assert rule.steps_back == 0
    sharper = action_weights(model).norm() / action_weights(soft_counter()).norm()
    assert float(sharper) == pytest.approx(rule.sharpness, rel=1e-3)
    assert rule.sharpness >= 10


@pytest.mark.slow
def test_a_trained_stack_rnn_becomes_a_smaller_machine_that_counts_on(tmp_path):
    """Trained to n = 12 it fails beyond; rounded and freed of what it does not need, never."""
    torch.manual_seed(1)
    model = stream_model(vocabulary=2, hidden_size=20, count=4, capacity=60, overflow="drop_bottom")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number in range(80):
        lengths, state = LengthRange(2, min(12, 3 + number // 8)), None
        batch = TASK.with_sequences(12).batch(1, "train", 16 * number, 16, lengths)
        for piece in pieces(batch, 25):
            logits, state = model(piece.inputs, detach_state(state) if state else None)
            if piece.mask.any():
                optimizer.zero_grad()
                F.cross_entropy(logits[piece.mask], piece.targets[piece.mask]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()

    def score(machine, lengths, split="validation"):
        return sum(s.right for s in score_lengths(machine, TASK, lengths, seed=7, split=split))

    near, beyond = LengthRange(2, 20), LengthRange(40, 50)
    assert score(model, beyond, "test") < 5 * len(beyond)
    rule = Harden(model, VALIDATION, loss, every=5, factor=1.5)
    Rounding(tmp_path, model, rule, batches=200, rate=0.05).train()
    rule.restore()
    found = remove_unused(discretized(model), lambda machine: score(machine, near))
    assert found.removed
    assert score(found.model, beyond, "test") == 5 * len(beyond)
