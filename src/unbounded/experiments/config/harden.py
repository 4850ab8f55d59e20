"""Default hardening options of a run: budget and step sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from unbounded.experiments.config.compose import preset_of
from unbounded.experiments.config.schema import HardeningConfig, RunConfig

#: On streams each chunk is one update; on other tasks each batch is one update.
_OF_STREAMS: Final[dict[str, Any]] = {"batches": 60, "every": 1, "far": 5}
_OF_OTHERS: Final[dict[str, Any]] = {
    "batches": 600,
    "every": 15,
    "settle": 5,
    "validation_count": 100,
}


def with_hardening(config: RunConfig, specified: Collection[str] = ()) -> RunConfig:
    """Add default hardening options to a config; options that differ from the defaults stay.

    The defaults come from the task's preset if it hardens and has the same optimizer and loss
    reduction; others have steps of another size.

    Args:
        config: the config.
        specified: hardening options that stay even if they equal the schema's defaults.
    """
    plain, preset = asdict(HardeningConfig()), preset_of(config.task)
    usual: dict[str, Any] = preset["hardening"]
    if not usual["batches"] or _steps(asdict(config.training)) != _steps(preset["training"]):
        streams = config.training.chunk_steps is not None
        usual = _OF_STREAMS if streams else _OF_OTHERS
    hardening = asdict(config.hardening)
    own = {
        name: value
        for name, value in hardening.items()
        if value != plain[name] or name in specified
    }
    return replace(config, hardening=HardeningConfig(**{**usual, **own}))


def _steps(training: Mapping[str, Any]) -> tuple[Any, ...]:
    return training["optimizer"], training["reduction"]
