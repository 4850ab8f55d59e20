"""Curricula, which set the length range of each batch by its number or by the training loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.errors import ConfigError
from unbounded.options import Count, Positive
from unbounded.tasks import LengthRange, Stream
from unbounded.tasks.randomness import bounded
from unbounded.training.hook import Hook
from unbounded.training.state import LoopState

# Block of the random stream that no example reaches.
_BLOCK = 2**32 - 1

#: Returns the range of lengths of a batch, given its number. A curriculum with a state is a hook
#: too. A curriculum with stages has an attribute `final`, which is its last range.
Curriculum = Callable[[int], LengthRange]


def stage(lengths: LengthRange | Curriculum, batch: int) -> int | None:
    """The longest length of batch number `batch`, while later batches have longer ones.

    Args:
        lengths: a curriculum, or the range of all batches.
        batch: counted from 0.
    Returns:
        None if no longer ones are to come, and for a curriculum without stages.
    """
    final = getattr(lengths, "final", None)
    if isinstance(lengths, LengthRange) or final is None:
        return None
    now = lengths(batch)
    return None if now == final else now.maximum


@dataclass(frozen=True)
class Growing:
    """Start with the shortest length, and add the next length after every `every` batches.

    Args:
        lengths: the final range.
        first: longest length of the first batches; None for the range's shortest. It is clipped to
            the range.
        every: batches between two lengths, at least 1. 1, with batches as large as an epoch of the
            authors, is their curriculum.

    Raises:
        ConfigError: `every` is not an integer of at least 1.
    Source: the authors' program of Joulin & Mikolov 2015.
    """

    lengths: LengthRange
    every: Count = 1
    first: Count | None = None

    @property
    def final(self) -> LengthRange:
        """The last range."""
        return self.lengths

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1:
            raise ConfigError(f"curriculum: every: expected an integer >= 1, got {self.every!r}")

    def __call__(self, batch: int) -> LengthRange:
        """The range of batch number `batch`, counted from 0."""
        first = _first(self.lengths, self.first)
        longest = min(self.lengths.maximum, first + batch // self.every)
        return LengthRange(self.lengths.minimum, longest)


class Doubling(Hook):
    """Start with short lengths, and double the longest length whenever the loss is low enough.

    Args:
        lengths: the final range.
        below: mean loss since the last report, in nats per token, below which the longest doubles.
        first: longest length of the first batches; None for the range's shortest. It is clipped to
            the range.
    Attributes:
        longest: longest length of the next batch.

    Raises:
        ConfigError: `below` is not a number above 0.
    Source: the authors' program of Deleu & Dureau 2016, with 1e-4, 5 and reports of 500 batches.
    """

    saved = ("longest",)

    def __init__(
        self, lengths: LengthRange, below: Positive = 1e-4, first: Count | None = None
    ) -> None:
        is_number = isinstance(below, (int, float)) and not isinstance(below, bool)
        if not is_number or not 0 < below < float("inf"):
            raise ConfigError(f"curriculum: below: expected a number above 0, got {below!r}")
        self.lengths = self.final = lengths
        self.below = below
        self.longest = _first(lengths, first)

    def __call__(self, batch: int) -> LengthRange:
        """The range of the next batch."""
        return LengthRange(self.lengths.minimum, self.longest)

    def on_report(self, state: LoopState, loss: float) -> dict[str, Any]:
        """Double the longest length if the loss is low enough."""
        before = self.longest
        if loss < self.below:
            self.longest = min(2 * before, self.lengths.maximum)
        return {"longest": before}


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


@dataclass(frozen=True)
class ShorterToo:
    """Draw every other bucket of batches from lengths below the training lengths.

    With uniform lengths from 1 to 64, few strings are short. A hardened model may forget how to
    process short strings. A saturated gate has no gradient with which to learn them again.

    Args:
        lengths: the range of training.
        shortest: the least length below it.
        bucket: batches that share their lengths; see `PhaseOptions.length_bucketing`.
    """

    lengths: LengthRange
    shortest: int
    bucket: int = 1

    @property
    def final(self) -> LengthRange:
        """Return the range of training."""
        return self.lengths

    def __call__(self, batch: int) -> LengthRange:
        """The range of batch number `batch`, counted from 0."""
        if batch // self.bucket % 2:
            return self.lengths
        return LengthRange(self.shortest, self.lengths.minimum - 1)


def whole_range(lengths: LengthRange) -> LengthRange:
    """Use all lengths of the training range in each batch."""
    return lengths


def _first(lengths: LengthRange, first: int | None) -> int:
    """The longest length in the first batches, clipped to the range."""
    return lengths.minimum if first is None else min(max(first, lengths.minimum), lengths.maximum)
