"""A run's identity: the hash of its config, its model's short name, and its folder's name."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from unbounded.experiments.config.schema import ModelConfig, RunConfig, to_dict


def config_hash(config: RunConfig) -> str:
    """Eight hexadecimal digits of the config without seed and hardware.

    Only differences from the defaults count, so new fields do not rename runs.
    """
    data = _differences(to_dict(config), _defaults())
    data.pop("seed", None)
    data.pop("hardware", None)
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@functools.cache
def _defaults() -> Mapping[str, Any]:
    return to_dict(RunConfig())


def _differences(data: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    differences: dict[str, Any] = {}
    for key, value in data.items():
        other = default.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            inner = _differences(value, other)
            if inner:
                differences[key] = inner
        elif key not in default or value != other:
            differences[key] = value
    return differences


def model_name(config: ModelConfig) -> str:
    """A short name: queue-lstm, or lstm-4 for four layers without a memory."""
    controller = config.controller["name"]
    if config.memory["name"] == "none":
        return f"{controller}-{config.controller.get('num_layers', 1)}"
    return f"{config.memory['name']}-{controller}"


def run_name(config: RunConfig) -> str:
    """The name of the run's folder."""
    task = config.task.replace("/", "_")
    return f"{task}-{model_name(config.model)}-{config_hash(config)}-seed{config.seed}"
