"""Hardening: raise the inverse temperature in steps until gates saturate, while all weights train.

Source: Joulin & Mikolov 2015 (NIPS), section 3, who call it rounding; the schedule, the guard and
the stop rule are added here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from unbounded.checks import check_callable, check_module, is_number, number_errors
from unbounded.errors import ConfigError
from unbounded.models.discrete import discretized, sharpen
from unbounded.models.gates import least_saturated
from unbounded.tasks import Batch
from unbounded.tasks.batch import check_batch
from unbounded.training.backup import Backup
from unbounded.training.hook import Assess, Hook, Record
from unbounded.training.hooks.schedules import scale_rate
from unbounded.training.state import LoopState

#: Number of restorations that end hardening. The logarithm of the factor is then a 64th of its
#: first value.
_MOST_STEPS_BACK = 6
#: Number of checks in a row beyond the tolerance before the weights are restored.
_PATIENCE = 3
#: Validation error up to which a hardened model counts as settled. With such an error, every
#: sequence is correct, and the rest of the error measures uncertainty.
_SETTLED = 1e-3
#: Number of checks between a closer check with an error and the next closer check.
_BETWEEN = 5
#: Ratio of validation errors below which a hardened model is clearly better than an earlier one.
_CLEARLY = 0.9
#: Factor of the learning rate at each check of the cooling.
_COOLING = 0.8


@dataclass
class _Numbers:
    """The progress of a hardening, all of which is in a checkpoint."""

    #: Validation errors of the model and of its hardened model at the last check.
    soft: float = math.inf
    hard: float = math.inf
    least_soft: float = math.inf
    least_hard: float = math.inf
    saturated: float = 0.0
    #: The inverse temperature at the last check, and the factor by which it has risen since.
    inverse_temperature: float = 1.0
    pending: float = 1.0
    factor: float = 1.0
    steps_back: int = 0
    #: Number of checks in a row at which the model was beyond the tolerance.
    waited: int = 0
    #: Number of checks in a row at which the hardened model's error was at most `_SETTLED`.
    settled: int = 0
    #: Whether `recheck` found no error, the number of checks before its next call, and its least
    #: error so far.
    confirmed: bool = False
    refused: int = 0
    rechecked: float = math.inf
    #: The inverse temperature of the last weights that were within the tolerance.
    sound_inverse_temperature: float = 1.0
    #: Number of checks during the cooling so far.
    cooled: int = 0
    #: Whether the last hardened model is to be checked more closely at the end.
    check_last: bool = False
    #: Number of checks in a row without a clearly better hardened model, and the error (`mark`) of
    #: the last such model.
    stalled: int = 0
    mark: float = math.inf


class Harden(Hook):
    """Hardens a trained model while it is fine-tuned. Training ends when the hardening ends.

    The trained model is validated before the first batch, for comparison with later weights. The
    model is checked after the first batch and then after every `every` batches. Each check
    validates the model and its hardened model (`unbounded.models.discretized`). Two sets of weights
    are kept: the weights of the best hardened model so far, and the last sound weights. Of two
    equally good models, the later one is kept. From the first call of `recheck` on, only its error
    determines which hardened model is best. Weights are sound while the model's error exceeds its
    least error by at most `tolerance`. If the weights are sound, the gates' inverse temperature is
    multiplied by `factor`. If not, the inverse temperature stays the same. If the weights are still
    not sound three checks later, the last sound weights are restored. After a restoration, the
    factor is replaced by its square root, and the learning rate is halved.

    Hardening ends

    - when the least saturated gate on `batch` has at least the certainty `saturated`,
    - when the product of the factors is `largest`, because the model hardly uses gates that are
    still soft,
    - after `settle` checks in a row with a hardened error of at most 0.001,
    - when the validation errors of the model and the hardened model are at most `enough`,
    - after `patience` checks in a row without a clearly better hardened model,
    - after six restorations, because the model cannot solve the task with harder gates.

    With `cool`, this number of checks follows without sharpening. At each of them, the learning
    rate falls by a fifth. A high learning rate adds noise, which causes single errors of a hardened
    model, such as one in ten thousand pairs of symbols.

    Three of these conditions mean success: all gates saturated, settled, and enough. Success must
    be confirmed by `recheck`, a closer check of the hardened model on more and on other strings. If
    `recheck` finds an error, training continues. `recheck` is called again five checks later, and
    for the last model.

    At the end the best weights are restored: the best hardened model's if it is within the
    tolerance, otherwise the last sound weights. `is_saturated` shows which were restored.

    Args:
        model: the trained model, with a memory that has gates; not wrapped.
        batch: validation sequences on which the gates' certainty is measured.
        validate: measures a model; lower is better, for example the share of incorrect sequences.
            It must not use test data.
        validate_hardened: measures a hardened model, possibly on more; None uses `validate`.
        every: batches of fine-tuning between two checks.
        factor: above 1. The other weights can follow small steps of 1.1 to 1.5.
        saturated: certainty that every gate must have, above 0.5 and below 1.
        largest: product of the factors at which hardening ends without saturation.
        settle: checks in a row at which the hardened error must be at most 0.001; 0 for no such
            end.
        recheck: returns the error of a closer check of a hardened model; hardening may end if it is
            0. None finds no error. It must not use test data.
        enough: largest validation error of the model and the hardened model at which hardening
            ends; None for no such end.
        patience: after this many checks in a row without a clearly better hardened model, hardening
            ends; 0 for no such end. Clearly better means an error a tenth below the error of the
            last such model.
        tolerance: excess over the model's least validation error up to which weights are sound.
        cool: checks of the cooling after an end with sound weights.
        cool_at: the batch from which the cooling starts without another end; None for none.
        optimizer, schedule: hold the learning rate; None leaves it unchanged.
        chunk_steps: steps of one call of the model on `batch`.
        device: the model's device.
    Raises:
        ConfigError: numbers are out of range (all are listed), or the model has no gates.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        validate: Callable[[nn.Module], float],
        *,
        validate_hardened: Callable[[nn.Module], float] | None = None,
        recheck: Callable[[nn.Module], float] | None = None,
        every: int = 50,
        factor: float = 1.25,
        saturated: float = 0.999,
        largest: float = 1e4,
        settle: int = 0,
        enough: float | None = None,
        patience: int = 0,
        tolerance: float = 0.03,
        cool: int = 0,
        cool_at: int | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
        chunk_steps: int = 1000,
        device: torch.device | str = "cpu",
    ) -> None:
        check_module("model", model)
        check_batch(batch)
        for name, function in (("validate", validate), ("validate_hardened", validate_hardened)):
            if function is not None or name == "validate":
                check_callable(name, function)
        if recheck is not None:
            check_callable("recheck", recheck)
        errors = [
            *_integer_errors("every", every, 1),
            *number_errors("factor", factor, above=1),
            *(
                []
                if is_number(saturated) and 0.5 < saturated < 1
                else [f"saturated: expected a number above 0.5 and below 1, got {saturated!r}"]
            ),
            *number_errors("largest", largest, above=1, at_most=1e9),
            *_integer_errors("settle", settle, 0),
            *([] if enough is None else _from_0("enough", enough)),
            *_integer_errors("patience", patience, 0),
            *_from_0("tolerance", tolerance),
            *_integer_errors("cool", cool, 0),
            *([] if cool_at is None else _integer_errors("cool_at", cool_at)),
            *_integer_errors("chunk_steps", chunk_steps, 1),
        ]
        if errors:
            raise ConfigError(errors)
        self._cool, self._cool_at = cool, cool_at
        self._model, self._batch, self._validate = model, batch, validate
        self._validate_hardened = validate_hardened or validate
        self._recheck = recheck
        self._every, self._bound, self._largest = every, saturated, largest
        self._settle, self._enough, self._patience = settle, enough, patience
        self._tolerance, self._optimizer, self._schedule = tolerance, optimizer, schedule
        self._chunk_steps, self._device = chunk_steps, device
        self._at = _Numbers(factor=factor)
        self._best, self._sound = Backup(model), Backup(model)
        self._at.saturated = self._least()  # without gates, this fails before any training
        self._measure()
        self._sound.keep()

    @property
    def inverse_temperature(self) -> float:
        """The product of the factors at the last check."""
        return self._at.inverse_temperature

    def inverse_temperature_now(self) -> float:
        """The product of all factors, including the factor of the last check."""
        return self._at.inverse_temperature * self._at.pending

    @property
    def steps_back(self) -> int:
        """Number of times that the sound weights were restored."""
        return self._at.steps_back

    @property
    def least_validation_error(self) -> float:
        """The validation error of the best hardened model so far."""
        return self._at.least_hard

    @property
    def is_saturated(self) -> bool:
        """Whether a hardened model is as good as the model, within the tolerance."""
        at = self._at
        return at.least_hard <= at.least_soft + self._tolerance

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Check the model if a check is due."""
        at = self._at
        if state.batch != 1 and state.batch % self._every:
            return None
        before = replace(at)
        try:
            self._look(state.batch)
        except BaseException:
            self._at = before  # an interrupted check will be repeated
            raise
        record(
            {
                "kind": "hardening",
                "batch": state.batch,
                "validation_loss": at.soft,
                "validation_loss_discrete": at.hard,
                "best_validation_loss_discrete": at.least_hard,
                "least_action_weight": at.saturated,
                "inverse_temperature": at.inverse_temperature,
                "steps_back": at.steps_back,
            }
        )
        return self._over()

    def _over(self) -> str | None:
        at = self._at
        if not at.cooled:
            return self._end()
        if at.cooled <= self._cool:
            return None
        return (
            f"hardening: the rate fell over {self._cool} checks at inverse temperature "
            f"{at.inverse_temperature:.3g}; "
            f"the least saturated gate has certainty {at.saturated:.4f}"
        )

    def _end(self) -> str | None:
        at = self._at
        least = f"the least saturated gate has certainty {at.saturated:.4f}"
        if self._patience and at.stalled >= self._patience:
            return (
                f"hardening: no clearly better hardened model in {at.stalled} checks, "
                f"the best has validation error {at.least_hard:.3g}; {least}"
            )
        if not self._holds():
            if at.steps_back <= _MOST_STEPS_BACK:
                return None
            return (
                f"hardening: beyond inverse temperature {at.sound_inverse_temperature:.3g} the "
                "model gets worse, also "
                f"with smaller steps; {least}"
            )
        if at.confirmed:
            return f"hardening: {self._success()}; {least}"
        if at.inverse_temperature >= self._largest:
            return (
                f"hardening: the inverse temperature reached {at.inverse_temperature:.3g}; {least}"
            )
        return None

    def _success(self) -> str | None:
        """The reason to end with this hardened model, before `recheck`; None to continue."""
        at = self._at
        if at.saturated >= self._bound:
            return f"every gate is saturated at inverse temperature {at.inverse_temperature:.3g}"
        if self._enough is not None and max(at.soft, at.hard) <= self._enough:
            return (
                f"the hardened model has validation error {at.hard:.2g} at inverse temperature "
                f"{at.inverse_temperature:.3g}, which is enough"
            )
        if self._settle and at.settled >= self._settle:
            return (
                f"the hardened model's validation error was at most {_SETTLED:g} at "
                f"{at.settled} checks in a row, at inverse temperature "
                f"{at.inverse_temperature:.3g}"
            )
        return None

    def _ask(self) -> None:
        """Make a closer check if hardening would end and the last closer check is not recent."""
        at = self._at
        at.confirmed, at.refused = False, max(0, at.refused - 1)
        if self._success() is None or at.refused or not self._holds():
            return
        at.confirmed = self._has_no_error()
        if not at.confirmed:
            at.refused = _BETWEEN

    def _holds(self) -> bool:
        return self._at.soft <= self._at.least_soft + self._tolerance

    def _look(self, batch: int) -> None:
        at = self._at
        at.inverse_temperature, at.pending = at.inverse_temperature * at.pending, 1.0
        self._measure()
        at.settled = at.settled + 1 if at.hard <= _SETTLED else 0
        if not at.cooled:
            self._ask()
        if self._holds():
            self._sound.keep()
            at.sound_inverse_temperature, at.waited = at.inverse_temperature, 0
        else:
            at.waited += 1
            if at.waited <= _PATIENCE:
                return
            self._step_back()
        is_late = self._cool_at is not None and batch >= self._cool_at
        is_over = self._end() is not None
        if at.cooled or (self._cool and self._holds() and (is_late or is_over)):
            at.cooled += 1
            if at.cooled <= self._cool:
                self._scale_rate(_COOLING)
            else:
                at.check_last = True
        elif is_late:
            at.check_last = True
        elif self._end() is None:
            at.pending = at.factor
            sharpen(self._model, at.factor)

    def _measure(self) -> None:
        at, training = self._at, self._model.training
        self._model.eval()
        try:
            at.soft = self._validate(self._model)
            at.hard = self._validate_hardened(discretized(self._model))
            at.saturated = self._least()
        finally:
            self._model.train(training)
        at.least_soft = min(at.least_soft, at.soft)
        at.stalled += 1
        if at.hard < _CLEARLY * at.mark:
            at.stalled, at.mark = 0, at.hard
        if at.hard <= at.least_hard and (self._recheck is None or math.isinf(at.rechecked)):
            at.least_hard = at.hard
            self._best.keep()

    def _has_no_error(self) -> bool:
        """Make a closer check, and return whether it finds no error.

        Keep the hardened model if it is the best.
        """
        at = self._at
        error = 0.0
        if self._recheck is not None:
            error = float(self._recheck(discretized(self._model).eval()))
        if error <= at.rechecked:
            at.rechecked, at.least_hard = error, at.hard
            self._best.keep()
        return error == 0

    def _step_back(self) -> None:
        at = self._at
        self._sound.restore()
        at.inverse_temperature, at.factor = at.sound_inverse_temperature, math.sqrt(at.factor)
        at.steps_back, at.waited = at.steps_back + 1, 0
        self._scale_rate(0.5)

    def _scale_rate(self, factor: float) -> None:
        if self._optimizer is not None and self._schedule is not None:
            scale_rate(self._optimizer, self._schedule, factor)

    def _least(self) -> float:
        return least_saturated(
            self._model, self._batch, chunk_steps=self._chunk_steps, device=self._device
        )

    def at_end(self) -> None:
        """Restore the best weights, after a closer check of the last hardened model if one is due.

        Without any check so far, this does nothing.
        """
        at = self._at
        if at.check_last and self._recheck is not None:
            if at.hard <= max(at.least_hard, _SETTLED):
                self._has_no_error()
            at.check_last = False
        (self._best if self.is_saturated else self._sound).restore()

    def state_dict(self) -> dict[str, Any]:
        """Return the numbers, the best weights and the last sound weights."""
        best, sound = self._best.state_dict(), self._sound.state_dict()
        return {"numbers": asdict(self._at), "best": best, "sound": sound}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._at = _Numbers(**state["numbers"])
        self._best.load_state_dict(state["best"])
        self._sound.load_state_dict(state["sound"])


def _integer_errors(name: str, value: object, least: float = -math.inf) -> list[str]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return []
    bound = "" if least == -math.inf else f" >= {least}"
    return [f"{name}: expected an integer{bound}, got {value!r}"]


def _from_0(name: str, value: object) -> list[str]:
    if is_number(value) and value >= 0:
        return []
    return [f"{name}: expected a finite number of at least 0, got {value!r}"]
