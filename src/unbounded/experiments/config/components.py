"""The components in a config: for each option, the factory of every choice and its options.

A component's signature is the schema of its options. Parameters that the run provides, such as the
model or the training lengths, are not options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from torch import nn

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import ChoiceError, ConfigError, placed
from unbounded.experiments.config.schema import (
    HardeningConfig,
    ModelConfig,
    RunConfig,
    effective,
)
from unbounded.memories import MEMORIES
from unbounded.models.model_parts import (
    OF_LAYER,
    controller_errors,
    controller_factory,
    memory_errors,
    memory_factory,
)
from unbounded.options import Option, option_errors, options_of
from unbounded.tasks import TASKS, LengthRange, task_factory
from unbounded.training.hooks import (
    CURRICULA,
    EARLY_ABORTS,
    PLATEAUS,
    SCHEDULES,
    STOPS,
    TEMPERATURE_NOISES,
)
from unbounded.training.optimizers import NOT_OPTIONS, OPTIMIZERS, optimizer_errors


def no_hardening() -> None:
    """Keep the trained model as it is."""


#: The phases of `--hardening`.
HARDENINGS: Final[dict[str, Callable[..., HardeningConfig | None]]] = {
    "none": no_hardening,
    "gradual": HardeningConfig,
}


class Choice(NamedTuple):
    """An option of a config whose value is a component.

    Fields:
        registry: the library's components by name.
        provided: parameters of their factories that the run provides.
    """

    registry: Mapping[str, Callable[..., Any]]
    provided: tuple[str, ...] = ()


CHOICES: Final[dict[str, Choice]] = {
    "task": Choice(TASKS),
    "model.memory": Choice(MEMORIES),
    "model.controller": Choice({}, tuple(OF_LAYER)),  # controllers depend on the memory
    "training.optimizer": Choice(OPTIMIZERS, NOT_OPTIONS),
    "training.schedule": Choice(SCHEDULES, ("budget",)),
    "training.stop": Choice(STOPS, ("lengths", "count", "report_every")),
    "training.early_abort": Choice(EARLY_ABORTS),
    "training.temperature_noise": Choice(TEMPERATURE_NOISES, ("model", "seed")),
    "training.curriculum": Choice(CURRICULA, ("lengths", "seed")),
    "training.plateau": Choice(PLATEAUS, ("model", "optimizer", "schedule", "validate")),
    "hardening": Choice(HARDENINGS),
}


def part_at(config: RunConfig, place: str) -> Any:
    """The component that a config has at an option's name, as data."""
    value: Any = config
    for name in place.split("."):
        value = getattr(value, name)
    return value


def factory_at(place: str, name: object, model: ModelConfig) -> Callable[..., Any]:
    """The factory of a component.

    Args:
        place: one of `CHOICES`.
        name: the component's name.
        model: of the same config; its memory determines the controllers.
    Raises:
        ChoiceError: there is no such component. ConfigError: a custom one is not imported.
    """
    if place == "task":
        return task_factory(str(name))
    if place == "model.memory":
        if name == NO_MEMORY:
            return no_memory
        return memory_factory(name)
    if place == "model.controller":
        return controller_factory(name, model.memory)
    registry = CHOICES[place].registry
    if not isinstance(name, str) or name not in registry:
        raise ChoiceError(place.rpartition(".")[2].replace("_", " "), name, registry)
    return registry[name]


def no_memory() -> None:
    """No memory: only the controller, which may be a deep LSTM."""


def component_options(place: str, name: object, model: ModelConfig) -> dict[str, Option]:
    """The options of a component, according to its signature.

    Raises:
        ChoiceError, ConfigError: as for `factory_at`.
    """
    return options_of(factory_at(place, name, model), CHOICES[place].provided)


def build(place: str, part: Mapping[str, Any], **provided: Any) -> Any:
    """Build the component of a checked config from its options and the run's parameters.

    Args:
        place: one of `CHOICES`, except task, memory and controller.
        part: the component as data.
        provided: parameters by name; the component takes those in its signature.
    """
    factory = CHOICES[place].registry[part["name"]]
    taken = inspect.signature(factory).parameters
    own = {name: value for name, value in part.items() if name != "name"}
    return factory(**{name: provided[name] for name in provided if name in taken}, **own)


def option_at(place: str, part: Mapping[str, Any], option: str) -> Any:
    """The value of a component's option: as given, or its default."""
    if option in part:
        return part[option]
    return options_of(CHOICES[place].registry[part["name"]])[option].default


def component_errors(config: RunConfig, place: str, device: str = "cpu") -> list[str]:
    """All errors of the component at an option's name, one line each.

    Args:
        device: the optimizer's device, "cpu" or "cuda".
    """
    part = part_at(config, place)
    if not isinstance(part, Mapping):
        return []  # the type check reports this error
    name = part.get("name")
    if not isinstance(name, str):
        return [f"{place}: expected a name in it, got {part!r:.80}"]
    own = {option: value for option, value in part.items() if option != "name"}
    hidden_size: Any = config.model.hidden_size
    width = max(hidden_size, 1) if isinstance(hidden_size, int) else 1
    if place == "model.memory":
        lines = memory_errors(part, width)
    elif place == "model.controller":
        memory: Any = config.model.memory
        beside = memory.get("name") if isinstance(memory, Mapping) else None
        lines = controller_errors(effective(config.model).controller, beside, width)
    else:
        try:
            factory = factory_at(place, name, config.model)
        except ChoiceError as error:
            return [f"{place}: {error}"]
        kind = place.rpartition(".")[2].replace("_", " ")
        hidden = CHOICES[place].provided
        lines = option_errors(f"{kind} {name!r}", factory, own, hidden=hidden)
        if place == "training.optimizer" and not lines:
            lines = optimizer_errors(name, own, device)
        elif place.startswith("training.") and not lines:
            lines = _refusals(place, part)
    return placed(lines, place, own)


def _refusals(place: str, part: Mapping[str, Any]) -> list[str]:
    """The errors that the component's own check of its options finds.

    Parameters that the run would provide are placeholders.
    """
    made_up = {
        "lengths": LengthRange(1, 1),
        "model": nn.Identity(),
        **dict.fromkeys(("count", "report_every", "budget", "seed"), 1),
        **dict.fromkeys(("optimizer", "schedule", "validate")),
    }
    try:
        build(place, part, **made_up)
    except ConfigError as error:
        return list(error.errors)
    return []
