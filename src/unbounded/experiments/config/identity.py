"""A run's identity: its id, the hash of its config, and its model's short name."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import UnboundedError
from unbounded.experiments.config.components import CHOICES, component_options
from unbounded.experiments.config.schema import (
    EvaluationConfig,
    ModelConfig,
    RunConfig,
    effective,
    to_dict,
)


def config_hash(config: RunConfig) -> str:
    """Eight hexadecimal digits of the config without id, seed and hardware.

    Only differences from the defaults enter the hash, so new fields do not rename runs.
    """
    if config.model.memory.get("name") == NO_MEMORY:  # such a model has no gates to harden
        plain = replace(config.training, temperature_noise={"name": "none"})
        config = replace(config, training=plain, hardening={"name": "none"})
    config = replace(config, model=effective(config.model))
    data = _differences(_without_defaults(config), _defaults())
    for name in ("id", "seed", "hardware"):
        data.pop(name, None)
    text = json.dumps(_canonical(data), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@functools.cache
def _defaults() -> Mapping[str, Any]:
    return {**to_dict(RunConfig()), "evaluation": asdict(EvaluationConfig())}


def _canonical(value: Any) -> Any:
    """Return data in which equal numbers have one form, such as 7 for 7 and 7.0."""
    if isinstance(value, Mapping):
        return {name: _canonical(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(own) for own in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _without_defaults(config: RunConfig) -> dict[str, Any]:
    """The config as plain data, without the options of components that equal their defaults."""
    data = to_dict(config)
    for place in CHOICES:
        *parents, last = place.split(".")
        owner = data
        for name in parents:
            owner = owner[name]
        if not isinstance(owner[last], dict):
            continue
        usual = _component_defaults(place, str(owner[last].get("name")), _key(config.model))
        owner[last] = {
            name: value
            for name, value in owner[last].items()
            if name == "name" or name not in usual or _canonical(usual[name]) != _canonical(value)
        }
    return data


def _key(model: ModelConfig) -> tuple[str, str]:
    """The options of a model that determine which options its controllers have."""
    return str(model.memory.get("name")), str(model.controller.get("name"))


@functools.cache
def _component_defaults(place: str, name: object, model: tuple[str, str]) -> Mapping[str, Any]:
    parts = ModelConfig(memory={"name": model[0]}, controller={"name": model[1]})
    try:
        options = component_options(place, name, parts)
    except UnboundedError:  # the check of the config reports this name
        return {}
    return {option: own.default for option, own in options.items() if not own.is_required}


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


def layers_of(config: ModelConfig) -> int:
    """The given or default number of layers."""
    controller = config.controller
    usual = _component_defaults("model.controller", controller["name"], _key(config))
    layers: int = {"num_layers": 1, **usual, **controller}["num_layers"]
    return layers


def model_name(config: ModelConfig) -> str:
    """A short name of the model: queue-lstm, or lstm-4 for four layers without a memory."""
    controller = config.controller["name"]
    if config.memory["name"] == "none":
        return f"{controller}-{layers_of(config)}"
    return f"{config.memory['name']}-{controller}"


def run_name(config: RunConfig) -> str:
    """The name of the run's folder: the config's id, or its task, model, hash and seed."""
    if config.id is not None:
        return config.id
    task = config.task["name"].replace("/", "_")
    return f"{task}-{model_name(config.model)}-{config_hash(config)}-seed{config.seed}"


def with_id(config: RunConfig) -> RunConfig:
    """The config with its run's name as its id."""
    return replace(config, id=run_name(config))
