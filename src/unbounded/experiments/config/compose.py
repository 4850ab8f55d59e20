"""Compose a config from a preset and changes, and reset options that a change makes obsolete."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Container, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, get_args

from unbounded.custom_components import NO_MEMORY, part_of
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.presets import preset_paths
from unbounded.experiments.config.schema import HardeningConfig, RunConfig, TrainingConfig, to_dict

#: Config sections that a preset, a study or a paper's model may set.
PARTS: Final = ("task_options", "model", "training", "hardening", "evaluation")

#: Training choices, and the options that belong to them.
OPTIONS_OF: Final = {
    "optimizer": ("optimizer_options", "epsilon"),
    "schedule": ("cooldown_batches",),
    "stop": ("validation_share", "converged_perplexity", "converged_reports"),
    "curriculum": ("curriculum_every", "curriculum_below", "curriculum_first"),
}
#: Memory options that determine defaults of others: their default, and the others.
CHOSEN_BY: Final = {"variant": ("2016", ("step", "action_gate"))}
#: Temperature noise options, which are tuned for one memory.
_INVERSE_TEMPERATURE: Final = (
    "temperature_noise",
    "temperature_noise_units",
    "temperature_noise_below",
)
# Streams have thousands of symbols, so superposition memories get the authors' capacity.
_BOUNDED: Final[dict[str, dict[str, Any]]] = {
    "superposition_stack": {"capacity": 200, "overflow": "drop_bottom"},
    "superposition_list": {"capacity": 200, "overflow": "drop_ends"},
}


def preset_of(task: str, protocol: str | None = None) -> dict[str, Any]:
    """The config of a task's preset as plain data; the general defaults if it has none.

    Args:
        task: name or import path.
        protocol: one of PROTOCOLS; its file changes the preset.
    """
    base = to_dict(RunConfig(task=task))
    for path in preset_paths(task, protocol):
        base = merged(base, _preset_file(path))
    return base


@functools.cache
def _preset_file(path: Path) -> dict[str, Any]:
    """A preset file, read once, because a study loads a preset for each trial."""
    data: dict[str, Any] = plain_yaml.load(path.read_text(encoding="utf-8"))
    return data


def merged(
    base: Mapping[str, Any], *changes: Mapping[str, Any], whole: Container[str] = ()
) -> dict[str, Any]:
    """Apply changes to a config, in order.

    If "memory" or "controller" is in `whole`, it gets only the options of the change. Otherwise:

    - A new memory or controller drops the options of the old one. A new memory also resets
      hardening and temperature noise.
    - A new variant of a memory resets the options that it determines.
    - Unbounded units reset the temperature noise of units.
    - Null removes an option of the task, or of a memory if the option cannot be null.
    - Embeddings replace input bits.
    - Without a memory there is no readout, and an Elman controller is recurrent.
    - A growing memory does not carry its state between lengths in scoring, unless requested.
    - A new optimizer, schedule, stop rule or curriculum drops the options of the old one. A new
      optimizer also resets the learning rate of hardening.
    """
    result = copy.deepcopy(dict(base))
    for change in changes:
        for part in PARTS:
            own = copy.deepcopy(dict(change.get(part) or {}))
            if part == "model":
                _change_model(result, own, whole)
                continue
            is_other = part == "training" and _is_other(result, own, "optimizer")
            if is_other and result["hardening"]["optimizer"] is None:
                result["hardening"] = {**result["hardening"], "learning_rate": None}
            result[part] = {**result.get(part, {}), **_without_others(result, part, own), **own}
            if part == "task_options":
                result[part] = _given(result[part])
    return result


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _without_others(
    config: Mapping[str, Any], part: str, change: Mapping[str, Any]
) -> dict[str, Any]:
    """Defaults for the options of a changed optimizer, schedule, stop rule or curriculum."""
    if part != "training":
        return {}
    plain = asdict(TrainingConfig())
    options = [own for choice, own in OPTIONS_OF.items() if _is_other(config, change, choice)]
    defaults = {name: plain[name] for names in options for name in names}
    if change.get("temperature_noise") == 1:
        defaults |= _without_noise()
    # Bucketing needs lengths that are known ahead, unlike those of a doubling curriculum.
    return defaults | ({"length_bucketing": 1} if change.get("curriculum") == "doubling" else {})


def _without_noise() -> dict[str, Any]:
    plain = asdict(TrainingConfig())
    return {name: plain[name] for name in _INVERSE_TEMPERATURE}


def _is_other(config: Mapping[str, Any], change: Mapping[str, Any], choice: str) -> bool:
    """Whether a change of the training section changes a choice."""
    before = config["training"][choice]
    return bool(change.get(choice, before) != before)


def _change_model(config: dict[str, Any], change: dict[str, Any], whole: Container[str]) -> None:
    memory, controller = change.pop("memory", None), change.pop("controller", None)
    model = {**config["model"], **change}
    if change.get("embedding_size") is not None and "input_bits" not in change:
        model["input_bits"] = None
    if controller is not None:
        own = part_of(controller)
        is_whole = "controller" in whole
        model["controller"] = own if is_whole else _changed(model["controller"], own, {})
        if model["controller"].get("activation") == "relu":
            config["training"] = {**config["training"], "temperature_noise_units": 1}
    if memory is not None:
        before, data = model["memory"], part_of(memory)
        bounds = _BOUNDED if config["training"]["chunk_steps"] is not None else {}
        changed = dict(data) if "memory" in whole else _changed(before, data, bounds)
        model["memory"] = as_kept(changed, data)
        if model["memory"]["name"] != before["name"]:
            config["hardening"] = asdict(HardeningConfig())
            config["training"] = {**config["training"], **_without_noise()}
            _without_idle(model, config, change, part_of(controller or {"name": None}))
    config["model"] = model


def _changed(
    before: Mapping[str, Any], data: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A memory or controller with its options; `others` has initial options of a new one."""
    if data.get("name", before["name"]) == before["name"]:
        chosen = {
            option
            for choice, (plain, options) in CHOSEN_BY.items()
            if choice in data and str(data[choice]) != str(before.get(choice, plain))
            for option in options
        }
        return {**{name: before[name] for name in before if name not in chosen}, **data}
    return {"name": data["name"], **others.get(data["name"], {}), **data}


