"""Default hardening options of a run: budget and step sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from unbounded.experiments.config.compose import preset_of
from unbounded.experiments.config.schema import RunConfig

#: On streams, each chunk is one update. On other tasks, each batch is one update.
_OF_STREAMS: Final[dict[str, Any]] = {"batches": 60, "every": 1, "far": 5}
_OF_OTHERS: Final[dict[str, Any]] = {
    "batches": 600,
    "every": 15,
    "settle": 5,
    "validation_count": 100,
}


def with_hardening(config: RunConfig, changes: Mapping[str, Any] | None = None) -> RunConfig:
    """A config with hardening: with its own options if present, otherwise with the usual options.

    The usual options come from the task's preset if it hardens and has the same optimizer and loss
    reduction. With another optimizer or reduction, these options would not fit the size of a step.

    Args:
        config: the config. If its hardening is named "none", its other options count as changes
            too.
        changes: hardening options that differ.
    """
    part = dict(config.hardening)
    if part.pop("name") == "none":
        preset = preset_of(config.task["name"])
        usual = preset["hardening"]
        training, other = config.training, preset["training"]
        same = (training.optimizer["name"], training.reduction) == (
            other["optimizer"]["name"],
            other["reduction"],
        )
        if usual["name"] == "none" or not same:
            own = _OF_STREAMS if training.chunk_steps is not None else _OF_OTHERS
            usual = own
        part = {**usual, **part}
        part.pop("name", None)
    return replace(config, hardening={"name": "gradual", **part, **(changes or {})})
