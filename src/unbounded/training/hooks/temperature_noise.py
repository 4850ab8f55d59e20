"""Temperature noise: a random inverse temperature for each gradient step.

`TemperatureNoise` sharpens the model during a step. `is_factor` checks factors.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from unbounded.errors import ConfigError
from unbounded.models.discrete import sharpen, sharpen_units
from unbounded.options import Positive
from unbounded.training.hook import Hook
from unbounded.training.state import LoopState

#: The largest permitted factor; beyond it a sigmoid has no gradient left.
MOST = 1024
#: The greatest factor is halved at a loss this many times as high as the loss at which it is
#: doubled.
_TOO_HIGH = 10


class TemperatureNoise(Hook):
    """Sharpens a model's gates and its controller's units during a gradient step.

    A network may solve its task with soft gates. For binary addition, it learns to store the carry
    as a mixture of a pushed and an absent value. A hardened model cannot do this. The units of a
    network may hold values that decay within the training lengths, or drift beyond them. Each step
    has a new random inverse temperature. Only saturated gates and units work at all inverse
    temperatures. The gradient is computed in the sharper network, and the weights are restored
    after the step.

    Two factors are drawn for a step, one for the gates and one for the controller. Both factors are
    powers of two, so multiplying by them is exact. The factors depend only on seed, batch, chunk
    and the greatest factor so far.

    A large factor makes a network unstable that has not yet been sharpened. So the greatest factor
    is 1 at first and doubles whenever the task is learned at the current factors (`on_report`).

    Args:
        model: has a memory with gates.
        seed: seed of the factors.
        limit: limit of the gates' factor, a power of two from 2 to 1024.
        units: limit of the controller's factor, a power of two up to `limit`; 1 leaves the
            controller unchanged. Noise prevents its units from storing values that fade or drift.
        below: loss since the last report, in nats per token, below which the greatest factor
            doubles. It halves at ten times this loss.
    Attributes:
        most: the greatest factor, a power of two; each power of two from 1 to it is equally likely.
            Initially 1. While it is k, gradients are clipped at the bound divided by sqrt(k): a
            sharper model has a steeper loss, and the usual bound would make its steps too large.
    Raises:
        ConfigError: `limit` or `units` is not such a power of two.
    Source: added here; gates are sharpened by `unbounded.models.sharpen`.
    """

    saved = ("most",)

    def __init__(
        self, model: nn.Module, seed: int, *, limit: int, units: int = 1, below: Positive = 1e-3
    ) -> None:
        errors = [
            f"{name}: expected a power of two from {least} to {MOST}, got {value!r}"
            for name, value, least in (("limit", limit, 2), ("units", units, 1))
            if not is_factor(value) or value < least
        ]
        if not errors and units > limit:
            errors.append(f"units: expected at most the limit {limit}, got {units}")
        if errors:
            raise ConfigError(errors)
        self._model, self._seed = model, seed
        self._limit, self._units, self._below = limit, units, below
        self.most = 1

    def on_report(self, state: LoopState, loss: float) -> dict[str, Any]:
        """Double the greatest factor, halve it if training is unstable, or leave it."""
        before = self.most
        if state.stage is None and state.window_tokens:
            if loss < self._below:
                self.most = min(2 * before, self._limit)
            elif loss >= _TOO_HIGH * self._below:
                self.most = max(1, before // 2)
        return {"greatest_factor": before}

    def clip(self, bound: float) -> float:
        """Return the bound divided by the square root of the greatest factor."""
        return bound / math.sqrt(self.most)

    def factors(self, batch: int, chunk: int) -> tuple[float, float]:
        """Return the factors of a gradient step.

        Args:
            batch: number of the batch.
            chunk: number of the chunk in the batch.
        Returns:
            of the gates, and of the controller.
        """
        generator = random.Random(f"sharpness {self._seed} {batch} {chunk}")
        gates = self.most.bit_length()
        units = min(gates, self._units.bit_length())
        return 2.0 ** generator.randrange(gates), 2.0 ** generator.randrange(units)

    @contextmanager
    def around_step(self, batch: int, chunk: int) -> Iterator[None]:
        """Sharpen the model inside the block, and restore it after the block."""
        if self.most == 1:
            yield
            return
        gates, units = self.factors(batch, chunk)
        self._multiply(gates, units)
        try:
            yield
        finally:
            self._multiply(1 / gates, 1 / units)

    def _multiply(self, gates: float, units: float) -> None:
        if gates != 1:
            sharpen(self._model, gates)
        if units != 1:
            sharpen_units(self._model, units)


def is_factor(value: object) -> bool:
    """Whether a value is a valid factor: 1 for no noise, or another power of two up to MOST."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 1 <= value <= MOST and value.bit_count() == 1


def no_noise() -> None:
    """Keep the original inverse temperature of the gates in every step."""
