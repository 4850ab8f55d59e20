"""A trained model with its memory's options changed, where no parameter depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unbounded.errors import ConfigError
from unbounded.models.memory_model import MemoryModel
from unbounded.models.model_parts import memory_faults
from unbounded.own_parts import NO_MEMORY


def with_memory(model: MemoryModel, options: Mapping[str, Any]) -> MemoryModel:
    """A model with the same weights and other options of its memory.

    A tape that has more slots than in training is such a model: none of its weights knows how many
    there are.

    Args:
        model: as it was trained; it stays as it is.
        options: of its memory, by name.
    Returns:
        a model of the same dtype, device and mode.
    Raises:
        ConfigError: the model has no memory, an option is unknown or out of range, or there would
            be other parameters; all faults together.
    """
    config = model.config
    name = config["memory"]["name"]
    if name == NO_MEMORY:
        raise ConfigError(["model.memory: the run has no memory whose options could be changed"])
    changed = {**config["memory"], **options}
    faults = memory_faults(changed, config["hidden_size"])
    if faults:
        raise ConfigError(_of_memory(fault, options) for fault in faults)
    weights = model.state_dict()
    faults = []
    for option, value in options.items():
        alone = _built(config, {**config["memory"], option: value}).state_dict()
        if _shapes(alone) != _shapes(weights):
            faults.append(
                f"model.memory.{option}: changes the parameters of the run; only what changes none "
                "can be given when a run is scored"
            )
    if faults:
        raise ConfigError(faults)
    other = _built(config, changed)
    first = next(iter(model.parameters()))
    other.to(first.device, first.dtype).load_state_dict(weights)
    return other.train(model.training)


def _built(config: Mapping[str, Any], memory: Mapping[str, Any]) -> MemoryModel:
    with torch.random.fork_rng(devices=[]):  # the first weights drawn here are thrown away
        return MemoryModel(**{**config, "memory": dict(memory)})


def _of_memory(fault: str, options: Mapping[str, Any]) -> str:
    named = fault.partition(":")[0] in options
    return f"model.memory{'.' if named else ': '}{fault}"


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}
