"""Select trials of a study by task, model or cell, and by config values."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import yaml

from unbounded.checks import check_choice
from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.trials.paper_studies import Study
from unbounded.experiments.trials.trial import Trial
from unbounded.kernels import PRECISIONS

DEVICES = ("auto", "cpu", "cuda")


def select(study: Study, only: str | None, where: str | Sequence[str] = ()) -> tuple[Trial, ...]:
    """The trials of one task ("copy"), one model ("queue") or one cell ("copy/queue"), or all.

    Trials without their corpus are omitted.

    Args:
        study: the study.
        only: the task, model or cell; None for all. A name may be shortened to a beginning that no
            other name has.
        where: conditions FIELD=VALUE or FIELD=VALUE,VALUE on a trial's config, such as
            "model.hidden_size=50,100" or "seed=1". "null" also matches missing fields.
    Raises:
        ChoiceError: the study has no such task, model or cell.
        ConfigError: a shortened name has several meanings, no trial matches `where`, or all of them
            lack their corpus.
    """
    tasks = {trial.task for trial in study.trials}
    models = {trial.model for trial in study.trials}
    fitting = [] if only is None else _fitting_names(only, tasks, models, study.cells)
    part = fitting[0] if len(fitting) == 1 else only
    trials = tuple(
        trial for trial in study.trials if part in (None, trial.cell, trial.task, trial.model)
    )
    if not trials:
        if len(fitting) > 1:
            raise ConfigError(f"only: {only!r} may mean {' or '.join(fitting)}; give more of it")
        raise ChoiceError(
            f"part of study {study.name}",
            only,
            {*tasks, *models, *study.cells},
            f"Valid: a task, a model or TASK/MODEL.\n  tasks: {', '.join(sorted(tasks))}"
            f"\n  models: {', '.join(sorted(models))}",
        )
    for condition in [where] if isinstance(where, str) else where:
        trials = _fitting(study, trials, condition)
    ready = tuple(trial for trial in trials if not trial.lacks_data)
    if not ready:
        what = ", ".join(sorted({trial.task for trial in trials}))
        raise ConfigError(f"data: {what} needs the folder of its corpus; give --data DIR")
    return ready


def _fitting_names(
    only: str, tasks: Collection[str], models: Collection[str], cells: Collection[str]
) -> list[str]:
    """The tasks, models or cells that a shortened name may mean."""
    task, slash, model = only.partition("/")
    if not slash:
        return _longer(task, {*tasks, *models})
    pairs = [(first, second) for first in _longer(task, tasks) for second in _longer(model, models)]
    return [cell for first, second in pairs if (cell := f"{first}/{second}") in cells]


def _longer(name: str, names: Collection[str]) -> list[str]:
    """The names that begin with a name; this name alone if it is among them."""
    if name in names:
        return [name]
    return sorted(each for each in names if name and each.startswith(name))


def on_hardware(
    trials: Sequence[Trial], device: str | None = None, precision: str | None = None
) -> tuple[Trial, ...]:
    """Return the same trials for another device or another precision of float32 products.

    Device and precision are not part of a trial's identity, but its report has both.

    Args:
        device: auto, cpu or cuda; None leaves it unchanged.
        precision: highest, high or medium; None leaves it unchanged.
    Raises:
        ChoiceError: unknown device or precision.
        ConfigError: CUDA is requested and missing.
    """
    for what, choice, known in (
        ("device", device, DEVICES),
        ("precision", precision, PRECISIONS),
    ):
        if choice is not None:
            check_choice(what, choice, known)
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda was asked for and torch finds no CUDA device")

    options: dict[str, Any] = {"device": device, "matmul_precision": precision}
    given = {name: value for name, value in options.items() if value is not None}
    return tuple(
        replace(
            trial, config=replace(trial.config, hardware=replace(trial.config.hardware, **given))
        )
        for trial in trials
    )


def _fitting(study: Study, trials: Sequence[Trial], condition: str) -> tuple[Trial, ...]:
    """The trials that match one FIELD=VALUES. A trial of the study must have the field."""
    name, equals, text = condition.partition("=")
    name = name.strip()
    # A list is one value, so its commas do not separate values.
    parts = [text] if text.strip().startswith("[") else text.split(",")
    if not equals or not name or not all(part.strip() for part in parts):
        raise ConfigError(f"where: expected FIELD=VALUE or FIELD=VALUE,VALUE, got {condition!r}")
    known = {field for trial in study.trials for field in _leaves(to_dict(trial.config))}
    if name not in known:
        raise ChoiceError("field under where", name, known)
    try:
        expected = [_exact(plain_yaml.load(part)) for part in parts]
    except yaml.YAMLError:
        raise ConfigError(f"where: {condition}: {text!r} is not a value") from None
    values = [_leaves(to_dict(trial.config)).get(name) for trial in trials]
    fitting = [trial for trial, v in zip(trials, values, strict=True) if _exact(v) in expected]
    if not fitting:
        present = ", ".join(dict.fromkeys(json.dumps(value) for value in values))
        others = (
            " in the trials that match the other conditions"
            if len(trials) < len(study.trials)
            else ""
        )
        raise ConfigError(f"where: no trial has {condition}; {name} is {present}{others}")
    return tuple(fitting)


def _exact(value: Any) -> tuple[bool, Any]:
    """A key that distinguishes booleans from numbers: 1 is not true."""
    return isinstance(value, bool), value


def _leaves(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings: {"model.hidden_size": 50} from {"model": {"hidden_size": 50}}."""
    leaves: dict[str, Any] = {}
    if prefix and "name" in data:  # a component is represented by its name
        leaves[prefix.removesuffix(".")] = data["name"]
    for key, value in data.items():
        inner = isinstance(value, Mapping) and value
        leaves.update(_leaves(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value})
    return leaves
