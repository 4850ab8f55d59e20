"""Tiers: which trials reproduce a paper's table, as data, and the config of each trial."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from typing import Any

from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config.compose import PARTS, merged, preset_of
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig, from_dict, to_dict
from unbounded.experiments.config.steady import last_steady, steady
from unbounded.experiments.tables.published import published, read_data

#: Lists of a tier with the field of the config that takes their values.
_GRIDS = {
    "hidden_sizes": ("model", "hidden_size"),
    "layers": ("model", "controller"),
    "learning_rates": ("training", "learning_rate"),
    "clips": ("training", "clip"),
    "batch_sizes": ("training", "batch_size"),
    "output_initializations": ("model", "output_initialization"),
    "symbol_initializations": ("model", "symbol_initialization"),
}


@dataclass(frozen=True)
class Trial:
    """One run of a tier.

    Fields:
        task, model: names as in the published table.
        config: what is trained; its hash and seed name the run folder.
        phase: "trained", or "rounded" for what the run is after rounding.
        lacks_data: whether it cannot be trained, for want of a corpus.
        verify: options of its verification that are not the usual ones; None where it is not
            verified.
        keep_at: batches whose checkpoint stays, for another trial that begins as this one does.
    """

    task: str
    model: str
    config: RunConfig
    phase: str = "trained"
    lacks_data: bool = False
    verify: Mapping[str, Any] | None = None
    keep_at: tuple[int, ...] = ()

    @property
    def cell(self) -> str:
        """The cell of the table this trial belongs to, "task/model"."""
        return f"{self.task}/{self.model}"

    @cached_property
    def name(self) -> str:
        """The name of its run folder; two phases of one run share it."""
        return run_name(self.config)

    @property
    def key(self) -> str:
        """What no other trial of a tier has."""
        return f"{self.cell}/{self.name}"


@dataclass(frozen=True)
class Tier:
    """A part of a paper's experiments that one machine can do.

    Fields:
        paper, name: which tier this is.
        about: what it leaves out, in a line.
        trials: every run of it.
        verify: whether a run is verified when it is trained.
        extract: tasks of whose hardened runs the machine is extracted.
    """

    paper: str
    name: str
    about: str
    trials: tuple[Trial, ...]
    verify: bool = False
    extract: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its table, in order."""
        return tuple(dict.fromkeys(trial.cell for trial in self.trials))


def load_tier(paper: str, name: str, data: str | None = None) -> Tier:
    """Read a tier and lay out its trials.

    Args:
        paper, name: of the tier.
        data: folder of the paper's corpus, where a task needs one; None leaves these tasks
            untrained.
    Raises:
        ChoiceError: no such paper or no such tier of it.
    """
    tiers = read_data("tiers", paper)
    if name not in tiers:
        raise ChoiceError("tier", name, tiers)
    return make_tier(paper, name, tiers[name], data)


def make_tier(paper: str, name: str, data: dict[str, Any], corpus: str | None = None) -> Tier:
    """Lay out the trials that a tier's data describes: tasks x models x grid x seeds.

    What a trial's config holds comes, in rising precedence, from the task's preset if the tier has
    `preset: true` (and from `protocol`), from the tier, the model, the cell, and the grid.

    Args:
        paper, name: of the tier.
        data: about, tasks, models, seeds; optionally hidden_sizes, layers, learning_rates, clips,
            batch_sizes, output_initializations, symbol_initializations, batches, preset, protocol,
            any of PARTS, and cells (a pattern
            such as "copy/queue" or "*/queue" -> the lists, batches, protocol and PARTS for the
            cells that it fits, the last one last; or grids, each of other such lists, one after the
            other), skip (patterns of cells that are left out), needs_data (tasks that need a
            corpus), verify (true to verify each run; of a cell, options such as {count: 1000}) and
            extract (tasks whose machines are extracted).
        corpus: folder of a corpus.
    Raises:
        ConfigError: a cell is not of the tier, or a field is missing or unknown; all faults
            together.
    """
    models = published(paper).models
    faults = _faults(name, data, models)
    if faults:
        raise ConfigError(faults)
    trials: list[Trial] = []
    for task, model in product(data["tasks"], data["models"]):
        cell = f"{task}/{model}"
        needs = task in data.get("needs_data", ())
        skipped = any(fnmatchcase(cell, pattern) for pattern in data.get("skip", ()))
        if skipped:
            continue
        own = [
            each for pattern, each in data.get("cells", {}).items() if fnmatchcase(cell, pattern)
        ]
        settings = [data, models[model].settings, *own]
        lists = {key: value for each in (data, *own) for key, value in each.items()}
        base = merged(_base(task, lists), *map(_with_batches, settings))
        if needs:
            base["machine"]["data"] = corpus
        phase = models[model].phase
        lacks = needs and corpus is None
        options: dict[str, Any] | None = None
        if data.get("verify", False):
            options = {key: value for each in own for key, value in each.get("verify", {}).items()}
        grids = [{**lists, **one} for one in lists.get("grids", [{}])]
        configs = (config for one in grids for config in _grid(base, one))
        trials += [Trial(task, model, config, phase, lacks, options) for config in configs]
    counted = Counter(trial.key for trial in trials)
    twice = [f"tier {name!r}: {key} is there twice" for key, n in counted.items() if n > 1]
    if twice:
        raise ConfigError(twice)
    trials = _keeping(trials)
    verify, extract = bool(data.get("verify", False)), tuple(data.get("extract", ()))
    return Tier(paper, name, data["about"], tuple(trials), verify, extract)


