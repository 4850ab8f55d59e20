"""The options of a phase of training: its budget, its steps and its reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange
from unbounded.training.hook import Hook
from unbounded.training.hooks.curricula import Curriculum

#: How a gradient is clipped: by its norm, or by the value of each element.
CLIPS = ("norm", "value")
#: When weights change: after each chunk of a batch, or after each symbol (`PerSymbolUpdate`).
UPDATES = ("chunk", "per_symbol")
#: Reductions of the loss over the tokens in a step.
REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class PhaseOptions:
    """The options of one phase of training.

    Fields:
        seed: seed of the training examples.
        lengths: range of the training sequences, or a curriculum.
        batch_size: sequences a batch over all processes.
        length_bucketing: batches whose examples are sorted by length and split again; 1 for none.
        batches: budget.
        symbols: budget of input symbols, scored or not; None for no such limit.
        minutes: budget of training time; None for no such limit.
        clip: bound on the gradient.
        clip_by: "norm" scales the gradient, "value" clips each of its elements.
        chunk_steps: time steps of a chunk, None for the whole batch at once. With chunks, a request
            to stop takes effect after a chunk. Its checkpoint, or one by the clock, holds the
            position in the batch.
        reduction: of the loss over the tokens of a step, "mean" or "sum".
        update: "chunk" for a gradient step after each chunk, "per_symbol" after each symbol.
        label_smoothing: share of each target that is spread over all outputs.
        report_every: batches between reports of training perplexity.
        checkpoint_every: batches between checkpoints.
        keep_checkpoints: number of newest checkpoints that are kept.
        checkpoint_minutes: minutes after which a checkpoint is written in any case, in a single
            process also between two chunks of a batch; it does not affect the training.
    """

    seed: int
    lengths: LengthRange | Curriculum
    batch_size: int
    batches: int
    symbols: int | None = None
    minutes: float | None = None
    length_bucketing: int = 1
    clip: float = 1.0
    clip_by: str = "norm"
    chunk_steps: int | None = None
    reduction: str = "mean"
    update: str = "chunk"
    label_smoothing: float = 0.0
    report_every: int = 100
    checkpoint_every: int = 500
    keep_checkpoints: int = 2
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        curriculum: object = self.lengths
        if isinstance(curriculum, Hook) and self.length_bucketing != 1:
            raise ConfigError(
                "length_bucketing: a doubling curriculum changes lengths at any batch; "
                "expected 1, got "
                f"{self.length_bucketing}"
            )

    def lengths_of(self, batch: int) -> LengthRange:
        """Return the range of lengths of a batch with a given number."""
        return self.lengths if isinstance(self.lengths, LengthRange) else self.lengths(batch)

    def over(self, batch: int, symbols: int, seconds: float) -> str | None:
        """The reason why the budget is used up, or None."""
        if batch >= self.batches:
            return f"budget: {self.batches} batches are done"
        if self.symbols is not None and symbols >= self.symbols:
            return f"budget: {self.symbols} symbols are read"
        if seconds >= 60 * (math.inf if self.minutes is None else self.minutes):
            return f"budget: {self.minutes:g} minutes are over"
        return None
