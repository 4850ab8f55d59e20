"""How a config is put together: the preset, what changes it, and what a change takes with it."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Container, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, get_args

from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.presets import preset_paths
from unbounded.experiments.config.schema import RoundingConfig, RunConfig, TrainingConfig, to_dict
from unbounded.own_parts import NO_MEMORY, part_of

#: The parts of a config that a preset, a tier or a model of a paper may set.
PARTS: Final = ("task_options", "model", "training", "rounding", "evaluation")

#: Choices of the training, and the options that go with one of them.
OPTIONS_OF: Final = {
    "optimizer": ("optimizer_options", "epsilon"),
    "schedule": ("tail_batches",),
    "stop": ("validation_share", "converged_perplexity", "converged_reports"),
    "curriculum": ("curriculum_every", "curriculum_below", "curriculum_first"),
}
#: The option of a memory that chooses for others: what it is when nothing is said, and those.
CHOSEN_BY: Final = {"variant": ("2016", ("step", "action_gate"))}
#: What sharpens decisions in training, and is meant for one memory.
_SHARPNESS: Final = ("random_sharpness", "random_sharpness_units", "random_sharpness_below")
# Streams go on for thousands of symbols: cells in superposition get the authors' capacity there.
_BOUNDED: Final[dict[str, dict[str, Any]]] = {
    "superposition_stack": {"capacity": 200, "overflow": "drop_bottom"},
    "superposition_list": {"capacity": 200, "overflow": "drop_ends"},
}


def preset_of(task: str, protocol: str | None = None) -> dict[str, Any]:
    """The config of a task's preset, as plain data; the general defaults where it has none.

    Args:
        task: a name, or an import path.
        protocol: one of PROTOCOLS, whose file changes the preset.
    """
    base = to_dict(RunConfig(task=task))
    for path in preset_paths(task, protocol):
        base = merged(base, _preset_file(path))
    return base


@functools.cache
def _preset_file(path: Path) -> dict[str, Any]:
    """A file of the package, read once: a plan asks for a preset with each of its trials."""
    data: dict[str, Any] = plain_yaml.load(path.read_text(encoding="utf-8"))
    return data


def merged(
    base: Mapping[str, Any], *changes: Mapping[str, Any], whole: Container[str] = ()
) -> dict[str, Any]:
    """A config with what `changes` set in it, the last one last.

    Those of "memory" and "controller" that are in `whole` have the options that a change gives
    them, and no other. All else:

    Another memory or controller than before has none of the options of the old one, and another
    memory neither the hardening nor the sharpness in training that was meant for it. Another
    variant of a memory makes its choices anew, and units without a bound are not sharpened in
    training. Null takes back what was said of an option of the task, and of one of a memory that
    cannot be null. Embeddings that are asked for take the place of bits. Without a memory there is
    no readout, and an Elman controller is recurrent. A memory that grows does not go on from one
    length to the next in scoring, if nobody asked for that. Another optimizer, schedule, stop rule
    or curriculum than before has none of the options of the old one, and hardening with another
    optimizer not the learning rate that was meant for the old one.
    """
    result = copy.deepcopy(dict(base))
    for change in changes:
        for part in PARTS:
            own = copy.deepcopy(dict(change.get(part) or {}))
            if part == "model":
                _change_model(result, own, whole)
                continue
            is_other = part == "training" and _is_other(result, own, "optimizer")
            if is_other and result["rounding"]["optimizer"] is None:
                result["rounding"] = {**result["rounding"], "learning_rate": None}
            result[part] = {**result.get(part, {}), **_without_others(result, part, own), **own}
            if part == "task_options":
                result[part] = _said(result[part])
    return result


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _without_others(
    config: Mapping[str, Any], part: str, change: Mapping[str, Any]
) -> dict[str, Any]:
    """Defaults for the options of an optimizer, schedule or curriculum that is another now."""
    if part != "training":
        return {}
    plain = asdict(TrainingConfig())
    options = [each for choice, each in OPTIONS_OF.items() if _is_other(config, change, choice)]
    found = {name: plain[name] for names in options for name in names}
    if change.get("random_sharpness") == 1:
        found |= _not_sharpened()
    # Lengths that change with what is learned cannot be dealt ahead.
    return found | ({"deal": 1} if change.get("curriculum") == "doubling" else {})


def _not_sharpened() -> dict[str, Any]:
    plain = asdict(TrainingConfig())
    return {name: plain[name] for name in _SHARPNESS}


def _is_other(config: Mapping[str, Any], change: Mapping[str, Any], choice: str) -> bool:
    """Whether a change of the training makes another choice than before."""
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
            config["training"] = {**config["training"], "random_sharpness_units": 1}
    if memory is not None:
        before, data = model["memory"], part_of(memory)
        bounds = _BOUNDED if config["training"]["piece_steps"] is not None else {}
        changed = dict(data) if "memory" in whole else _changed(before, data, bounds)
        model["memory"] = as_kept(changed, data)
        if model["memory"]["name"] != before["name"]:
            config["rounding"] = asdict(RoundingConfig())
            config["training"] = {**config["training"], **_not_sharpened()}
            _without_idle(model, config, change, part_of(controller or {"name": None}))
    config["model"] = model


def _changed(
    before: Mapping[str, Any], data: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A part with its options; `others` has what one gets that replaces another."""
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
    """A memory's options as a config keeps them, so that the same words make the same run.

    An option that is null in `data` and cannot be null is left out: it is the memory's own. What
    chooses for others is a name, also where YAML and a shell read a year as a number.
    """
    choices = {name: str(memory[name]) for name in CHOSEN_BY if type(memory.get(name)) is int}
    memory = memory | choices
    if None not in data.values():
        return memory
    from unbounded.memories import MEMORIES  # brings torch, which few presets need

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
    """Take away what another memory leaves without a meaning, unless it is asked for now."""
    name = model["memory"]["name"]
    if name == NO_MEMORY:
        if "readout_size" not in change:
            model["readout_size"] = None
        if "output_reading" not in change:
            model["output_reading"] = False
        if "recurrent" not in controller:
            model["controller"] = {
                key: value for key, value in model["controller"].items() if key != "recurrent"
            }
    elif "capacity" not in model["memory"]:
        config["evaluation"]["carry"] = False
