"""The hardening of a run where nothing else is said: how long, and in what steps."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from unbounded.experiments.config.compose import preset_of
from unbounded.experiments.config.schema import RoundingConfig, RunConfig

#: Streams are cut into pieces, each with an update; a batch of anything else is one update.
_OF_STREAMS: Final[dict[str, Any]] = {"batches": 60, "every": 1}
_OF_OTHERS: Final[dict[str, Any]] = {
    "batches": 600,
    "every": 15,
    "settle": 5,
    "validation_count": 100,
}


def with_hardening(config: RunConfig) -> RunConfig:
    """The config with a hardening after training; what it says of one already stays.

    The usual one is the task's preset's, where that has one.
    """
    plain = asdict(RoundingConfig())
    usual: dict[str, Any] = preset_of(config.task)["rounding"]
    if not usual["batches"]:
        streams = config.training.piece_steps is not None
        usual = _OF_STREAMS if streams else _OF_OTHERS
    own = {name: value for name, value in asdict(config.rounding).items() if value != plain[name]}
    return replace(config, rounding=RoundingConfig(**{**usual, **own}))
