"""Networks that are sharper in some gradient steps than in others, so that nothing stays between.

`RandomSharpness` sharpens for a step, `greatest_factor` says how much at most from a report on, and
`is_factor` which numbers may be given for either.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from unbounded.errors import ConfigError
from unbounded.models.discrete import sharpen, sharpen_units

#: The largest factor that may be asked for; behind it a sigmoid has no gradient left to learn by.
MOST = 1024
#: A loss so many times as high as that at which the greatest factor doubles halves it.
_TOO_HIGH = 10


class RandomSharpness:
    """Sharpens a model for the time of a gradient step: its decisions, and its controller's units.

    A network may do its work with decisions that are half made: binary addition learns to hold its
    carry as a mixture of pushed and not pushed, which no discrete machine can. And it may keep in
    its units what fades within the lengths of training, or drifts behind them. Where every step
    trains it at another sharpness, of which it knows nothing, only decisions that are made and
    units that are on or off serve it at all of them. A step is that of the sharper network, which
    is then as soft again as before.

    Two factors are drawn for a step, one for what decides and one for the controller; they are
    powers of two, which round nothing. They follow from seed, batch and piece, and from the
    greatest one of that time (`greatest_factor`).

    Args:
        model: has a memory with decisions.
        seed: of the factors.
        units: the greatest factor of the controller, at any time; 1 leaves it as it is.
    Attributes:
        most: the greatest factor, a power of two; each power from 1 on is as likely. 1 at first.
    Raises:
        ConfigError: `units` is no power of two up to MOST.
    Source: ours; what decides is sharpened as by `unbounded.models.sharpen`.
    """

    def __init__(self, model: nn.Module, *, seed: int, units: int = 1) -> None:
        if not is_factor(units):
            raise ConfigError([f"units: expected a power of two up to {MOST}, got {units!r}"])
        self._model, self._seed, self._units = model, seed, units
        self.most = 1

    def factors(self, batch: int, piece: int) -> tuple[float, float]:
        """The factors of a gradient step, by the number of its batch and its place in it.

        Returns:
            of what decides, and of the controller.
        """
        drawn = random.Random(f"sharpness {self._seed} {batch} {piece}")
        decisions = self.most.bit_length()
        units = min(decisions, self._units.bit_length())
        return 2.0 ** drawn.randrange(decisions), 2.0 ** drawn.randrange(units)

    @contextmanager
    def of_step(self, batch: int, piece: int) -> Iterator[None]:
        """The model as sharp as a gradient step has it; as soft as before, behind the block."""
        if self.most == 1:
            yield
            return
        decisions, units = self.factors(batch, piece)
        self._multiply(decisions, units)
        try:
            yield
        finally:
            self._multiply(1 / decisions, 1 / units)

    def _multiply(self, decisions: float, units: float) -> None:
        if decisions != 1:
            sharpen(self._model, decisions)
        if units != 1:
            sharpen_units(self._model, units)


def greatest_factor(before: int, loss: float, *, below: float, limit: int) -> int:
    """The greatest factor from a report on: it doubles, halves, or is what it was.

    Too large a one throws a network off that has never been sharper, so it is 1 at first and
    doubles whenever the task is done with those there are; and it halves where the loss says that
    the network is being thrown.

    Args:
        before: the greatest factor until now.
        loss: nats a token since the last report.
        below: the loss below which it doubles; it halves at ten times as much.
        limit: what it never exceeds.
    """
    if loss < below:
        return min(2 * before, limit)
    return max(1, before // 2) if loss >= _TOO_HIGH * below else before


def is_factor(value: object) -> bool:
    """Whether `most` may be that: 1 for none, or a power of two up to MOST."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 1 <= value <= MOST and value.bit_count() == 1
