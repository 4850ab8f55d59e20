"""The part of a run with a cooldown that equals a run with a constant learning rate."""

from __future__ import annotations

from dataclasses import replace

from unbounded.experiments.config.schema import RunConfig, TrainingConfig
from unbounded.training.cooldown import cooldown_length


def steady(config: RunConfig) -> RunConfig | None:
    """The same config with a constant learning rate; None for a config without a cooldown."""
    if config.training.schedule != "cooldown":
        return None
    plain = TrainingConfig().cooldown_batches
    return replace(
        config, training=replace(config.training, schedule="constant", cooldown_batches=plain)
    )


def last_steady(config: RunConfig) -> int | None:
    """The latest batch at which the cooldown starts; None if the budget is not only in batches."""
    training = config.training
    if steady(config) is None or training.symbols is not None or training.minutes is not None:
        return None
    cooldown = cooldown_length(training.batches, training.cooldown_batches)
    return training.batches - cooldown if cooldown else None
