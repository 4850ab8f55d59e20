"""The hardening of a run where nothing else is said: how long, and in what steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from unbounded.experiments.config.compose import preset_of
from unbounded.experiments.config.schema import RoundingConfig, RunConfig

#: Streams are cut into pieces, each with an update; a batch of anything else is one update.
_OF_STREAMS: Final[dict[str, Any]] = {"batches": 60, "every": 1, "far": 5}
_OF_OTHERS: Final[dict[str, Any]] = {
    "batches": 600,
    "every": 15,
    "settle": 5,
    "validation_count": 100,
}


def with_hardening(config: RunConfig, said: Collection[str] = ()) -> RunConfig:
    """The config with a hardening after training; what it says of one already stays.

    The usual one is the task's preset's, where that has one and trains by the same kind of steps:
    those of another optimizer, or of sums in the place of means, are of another size.

    Args:
        config: what it is added to.
        said: options of the hardening that stay also where they are what they would be if nothing
            had been said.
    """
    plain, preset = asdict(RoundingConfig()), preset_of(config.task)
    usual: dict[str, Any] = preset["rounding"]
    if not usual["batches"] or _steps(asdict(config.training)) != _steps(preset["training"]):
        streams = config.training.piece_steps is not None
        usual = _OF_STREAMS if streams else _OF_OTHERS
    rounding = asdict(config.rounding)
    own = {name: each for name, each in rounding.items() if each != plain[name] or name in said}
    return replace(config, rounding=RoundingConfig(**{**usual, **own}))


def _steps(training: Mapping[str, Any]) -> tuple[Any, ...]:
    return training["optimizer"], training["average"]
