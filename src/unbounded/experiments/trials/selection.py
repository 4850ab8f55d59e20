"""Which trials of a tier are asked for: by task, model or cell, and by what their configs hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import yaml

from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.check import DEVICES
from unbounded.experiments.config.schema import MachineConfig, to_dict
from unbounded.experiments.trials.tiers import Tier, Trial
from unbounded.kernels import PRECISIONS


def select(tier: Tier, only: str | None, where: str | Sequence[str] = ()) -> tuple[Trial, ...]:
    """The trials of one task ("copy"), one model ("queue") or one cell ("copy/queue"), or all.

    Those that lack their corpus are left out.

    Args:
        tier: whose trials.
        only: the task, model or cell.
        where: each FIELD=VALUE or FIELD=VALUE,VALUE: what a trial's config has to hold, such as
            "model.hidden_size=50,100" or "seed=1". "null" is also what a config lacks.
    Raises:
        ChoiceError: the tier has none of that name.
        ConfigError: none fits `where`, or all of them lack their corpus.
    """
    trials = tuple(
        trial for trial in tier.trials if only in (None, trial.cell, trial.task, trial.model)
    )
    if not trials:
        tasks = {trial.task for trial in tier.trials}
        models = {trial.model for trial in tier.trials}
        raise ChoiceError(
            f"part of tier {tier.name}",
            only,
            {*tasks, *models, *tier.cells},
            f"Valid: a task, a model or TASK/MODEL.\n  tasks: {', '.join(sorted(tasks))}"
            f"\n  models: {', '.join(sorted(models))}",
        )
    for condition in [where] if isinstance(where, str) else where:
        trials = _fitting(tier, trials, condition)
    ready = tuple(trial for trial in trials if not trial.lacks_data)
    if not ready:
        what = ", ".join(sorted({trial.task for trial in trials}))
        raise ConfigError([f"data: {what} needs the folder of its corpus; give --data DIR"])
    return ready


def on_machine(
    trials: Sequence[Trial], device: str | None = None, precision: str | None = None
) -> tuple[Trial, ...]:
    """The same trials on another device, or their products in float32 of another precision.

    Neither is part of what a trial is, and its report says both.

    Args:
        device: auto, cpu or cuda; None leaves it as it is.
        precision: highest, high or medium; None leaves it as it is.
    Raises:
        ChoiceError: there is no such device or precision.
        ConfigError: CUDA is asked for and is not there.
    """
    _check_choice("device", device, DEVICES)
    _check_choice("precision", precision, PRECISIONS)
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(["device: cuda was asked for and torch finds no CUDA device"])

    def with_options(machine: MachineConfig) -> MachineConfig:
        return replace(
            machine,
            device=device or machine.device,
            matmul_precision=precision or machine.matmul_precision,
        )

    return tuple(
        replace(trial, config=replace(trial.config, machine=with_options(trial.config.machine)))
        for trial in trials
    )


def _check_choice(what: str, choice: str | None, known: Sequence[str]) -> None:
    if choice is not None and choice not in known:
        raise ChoiceError(what, choice, known)


def _fitting(tier: Tier, trials: Sequence[Trial], condition: str) -> tuple[Trial, ...]:
    """The trials that fit one FIELD=VALUES; the field is one of any trial of the tier."""
    name, equals, text = condition.partition("=")
    name = name.strip()
    # A list is one value: its commas divide nothing.
    parts = [text] if text.strip().startswith("[") else text.split(",")
    if not equals or not name or not all(part.strip() for part in parts):
        raise ConfigError([f"where: expected FIELD=VALUE or FIELD=VALUE,VALUE, got {condition!r}"])
    known = {field for trial in tier.trials for field in _leaves(to_dict(trial.config))}
    if name not in known:
        raise ChoiceError("field under where", name, known)
    try:
        wanted = [_exact(plain_yaml.load(part)) for part in parts]
    except yaml.YAMLError:
        raise ConfigError([f"where: {condition}: {text!r} is no value"]) from None
    values = [_leaves(to_dict(trial.config)).get(name) for trial in trials]
    fitting = [trial for trial, v in zip(trials, values, strict=True) if _exact(v) in wanted]
    if not fitting:
        there = ", ".join(dict.fromkeys(json.dumps(value) for value in values))
        others = " where the rest fits" if len(trials) < len(tier.trials) else ""
        raise ConfigError([f"where: no trial has {condition}; {name} is {there}{others}"])
    return tuple(fitting)


def _exact(value: Any) -> tuple[bool, Any]:
    """What only an equal value has that is true or false where this one is: 1 is not true."""
    return isinstance(value, bool), value


def _leaves(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"model.hidden_size": 50} of {"model": {"hidden_size": 50}}."""
    leaves: dict[str, Any] = {}
    for key, value in data.items():
        inner = isinstance(value, Mapping) and value
        leaves.update(_leaves(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value})
    return leaves
