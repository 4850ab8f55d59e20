"""What a phase of training is told: how far, in which steps, and what it reports when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange
from unbounded.training.curricula import Curriculum, Doubling


@dataclass(frozen=True)
class PhaseOptions:
    """The numbers of one phase of training.

    Fields:
        seed: of the training examples.
        lengths: range of the training sequences, or what gives the range of each batch.
        batch_size: sequences a batch over all processes.
        deal: batches whose examples are sorted by length and dealt again; 1 for none.
        batches: budget.
        symbols: budget of input symbols, counted or not; None for none.
        minutes: budget of training time, None for none.
        clip: bound on the gradient.
        clip_by: "norm" scales the gradient, "value" cuts each of its elements.
        piece_steps: time steps of a piece, None for the whole batch at once. With pieces a request
            to stop is answered after a piece, and the checkpoint that is written then, or by the
            clock, holds the place in the batch.
        average: whether the loss of a step is the mean over what counts in it, or the sum.
        update: "piece" for a gradient step after each piece, "symbol" after each symbol.
        prediction_clip: what chances of yes or no are cut to in the loss, 0 for no cut.
        label_smoothing: share of each target that is spread over all that could be said.
        random_sharpness: the greatest factor that sharpens decisions in a gradient step, a power
            of two (`RandomSharpness`); 1 for none. While the greatest one of a time is k, gradients
            are clipped at clip / sqrt(k).
        random_sharpness_units: the greatest one that sharpens the controller's units in it.
        random_sharpness_below: nats a token since the last report, at all lengths, below which the
            greatest factor of that time doubles (`greatest_factor`).
        report_every: batches between reports of training perplexity.
        accuracy_every: batches between the accuracies, 0 for none.
        accuracy_lengths: the ranges they are taken over.
        accuracy_count: sequences a range.
        checkpoint_every: batches between checkpoints.
        keep_checkpoints: how many of the newest stay.
        checkpoint_minutes: after so many without one it is written all the same, by one process
            also between two pieces of a batch; what is learnt does not depend on it.
    """

    seed: int
    lengths: LengthRange | Curriculum | Doubling
    batch_size: int
    batches: int
    symbols: int | None = None
    minutes: float | None = None
    deal: int = 1
    clip: float = 1.0
    clip_by: str = "norm"
    piece_steps: int | None = None
    average: bool = True
    update: str = "piece"
    prediction_clip: float = 0.0
    label_smoothing: float = 0.0
    random_sharpness: int = 1
    random_sharpness_units: int = 1
    random_sharpness_below: float = 1e-3
    report_every: int = 100
    accuracy_every: int = 0
    accuracy_lengths: tuple[LengthRange, ...] = ()
    accuracy_count: int = 1
    checkpoint_every: int = 500
    keep_checkpoints: int = 2
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        if isinstance(self.lengths, Doubling) and self.deal != 1:
            raise ConfigError(
                [
                    "deal: a doubling curriculum changes lengths at any batch; expected 1, got "
                    f"{self.deal}"
                ]
            )

    def lengths_of(self, batch: int, longest: int | None = None) -> LengthRange:
        """The range of lengths of a batch by its number.

        Args:
            longest: how far a doubling has come.
        """
        if isinstance(self.lengths, LengthRange):
            return self.lengths
        if isinstance(self.lengths, Doubling):
            return self.lengths.range_of(longest)
        return self.lengths(batch)

    def over(self, batch: int, symbols: int, seconds: float) -> str | None:
        """Why the budget is used up, or None."""
        if batch >= self.batches:
            return f"budget: {self.batches} batches are done"
        if self.symbols is not None and symbols >= self.symbols:
            return f"budget: {self.symbols} symbols are read"
        if seconds >= 60 * (math.inf if self.minutes is None else self.minutes):
            return f"budget: {self.minutes:g} minutes are over"
        return None
