"""The part of a run with a cooldown that equals a run with a constant learning rate."""

from __future__ import annotations

from dataclasses import replace

from unbounded.experiments.config.components import option_at
from unbounded.experiments.config.schema import RunConfig
from unbounded.training.schedules import cooldown_length


def steady(config: RunConfig) -> RunConfig | None:
    """The same config with a constant learning rate; None for a config without a cooldown."""
    if config.training.schedule["name"] != "cooldown":
        return None
    training = replace(config.training, schedule={"name": "constant"})
    return replace(config, id=None, training=training)


def last_steady(config: RunConfig) -> int | None:
    """The latest batch at which the cooldown starts; None if the budget is not only in batches."""
    training = config.training
    if steady(config) is None or training.symbols is not None or training.minutes is not None:
        return None
    batches = option_at("training.schedule", training.schedule, "batches")
    cooldown = cooldown_length(training.batches, batches)
    return training.batches - cooldown if cooldown else None
