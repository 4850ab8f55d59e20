"""The cooldown of the learning rate, and the stop rule for stalled training."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from unbounded.training import LoopState, make_optimizer, make_schedule
from unbounded.training.hooks import SCHEDULES
from unbounded.training.hooks.schedules import Cooldown, cooldown_of
from unbounded.training.hooks.stopping import WhenStalled


def scheduled(name="cooldown", rate=0.5):
    options = {"batches": 4} if name == "cooldown" else {}
    optimizer = make_optimizer(nn.Linear(1, 1).parameters(), name="sgd", learning_rate=rate)
    schedule = make_schedule(optimizer, 100, name=name, **options)
    return optimizer, schedule


def rates(schedule, batches):
    """The rate of each of the next batches."""
    rates_per_batch = []
    for _ in range(batches):
        rates_per_batch.append(schedule.get_last_lr()[0])
        schedule.optimizer.step()
        schedule.step()
    return rates_per_batch


def test_decay_keeps_the_rate_and_then_multiplies_it_repeatedly():
    factor = SCHEDULES["decay"](10_000, after=30, every=20, factor=0.99)
    assert [factor(batch) for batch in (0, 30, 49)] == [1.0, 1.0, 1.0]
    assert [factor(batch) for batch in (50, 69, 70)] == [0.99, 0.99, 0.99**2]
    assert factor(30 + 20 * 100) == 0.99**100
    # By default as the program of Yang & Rush: every 2 of its iterations of 10 batches, after 300.
    usual = SCHEDULES["decay"](10_000)
    assert (usual(3019), usual(3020), usual(10_000)) == (1.0, 0.99, 0.99**350)


def test_the_rate_stays_until_the_cooldown_is_started_and_then_falls_to_0():
    _, schedule = scheduled()
    assert rates(schedule, 3) == [0.5] * 3
    cooldown = cooldown_of(schedule)
    cooldown.start(3, "solved")
    assert cooldown.over(6) is None
    assert rates(schedule, 6) == [0.5, 0.375, 0.25, 0.125, 0.0, 0.0]
    assert cooldown.over(7) == "solved; the learning rate then fell to 0 over 4 batches"


@pytest.mark.parametrize("name", ["constant", "linear"])
def test_other_schedules_have_no_cooldown(name):
    assert cooldown_of(scheduled(name)[1]) is None


def test_a_checkpoint_of_the_schedule_has_it():
    _, schedule = scheduled()
    rates(schedule, 5)
    cooldown_of(schedule).start(5, "stalled")
    rates(schedule, 2)
    file = io.BytesIO()
    torch.save(schedule.state_dict(), file)
    file.seek(0)
    _, other = scheduled()
    other.load_state_dict(torch.load(file, weights_only=True))
    assert vars(cooldown_of(other)) == {"batches": 4, "begin": 5, "reason": "stalled"}
    assert other.get_last_lr() == schedule.get_last_lr() == [0.25]
    assert rates(other, 3) == rates(schedule, 3)


def test_a_factor_is_in_0_to_1():
    cooldown = Cooldown(3)
    cooldown.start(10, "")
    factors = [cooldown(batch) for batch in range(20)]
    assert factors[:11] == [1.0] * 11
    assert factors[13:] == [0.0] * 7
    assert sorted(factors, reverse=True) == factors


def test_training_is_stalled_without_a_better_report_for_patience_batches():
    rule = WhenStalled(every=10, patience=30)
    state = LoopState()

    def unexpected(*_):
        raise AssertionError("it needs no accuracy")

    reasons = []
    for batch, perplexity in enumerate([3.0, 2.0, 2.5, 1.9, 1.9, 2.0, 1.9, 1.0], start=1):
        state.batch, state.perplexity = 10 * batch, perplexity
        reasons.append(rule.after_batch(state, unexpected, unexpected))
        state.batch += 1
        assert rule.after_batch(state, unexpected, unexpected) is None
    assert reasons[:6] == [None] * 6
    assert reasons[6] == (
        "stalled: training perplexity was not below the 1.9000 of batch 40 for 30 batches"
    )
    assert reasons[7] is None
