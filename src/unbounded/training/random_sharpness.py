"""Decisions that are surer in some gradient steps than in others, so that none stays a mixture."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from unbounded.models.discrete import sharpen

#: The largest factor; a larger one would take a sigmoid of float32 to its end.
MOST = 1024


class RandomSharpness:
    """Sharpens what decides in a model for the time of a gradient step, by a factor drawn for it.

    A network may do its work with decisions that are half made: binary addition learns to hold its
    carry as a mixture of pushed and not pushed, which no discrete machine can. Where every step
    trains it at another sharpness, of which it knows nothing, only decisions that are made serve it
    at all of them. A step is that of the sharper network, which is then as soft again as before.

    The factors are powers of two, which round nothing. A factor follows from seed, batch and piece,
    and from the greatest one of that time, which doubles whenever the task is done with those there
    are: too large a one throws a network far that has never been sharper.

    Args:
        model: has a memory with decisions.
        seed: of the factors.
    Attributes:
        most: the greatest factor, a power of two; each power from 1 on is as likely. 1 at first.
    Source: ours; what decides is sharpened as by `unbounded.models.sharpen`.
    """

    def __init__(self, model: nn.Module, *, seed: int) -> None:
        self._model, self._seed = model, seed
        self.most = 1

    def factor(self, batch: int, piece: int) -> float:
        """The factor of a gradient step, by the number of its batch and its place in it."""
        if self.most == 1:
            return 1.0
        drawn = random.Random(f"sharpness {self._seed} {batch} {piece}")
        return 2.0 ** drawn.randrange(self.most.bit_length())

    @contextmanager
    def of_step(self, batch: int, piece: int) -> Iterator[None]:
        """The model as sharp as a gradient step has it; as soft as before, behind the block."""
        factor = self.factor(batch, piece)
        if factor == 1:
            yield
            return
        sharpen(self._model, factor)
        try:
            yield
        finally:
            sharpen(self._model, 1 / factor)


def is_factor(value: object) -> bool:
    """Whether `most` may be that: 1 for none, or a power of two up to MOST."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 1 <= value <= MOST and value.bit_count() == 1
