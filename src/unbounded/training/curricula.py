"""Curricula: the range of lengths of each batch, by its number or by the training loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from unbounded.errors import ConfigError
from unbounded.options import Count, Positive
from unbounded.tasks import LengthRange, Stream
from unbounded.tasks.randomness import bounded

# Block of the random stream that no example reaches.
_BLOCK = 2**32 - 1

#: The range of lengths of each batch by its number.
Curriculum = Callable[[int], LengthRange]


@dataclass(frozen=True)
class Growing:
    """Start with the shortest length and add the next one after every `every` batches.

    Args:
        lengths: the final range.
        first: longest length of the first batches; None for the range's shortest. It is clipped to
            the range.
        every: batches between two lengths, at least 1. 1, with batches as large as an epoch of the
            authors, is their curriculum.

    Raises:
        ConfigError: `every` is no integer of at least 1.
    Source: the authors' program of Joulin & Mikolov 2015.
    """

    lengths: LengthRange
    every: Count = 1
    first: Count | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1:
            raise ConfigError([f"curriculum: every: expected an integer >= 1, got {self.every!r}"])

    def __call__(self, batch: int) -> LengthRange:
        """The range of batch number `batch`, counted from 0."""
        first = _first(self.lengths, self.first)
        longest = min(self.lengths.maximum, first + batch // self.every)
        return LengthRange(self.lengths.minimum, longest)


@dataclass(frozen=True)
class Doubling:
    """Start with short lengths, and double the longest whenever the loss is low enough.

    The loss is no function of a batch's number, so the longest length is part of the loop's state
    (`LoopState.longest`).

    Args:
        lengths: the final range.
        below: mean loss since the last report, in nats per token, below which the longest doubles.
        first: longest length of the first batches; None for the range's shortest. It is clipped to
            the range.

    Raises:
        ConfigError: `below` is no number above 0.
    Source: the authors' program of Deleu & Dureau 2016, with 1e-4, 5 and reports of 500 batches.
    """

    lengths: LengthRange
    below: Positive = 1e-4
    first: Count | None = None

    def __post_init__(self) -> None:
        is_number = isinstance(self.below, (int, float)) and not isinstance(self.below, bool)
        if not is_number or not 0 < self.below < float("inf"):
            raise ConfigError([f"curriculum: below: expected a number above 0, got {self.below!r}"])

    def range_of(self, longest: int | None) -> LengthRange:
        """The range whose longest length is `longest`; None is the first range."""
        first = _first(self.lengths, self.first)
        return LengthRange(self.lengths.minimum, first if longest is None else longest)

    def longer(self, longest: int | None, nats: float) -> int:
        """The longest length after a report with a loss of `nats` per token."""
        now = self.range_of(longest).maximum
        return min(2 * now, self.lengths.maximum) if nats < self.below else now


def _first(lengths: LengthRange, first: int | None) -> int:
    """The longest length of the first batches, clipped to the range."""
    return lengths.minimum if first is None else min(max(first, lengths.minimum), lengths.maximum)


def stage(
    lengths: LengthRange | Curriculum | Doubling, batch: int, longest: int | None
) -> int | None:
    """The longest length that batch number `batch` may have, while longer ones are to come.

    Args:
        lengths: a curriculum, or the range of all batches.
        batch: counted from 0.
        longest: longest length of a doubling curriculum at this batch.
    Returns:
        None where no longer ones are to come, and for a curriculum that is neither Growing nor
        Doubling.
    """
    if not isinstance(lengths, Growing | Doubling):
        return None
    now = lengths(batch) if isinstance(lengths, Growing) else lengths.range_of(longest)
    return None if now == lengths.lengths else now.maximum


@dataclass(frozen=True)
class OneLength:
    """Draw one length for all sequences of a batch, uniformly.

    Args:
        lengths: the range that it is drawn from.
        seed: seed of the draw, 0..2**64 - 1.
    Source: the files of the authors' program of Yang & Rush 2017, one batch of one length a line.
    """

    lengths: LengthRange
    seed: int

    def __call__(self, batch: int) -> LengthRange:
        """The length of batch number `batch`, counted from 0, as a range."""
        words = Stream(self.seed, "train").words(np.array([batch]), np.array([_BLOCK]))[0]
        length = self.lengths.minimum + int(bounded(words, len(self.lengths))[0])
        return LengthRange(length, length)


def whole_range(lengths: LengthRange) -> LengthRange:
    """All lengths of the training range in each batch."""
    return lengths


#: The curricula of `--training.curriculum`.
CURRICULA: Final[dict[str, Callable[..., LengthRange | Curriculum | Doubling]]] = {
    "none": whole_range,
    "growing": Growing,
    "doubling": Doubling,
    "one_length": OneLength,
}
