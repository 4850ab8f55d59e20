"""Optimizers and learning-rate schedules by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from unbounded.errors import ChoiceError

Schedule = Callable[[int], float]


def _rmsprop(parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    # The paper gives no constants. With epsilon 1e-8 the steps stay as long when the gradients
    # vanish: Queue-LSTMs that had solved copy jumped back from 0.01 to 2 nats per token, and a
    # Stack-LSTM had not learned reversal by batch 3300 that with 1e-4 solves it by batch 750.
    return torch.optim.RMSprop(parameters, lr=rate, alpha=0.99, eps=1e-4)


def _adam(parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=rate)


def _sgd(parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=rate)


OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]] = {
    "rmsprop": _rmsprop,
    "adam": _adam,
    "sgd": _sgd,
}


def _constant(batches: int) -> Schedule:
    return lambda batch: 1.0


def _linear(batches: int) -> Schedule:
    return lambda batch: max(0.0, 1.0 - batch / batches)


SCHEDULES: dict[str, Callable[[int], Schedule]] = {"constant": _constant, "linear": _linear}


def make_optimizer(
    parameters: Iterable[nn.Parameter], *, name: str, learning_rate: float
) -> torch.optim.Optimizer:
    """The optimizer of that name.

    Args:
        parameters: what it changes.
        name: one of `OPTIMIZERS`.
        learning_rate: above 0.
    Raises:
        ChoiceError: no optimizer has that name.
    """
    if name not in OPTIMIZERS:
        raise ChoiceError("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name](parameters, learning_rate)


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
