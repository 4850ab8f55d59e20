"""Change memory options of a trained model on which no parameter depends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import ConfigError
from unbounded.models.memory_model import MemoryModel
from unbounded.models.model_parts import memory_errors


def with_memory(model: MemoryModel, options: Mapping[str, Any]) -> MemoryModel:
    """A model with the same weights and other memory options.

    For example a tape can have more slots than in training, because no weight depends on them.

    Args:
        model: the trained model; it is not changed.
        options: memory options by name.
    Returns:
        A model of the same dtype, device and mode.
    Raises:
        ConfigError: the model has no memory, an option is unknown or out of range, or it changes
            parameters; lists all errors.
    """
    config = model.config
    name = config["memory"]["name"]
    if name == NO_MEMORY:
        raise ConfigError(["model.memory: the run has no memory, so no options can be changed"])
    changed = {**config["memory"], **options}
    errors = memory_errors(changed, config["hidden_size"])
    if errors:
        raise ConfigError(_of_memory(error, options) for error in errors)
    weights = model.state_dict()
    errors = []
    for option, value in options.items():
        alone = _built(config, {**config["memory"], option: value}).state_dict()
        if _shapes(alone) != _shapes(weights):
            errors.append(
                f"model.memory.{option}: changes the parameters of the run; to score a run, give "
                "only options that change none"
            )
    if errors:
        raise ConfigError(errors)
    other = _built(config, changed)
    first = next(iter(model.parameters()))
    other.to(first.device, first.dtype).load_state_dict(weights)
    return other.train(model.training)


def _built(config: Mapping[str, Any], memory: Mapping[str, Any]) -> MemoryModel:
    with torch.random.fork_rng(devices=[]):  # the initial weights are replaced
        return MemoryModel(**{**config, "memory": dict(memory)})


def _of_memory(error: str, options: Mapping[str, Any]) -> str:
    named = error.partition(":")[0] in options
    return f"model.memory{'.' if named else ': '}{error}"


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}
