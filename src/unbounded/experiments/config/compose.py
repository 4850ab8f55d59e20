"""Apply changes to a config in order: preset, protocol, config files, study, command line.

Components follow one rule. A mapping with a name is the whole component. A name without options
drops the options of a component of another name. Options without a name change only these options.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from unbounded.custom_components import part_of
from unbounded.errors import ConfigError, UnboundedError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.presets import preset_paths
from unbounded.experiments.config.schema import (
    ModelConfig,
    RunConfig,
    TrainingConfig,
    is_component,
    to_dict,
    unchecked,
    unknown_options,
)
from unbounded.options import field_kinds, fits, takes_none

#: Config sections that a preset, a study or a paper's model may set.
PARTS: Final = ("task", "model", "training", "hardening", "evaluation")
#: Key of a preset for the options that other memories have on its task, by the memory's name.
OTHER_MEMORIES: Final = "other_memories"


@functools.cache
def component_places() -> frozenset[str]:
    """The dotted names of all components in a config."""
    return frozenset(
        f"{where}{name}"
        for where, kind in (("", RunConfig), ("model.", ModelConfig), ("training.", TrainingConfig))
        for name, own in field_kinds(kind).items()
        if is_component(own)
    )


def overlay(base: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with changes applied in order. The arguments are not changed."""
    result = copy.deepcopy(dict(base))
    for change in changes:
        result = _over(result, _with_other_memory(result, change), "")
    return result


def _over(base: Mapping[str, Any], change: Mapping[str, Any], where: str) -> dict[str, Any]:
    result = dict(base)
    for name, value in change.items():
        place, before = f"{where}{name}", base.get(name)
        if place in component_places() and isinstance(value, (str, Mapping)):
            result[name] = _component(before, value)
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            result[name] = _over(before, value, f"{place}.")
        else:
            result[name] = copy.deepcopy(value)
    return result


def _component(before: Any, change: str | Mapping[str, Any]) -> dict[str, Any]:
    earlier = part_of(before) if isinstance(before, (str, Mapping)) else {}
    if isinstance(change, str):
        return earlier if earlier.get("name") == change else {"name": change}
    own = dict(copy.deepcopy(change))
    return {"name": own.pop("name"), **own} if "name" in own else {**earlier, **own}


def _with_other_memory(base: Mapping[str, Any], change: Mapping[str, Any]) -> Mapping[str, Any]:
    """The change, in which a memory given only by name has the preset's options for it."""
    model = change.get("model")
    name = model.get("memory") if isinstance(model, Mapping) else None
    others = base.get(OTHER_MEMORIES, {})
    if not isinstance(model, Mapping) or not isinstance(name, str) or name not in others:
        return change
    if part_of(base["model"]["memory"]).get("name") == name:
        return change
    return {**change, "model": {**model, "memory": {"name": name, **others[name]}}}


def preset_of(task: str, protocol: str | None = None) -> dict[str, Any]:
    """The config of a task's preset as plain data; the general defaults without a preset.

    Args:
        task: name or import path.
        protocol: one of PROTOCOLS; its file changes the preset.
    """
    return overlay(
        to_dict(RunConfig(task={"name": task})), *map(_file, preset_paths(task, protocol))
    )


@functools.cache
def _file(path: Path) -> dict[str, Any]:
    """Read a preset file and cache it, because a study loads a preset for each trial."""
    data: dict[str, Any] = plain_yaml.load(path.read_text(encoding="utf-8"))
    return data


def composed(data: Mapping[str, Any]) -> RunConfig:
    """The config of composed data.

    An option that is null but cannot be null is left out and so has its default. A number becomes
    text where only text is accepted, for example a year that names a variant. The check of the
    config (`check.examine`) finds wrong values.

    Raises:
        ConfigError: there is no such option; lists all of them.
    """
    if errors := unknown_parts(data):
        raise ConfigError(errors)
    return normalised(data)


def part_type_errors(data: Mapping[str, Any]) -> list[str]:
    """One line for each component of a config, or of a change, whose name is not text."""
    found = []
    for place in sorted(component_places()):
        value: Any = data
        for name in place.split("."):
            value = value.get(name, {}) if isinstance(value, Mapping) else {}
        if isinstance(value, Mapping):
            value = value.get("name", "")
        if isinstance(value, str):
            continue
        # Imported here, because components need torch and few configs have this error.
        from unbounded.experiments.config.components import CHOICES

        what = place.rpartition(".")[2].replace("_", " ")
        has_none = place == "model.memory" or "none" in CHOICES[place].registry
        found.append(
            f"{place}: expected a name, or a mapping with a name and options, got "
            f"{json.dumps(value, default=str):.80}{f'; for no {what} write none' * has_none}"
        )
    return found


def unknown_parts(data: Mapping[str, Any]) -> list[str]:
    """One line for each option of composed data that a config does not have."""
    return unknown_options({name: own for name, own in data.items() if name != OTHER_MEMORIES})


def normalised(data: Mapping[str, Any]) -> RunConfig:
    """The config of composed data, as for `composed`, without options that it does not have."""
    config = unchecked(data)
    for place in component_places():
        owner: Any = config
        *parents, last = place.split(".")
        for name in parents:
            owner = getattr(owner, name)
        part = getattr(owner, last)
        if not isinstance(part, dict):
            continue
        if any(value is None or type(value) is int for value in part.values()):
            setattr(owner, last, _normalised(place, part, config))
    return config


def _normalised(place: str, part: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    # Imported here, because components need torch and few presets need components.
    from unbounded.experiments.config.components import component_options

    try:
        known = component_options(place, part.get("name"), config.model)
    except UnboundedError:  # the check of the config reports this
        return dict(part)
    result = dict(part)
    for name, value in part.items():
        kind = known[name].kind if name in known else Any
        if value is None and not takes_none(kind) and name in known:
            del result[name]
        elif type(value) is int and not fits(value, kind) and fits(str(value), kind):
            result[name] = str(value)
    return result


#: The usual options of hardening. On streams, each chunk is one update. On other tasks, each batch
#: is one update.
_HARDENING_OF_STREAMS: Final[dict[str, Any]] = {"batches": 60, "every": 1, "far": 5}
_HARDENING_OF_OTHERS: Final[dict[str, Any]] = {
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
            is_stream = training.chunk_steps is not None
            usual = _HARDENING_OF_STREAMS if is_stream else _HARDENING_OF_OTHERS
        part = {**usual, **part}
        part.pop("name", None)
    return replace(config, hardening={"name": "gradual", **part, **(changes or {})})


def nested(name: str, value: Any) -> dict[str, Any]:
    """The change of a config that sets one option, such as "training.batches"."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)


def joined(base: Any, change: Any) -> Any:
    """Merge two nested mappings, whatever their names mean in a config."""
    if not (isinstance(base, Mapping) and isinstance(change, Mapping)):
        return change
    return {**base, **{key: joined(base.get(key), value) for key, value in change.items()}}
