"""Temperature noise: a random inverse temperature for each gradient step.

`TemperatureNoise` sharpens the model during a step. `greatest_factor` updates the greatest factor
at each report. `is_factor` checks factors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from unbounded.errors import ConfigError
from unbounded.models.discrete import sharpen, sharpen_units

#: The largest permitted factor; beyond it a sigmoid has no gradient left.
MOST = 1024
#: The greatest factor halves at a loss so many times as high as the one at which it doubles.
_TOO_HIGH = 10


class TemperatureNoise:
    """Sharpens a model's gates and its controller's units during a gradient step.

    A network may solve its task with soft gates: for binary addition it learns to hold the carry as
    a mixture of pushed and not pushed, which no hardened model can. Its units may hold values that
    decay within the training lengths, or drift beyond them. With another, unknown inverse
    temperature in every step, only saturated gates and units are useful at all of them. The
    gradient is that of the sharper network, whose weights are restored after the step.

    Two factors are drawn for a step, one for the gates and one for the controller. They are powers
    of two, which round nothing. They follow from seed, batch, chunk and the current greatest
    factor (`greatest_factor`).

    Args:
        model: has a memory with gates.
        seed: seed of the factors.
        units: limit of the controller's factor; 1 leaves the controller unchanged.
    Attributes:
        most: the greatest factor, a power of two; each power of two from 1 to it is equally likely.
            Initially 1.
    Raises:
        ConfigError: `units` is no power of two up to MOST.
    Source: added here; gates are sharpened by `unbounded.models.sharpen`.
    """

    def __init__(self, model: nn.Module, *, seed: int, units: int = 1) -> None:
        if not is_factor(units):
            raise ConfigError([f"units: expected a power of two up to {MOST}, got {units!r}"])
        self._model, self._seed, self._units = model, seed, units
        self.most = 1

    def factors(self, batch: int, chunk: int) -> tuple[float, float]:
        """The factors of a gradient step.

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
    def of_step(self, batch: int, chunk: int) -> Iterator[None]:
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


def greatest_factor(current: int, loss: float, *, below: float, limit: int) -> int:
    """The greatest factor after a report: doubled, halved or unchanged.

    Too large a factor destabilizes a network that was never sharper. So it is 1 at first and
    doubles whenever the task is learned at the current factors. It halves where the loss shows
    instability.

    Args:
        current: the greatest factor so far.
        loss: nats per token since the last report.
        below: the loss below which it doubles; it halves at ten times as much.
        limit: upper bound of the factor.
    """
    if loss < below:
        return min(2 * current, limit)
    return max(1, current // 2) if loss >= _TOO_HIGH * below else current


def is_factor(value: object) -> bool:
    """Whether a value is a factor: 1 for none, or another power of two up to MOST."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 1 <= value <= MOST and value.bit_count() == 1
