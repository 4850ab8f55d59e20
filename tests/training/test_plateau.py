"""The rules of Yang 2016 for the learning rate: patience, windows, restored weights."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import torch
from torch import nn

from unbounded.errors import CheckpointError
from unbounded.tasks import LengthRange
from unbounded.training import HalveOnPlateau, LoopState, make_optimizer, make_schedule


@pytest.mark.parametrize("training", [True, False])
def test_the_rule_validates_in_evaluation_mode(training: bool) -> None:
    model, modes = nn.Linear(1, 1).train(training), []

    def validate() -> float:
        modes.append(model.training)
        if len(modes) == 2:
            raise KeyboardInterrupt
        return 1.0

    optimizer = make_optimizer(model.parameters(), name="sgd", learning_rate=1.0)
    schedule = make_schedule(optimizer, 9, name="constant")
    rule = HalveOnPlateau(model, optimizer, schedule, validate)
    rule.after_batch(LoopState(batch=1), never_asked, lambda line: None)
    assert model.training == training
    with pytest.raises(KeyboardInterrupt):
        rule.after_batch(LoopState(batch=2), never_asked, lambda line: None)
    assert modes == [False, False]
    assert model.training == training


def never_asked(lengths: LengthRange, start: int, count: int) -> NoReturn:
    """The rule validates by itself."""
    raise AssertionError("nobody asks for an accuracy")


class Checks:
    """A rule with prepared measurements; each check changes the weights."""

    def __init__(self, values: list[float], **options: Any) -> None:
        self.model = nn.Linear(1, 1)
        optimizer = make_optimizer(self.model.parameters(), name="sgd", learning_rate=1.0)
        self.schedule = make_schedule(optimizer, 100, name="constant")
        self.optimizer, self.values = optimizer, values
        self.rule = HalveOnPlateau(
            self.model, optimizer, self.schedule, iter(values).__next__, **options
        )
        self.lines: list[dict[str, Any]] = []

    def rates(self, first: int = 1, last: int | None = None) -> list[float]:
        """The rate after each check."""
        rates = []
        for batch in range(first, (last or len(self.values)) + 1):
            with torch.no_grad():
                self.model.weight.fill_(batch)
            self.rule.after_batch(LoopState(batch=batch), never_asked, self.lines.append)
            rates.append(self.optimizer.param_groups[0]["lr"])
        return rates


def test_the_rate_falls_after_patience_checks_without_a_better_one():
    values = [3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert Checks(values, patience=3).rates() == [1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    assert Checks(values, patience=3, hold=8).rates()[6:] == [1, 1, 0.5, 0.5]
    assert Checks(values[:3], patience=1).rates() == [1, 0.5, 0.25]


def test_a_check_is_compared_with_the_one_before():
    values = [5.0, 6.0, 5.5, 5.5, 5.6, 4.0]
    assert Checks(values, window=1).rates() == [1, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_a_check_is_compared_with_the_best_of_the_last_four():
    values = [0.5, 0.2, 0.3, 0.4, 0.3, 0.25, 0.2, 0.3]
    factor = {"factor": 0.8, "window": 4}
    expected = [1, 1, 0.8, 0.64, 0.512, 0.512 * 0.8, 0.512 * 0.8, 0.512 * 0.64]
    # The sixth is worse than 0.2, four checks before; the seventh is better than the best since.
    assert Checks(values, **factor).rates() == pytest.approx(expected)


def test_a_slightly_better_model_halves_the_rate_and_is_kept():
    # 3.98 is 0.5 % below 4, less than the threshold of 1 %; 3.5 is more, 3.49 less again.
    measured = [4.0, 3.98, 3.5, 3.49]
    checks = Checks(measured, threshold=0.01)
    assert checks.rates() == pytest.approx([1, 0.5, 0.5, 0.25])
    assert all(line["better"] for line in checks.lines)
    assert checks.rule.best == pytest.approx(3.49)
    assert checks.model.weight.item() == 4  # those of the last check, which halved
    assert Checks(measured).rates() == pytest.approx([1] * 4)


def test_a_threshold_with_patience_and_with_a_window():
    patient = Checks([4.0, 3.98, 3.97, 3.5], threshold=0.01, patience=2)
    assert patient.rates() == pytest.approx([1, 1, 0.5, 0.5])
    # The best of the two checks before is 4.0, then 3.9: only 3.5 is 1 % better.
    within = Checks([4.0, 3.9, 3.95, 3.88, 3.5], threshold=0.01, window=2)
    assert within.rates() == pytest.approx([1, 1, 0.5, 0.25, 0.25])


def test_a_check_with_nan_is_worse_and_not_compared_with_later():
    nan = float("nan")
    # The fourth is worse than the first, which is still in the window of three.
    assert Checks([1.0, nan, nan, 2.0, 0.5], window=3).rates() == [1, 0.5, 0.25, 0.125, 0.125]


def test_weights_are_restored_only_with_restore():
    for restore, weight in ((True, 1.0), (False, 2.0)):
        checks = Checks([1.0, 2.0], restore=restore)
        checks.rates()
        assert checks.model.weight.item() == weight
        checks.rule.at_end()
        assert checks.model.weight.item() == 1.0


@pytest.mark.parametrize("options", [{"patience": 3}, {"window": 2}, {}])
def test_an_interrupted_rule_resumes(options: dict[str, Any]):
    values = [3.0, 2.0, 2.5, 2.4, 2.3, 2.9, 2.8, 2.7]
    full = Checks(values, **options)
    rates = full.rates()
    cut = Checks(values[:4], **options)
    first = cut.rates()
    again = Checks(values[4:], **options)
    for group in again.optimizer.param_groups:
        group["lr"] = first[-1]
    again.rule.load_state_dict(cut.rule.state_dict())
    assert first + again.rates(5, len(values)) == rates
    assert set(again.rule.state_dict()) == set(full.rule.state_dict())
    with pytest.raises(CheckpointError, match="HalveOnPlateau: expected the state"):
        again.rule.load_state_dict({"best": 1.0})


def test_errors_are_recorded_by_their_name():
    checks = Checks([0.5, 0.25], measure="errors")
    checks.rates()
    assert [line["validation_errors"] for line in checks.lines] == [0.5, 0.25]
    from unbounded.training.progress import describe

    assert "validation errors 0.2500, the best so far" in describe(checks.lines[1])
