"""Halve the learning rate when validation stops improving, and keep the best weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import nn

from unbounded.errors import ConfigError
from unbounded.options import Count, Range, Share
from unbounded.training.backup import Backup
from unbounded.training.hook import Assess, Hook, Record
from unbounded.training.hooks.schedules import scale_rate
from unbounded.training.state import LoopState

_NAMES = {"loss": "validation_nats_per_token", "errors": "validation_errors"}


class HalveOnPlateau(Hook):
    """Keeps a backup of the best weights and lowers the learning rate.

    At each check, the weights are copied into the backup if validation is the best so far. The
    learning rate is halved if validation has not improved on its best value by `threshold` within
    `patience` checks. The rate is never halved in the first `hold` batches. Whenever the rate is
    halved, the weights are restored from the backup, but the optimizer's state is kept. With a
    window, the rate is halved if a check is worse than the best of the last `window` checks. The
    run is over when the learning rate is below `least`. At the end, the backup is restored for the
    test.

    Args:
        model: the model that `optimizer` trains; not wrapped.
        optimizer, schedule: hold the learning rate.
        validate: measures the model; lower is better.
        every: batches between checks.
        hold: batches during which the rate is never halved (half of the curriculum's last n in
            the authors' program).
        factor: factor of the rate.
        least: learning rate below which the run is over.
        patience: checks without an improvement after which the rate falls, at least 1.
        window: number of earlier checks to compare with: 1 for the one before; 0 compares with the
            best of all.
        threshold: share of the best value (of the window's, if there is one) by which a check must
            be below it for the rate to stay, from 0 to 0.5. Weights that are better by less are
            kept nevertheless, and are the best from then on. (PyTorch's ReduceLROnPlateau has such
            a threshold too, but there small gains add up.)
        restore: whether the backup is restored when the rate falls.
        measure: the measure that a check compares: the loss, or the share of incorrect symbols.
    Source: Joulin & Mikolov 2015, section 4, and the authors' program; patience and windows, Yang
        2016, arXiv:1602.08671; the share 0.003, rnnlm of Mikolov et al. 2011. rnnlm compares with
        the epoch before, and once it halves the rate, it halves it after every epoch.
    """

    saved = ("best", "waited", "before", "backup")

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        validate: Callable[[], float],
        *,
        every: Count = 1,
        hold: Annotated[int, Range(0)] = 0,
        factor: Share = 0.5,
        least: Annotated[float, Range(0)] = 1e-5,
        patience: Count = 1,
        window: Annotated[int, Range(0, 1000)] = 0,
        threshold: Annotated[float, Range(0, 0.5)] = 0.0,
        restore: bool = True,
        measure: Literal["loss", "errors"] = "loss",
    ) -> None:
        if window and patience != 1:
            raise ConfigError("patience: has no effect with a window; leave it out")
        self._model = model
        self._optimizer = optimizer
        self._schedule = schedule
        self._validate = validate
        self._every = every
        self._hold = hold
        self._factor = factor
        self._least = least
        self._patience, self._restore = patience, restore
        self._asked = 1 - threshold
        self._name = _NAMES[measure]
        self.best = math.inf
        #: Number of checks without an improvement.
        self.waited = 0
        #: The validation values in the window.
        self.before = [math.inf] * window
        self.backup = Backup(model)

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Check the model if a check is due."""
        if state.batch % self._every == 0:
            nats, is_better = self._look(state.batch)
            record(
                {
                    "kind": "plateau",
                    "batch": state.batch,
                    self._name: nats,
                    "better": is_better,
                    "learning_rate": self._rate(),
                }
            )
        if self._rate() >= self._least:
            return None
        return f"plateau: the learning rate is below {self._least:g}"

    def _look(self, batch: int) -> tuple[float, bool]:
        """Validate, and return the value and whether it is the best so far."""
        training = self._model.training
        self._model.eval()
        try:
            nats = self._validate()
        finally:
            self._model.train(training)
        is_better = nats < self.best
        self.waited = 0 if nats < self._asked * self.best else self.waited + 1
        is_worse = self.waited >= self._patience
        if self.before:
            value = math.inf if math.isnan(nats) else nats
            is_worse = value > self._asked * min(self.before)
            self.before = [*self.before[1:], value]
        if is_better:
            self.best = nats
            self.backup.keep()
        if is_worse and batch > self._hold:
            self.waited = 0
            scale_rate(self._optimizer, self._schedule, self._factor)
            if self._restore:
                self.backup.restore()
        return nats, is_better

    def at_end(self) -> None:
        """Restore the best weights. Before the first check, this does nothing."""
        self.backup.restore()

    def _rate(self) -> float:
        return float(self._optimizer.param_groups[0]["lr"])


def no_plateau() -> None:
    """The learning rate does not depend on validation."""
