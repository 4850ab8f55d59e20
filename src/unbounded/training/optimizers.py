"""Optimizers and learning-rate schedules by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from unbounded.errors import ChoiceError, ConfigError

Schedule = Callable[[int], float]

#: How a gradient is bounded: its norm, or the value of each element.
CLIPS = ("norm", "value")
#: When weights change: after each piece of a batch, or after each symbol (`SymbolTrainer`).
UPDATES = ("piece", "symbol")

#: The optimizers of torch.optim by name, with what is added to the denominator of a step.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "rmsprop": torch.optim.RMSprop,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
}
#: Grefenstette et al. give no constants of RMSProp. With epsilon 1e-8 the steps stay as long when
#: the gradients vanish, and a model that has solved its task leaves the solution again
#: (docs/reproducing.md).
EPSILONS = {"rmsprop": 1e-4, "adam": 1e-8, "adagrad": 1e-10}


def _constant(batches: int) -> Schedule:
    return lambda batch: 1.0


def _linear(batches: int) -> Schedule:
    return lambda batch: max(0.0, 1.0 - batch / batches)


SCHEDULES: dict[str, Callable[[int], Schedule]] = {"constant": _constant, "linear": _linear}


def make_optimizer(
    parameters: Iterable[nn.Parameter],
    *,
    name: str,
    learning_rate: float,
    epsilon: float | None = None,
) -> torch.optim.Optimizer:
    """The optimizer of that name.

    Args:
        parameters: what it changes.
        name: one of `OPTIMIZERS`.
        learning_rate: above 0.
        epsilon: added to the denominator of a step, above 0; None for that of `EPSILONS`.
    Raises:
        ChoiceError: no optimizer has that name.
        ConfigError: sgd has no epsilon.
    """
    if name not in OPTIMIZERS:
        raise ChoiceError("optimizer", name, OPTIMIZERS)
    if name not in EPSILONS:
        if epsilon is not None:
            raise ConfigError([f"epsilon: {name} has none; leave it out"])
        return OPTIMIZERS[name](parameters, lr=learning_rate)
    eps = EPSILONS[name] if epsilon is None else epsilon
    return OPTIMIZERS[name](parameters, lr=learning_rate, eps=eps)


def make_schedule(
    optimizer: torch.optim.Optimizer, *, name: str, batches: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """The learning-rate schedule of that name, stepped once a batch.

    Args:
        optimizer: whose learning rate it sets.
        name: one of `SCHEDULES`; "linear" falls to 0 at the end of the budget.
        batches: the budget.
    Raises:
        ChoiceError: no schedule has that name.
    """
    if name not in SCHEDULES:
        raise ChoiceError("schedule", name, SCHEDULES)
    factor: Any = SCHEDULES[name](batches)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