def _faults(name: str, data: Mapping[str, Any], models: Container[str]) -> list[str]:
    """What is wrong with a tier's data, a line each."""
    faults = [
        f"tier {name!r}: {field} is missing"
        for field in ("about", "tasks", "models", "seeds")
        if field not in data
    ]
    tasks, chosen = data.get("tasks", []), data.get("models", [])
    cells = {f"{task}/{model}" for task, model in product(tasks, chosen)}
    known = {*_GRIDS, *PARTS, "seeds", "batches", "protocol", "verify"}
    named = {*known, "about", "tasks", "models", "cells", "skip", "needs_data", "preset", "extract"}
    faults += [f"tier {name!r}: unknown field {each!r}" for each in data if each not in named]
    faults += [
        f"tier {name!r}: {task!r} under extract is not one of its tasks"
        for task in data.get("extract", ())
        if task not in data.get("tasks", ())
    ]
    for where in ("cells", "skip"):
        faults += [
            f"tier {name!r}: {pattern!r} under {where} is not one of its tasks and models"
            for pattern in sorted(data.get(where, ()))
            if not any(fnmatchcase(cell, pattern) for cell in cells)
        ]
    faults += [
        f"tier {name!r}: unknown field {field!r} of cell {cell!r}"
        for cell, fields in data.get("cells", {}).items()
        for field in fields
        if field not in {*known, "grids"}
    ]
    for where, fields in {"": data, **data.get("cells", {})}.items():
        faults += _list_faults(f"tier {name!r}{where and f', cell {where!r}'}", fields)
    faults += [f"tier {name!r}: unknown model {each!r}" for each in chosen if each not in models]
    return faults


def _list_faults(where: str, fields: Mapping[str, Any]) -> list[str]:
    """What is wrong with the lists of a grid, and with the grids of a cell."""
    lists = {*_GRIDS, "seeds"}
    faults = [
        f"{where}: {name}: expected a list of one or more, got {fields[name]!r}"
        for name in sorted(lists & fields.keys())
        if not isinstance(fields[name], list) or not fields[name]
    ]
    if "grids" not in fields:
        return faults
    grids = fields["grids"]
    if not isinstance(grids, list) or not grids or not all(isinstance(one, dict) for one in grids):
        expected = "expected a list of one or more, each of fields and their lists"
        return [*faults, f"{where}: grids: {expected}, got {grids!r}"]
    for one in grids:
        unknown = sorted(one.keys() - lists)
        faults += [f"{where}: unknown field {field!r} in grids" for field in unknown]
        faults += _list_faults(f"{where}, grids", {key: one[key] for key in lists & one.keys()})
    return faults


def _keeping(trials: Sequence[Trial]) -> list[Trial]:
    """The trials, each with the batches at which another begins as it does (run/beginning.py)."""
    at: dict[str, set[int]] = {}
    for trial in trials:
        other, batch = steady(trial.config), last_steady(trial.config)
        if other is not None and batch is not None:
            at.setdefault(run_name(other), set()).add(batch)
    return [replace(trial, keep_at=tuple(sorted(at.get(trial.name, ())))) for trial in trials]


def _base(task: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a task before model, tier and cell have their say."""
    if not data.get("preset", False):
        return to_dict(RunConfig(task=task))
    return preset_of(task, data.get("protocol"))


def _with_batches(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with their `batches` in the place that a config has for them."""
    if "batches" not in settings:
        return dict(settings)
    training = {**settings.get("training", {}), "batches": settings["batches"]}
    return {**settings, "training": training}


def _grid(base: dict[str, Any], settings: Mapping[str, Any]) -> list[RunConfig]:
    """A config for each point of the grid and each seed."""
    lists = [
        [(place, value) for value in settings[name]]
        for name, place in _GRIDS.items()
        if name in settings
    ]
    configs = []
    for *point, seed in product(*lists, settings["seeds"]):
        data = copy.deepcopy(base)
        for (part, name), value in point:
            if name == "controller":
                # One layer is what every controller has; the option is of the deep LSTM.
                layers = {} if value == 1 else {"num_layers": value}
                data[part][name] = {**data[part][name], **layers}
            else:
                data[part][name] = value
        # One thread a trial: trials side by side use a machine better than threads in one trial.
        data["machine"]["threads"] = 1
        data["seed"] = seed
        configs.append(from_dict(data))
    return configs
