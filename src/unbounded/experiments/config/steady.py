"""What a run whose learning rate falls at the end shares with one whose rate stays."""

from __future__ import annotations

from dataclasses import replace

from unbounded.experiments.config.schema import RunConfig, TrainingConfig
from unbounded.training.tail import tail_length


def steady(config: RunConfig) -> RunConfig | None:
    """The same config with a rate that stays; None where it does not fall at the end."""
    if config.training.schedule != "tail":
        return None
    plain = TrainingConfig().tail_batches
    return replace(
        config, training=replace(config.training, schedule="constant", tail_batches=plain)
    )


def last_steady(config: RunConfig) -> int | None:
    """The batch at which the rate falls at the latest; None where that is no number of batches."""
    training = config.training
    if steady(config) is None or training.symbols is not None or training.minutes is not None:
        return None
    tail = tail_length(training.batches, training.tail_batches)
    return training.batches - tail if tail else None