def as_kept(memory: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Normalise a memory's options, so that equal options give the same run.

    An option that is null in `data` and cannot be null is dropped, which gives the default. A
    variant is a string, even if YAML or a shell reads a year as a number.
    """
    choices = {name: str(memory[name]) for name in CHOSEN_BY if type(memory.get(name)) is int}
    memory = memory | choices
    if None not in data.values():
        return memory
    from unbounded.memories import MEMORIES  # imports torch, which few presets need

    factory = MEMORIES.get(memory["name"])
    own = {} if factory is None else inspect.signature(factory, eval_str=True).parameters
    taken_back = {
        name
        for name, value in data.items()
        if value is None and name in own and not _takes_none(own[name].annotation)
    }
    return {name: value for name, value in memory.items() if name not in taken_back}


def _takes_none(annotation: Any) -> bool:
    return annotation is Any or type(None) in get_args(annotation)


def _without_idle(
    model: dict[str, Any],
    config: dict[str, Any],
    change: Mapping[str, Any],
    controller: Mapping[str, Any],
) -> None:
    """Reset options that a new memory makes meaningless, unless the change sets them."""
    name = model["memory"]["name"]
    if name == NO_MEMORY:
        if "readout_size" not in change:
            model["readout_size"] = None
        if "output_read_vector" not in change:
            model["output_read_vector"] = False
        if "recurrent" not in controller:
            model["controller"] = {
                key: value for key, value in model["controller"].items() if key != "recurrent"
            }
    elif "capacity" not in model["memory"]:
        config["evaluation"]["carry_state"] = False
