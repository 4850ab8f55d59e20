"""The papers' studies: the trials that reproduce a table, from the data files in `studies/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config.compose import PARTS
from unbounded.experiments.tables.published import Published, published, read_data
from unbounded.experiments.trials.grid import Grid, Rule, Value, grid_runs
from unbounded.experiments.trials.trial import Trial

#: Names of the grid lists of a study, and the config option that each list varies.
_GRIDS = {
    "hidden_sizes": "model.hidden_size",
    "layers": "model.controller",
    "learning_rates": "training.learning_rate",
    "clips": "training.clip",
    "batch_sizes": "training.batch_size",
    "output_initializations": "model.output_initialization",
    "symbol_initializations": "model.symbol_initialization",
    "schedules": "training.schedule",
}


@dataclass(frozen=True)
class Study:
    """A part of a paper's experiments, as a set of trials.

    Fields:
        paper, name: the paper, and the study's name.
        about: one line on what it omits.
        trials: all its runs.
        verify: whether to verify runs after training.
        extract: tasks for whose hardened runs to extract the automaton.
    """

    paper: str
    name: str
    about: str
    trials: tuple[Trial, ...]
    verify: bool = False
    extract: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the study's table, in order."""
        return tuple(dict.fromkeys(trial.cell for trial in self.trials))


def load_study(paper: str, name: str, data: str | None = None) -> Study:
    """Load a study with its trials.

    Args:
        paper, name: the paper, and the study's name.
        data: folder of the corpus, if a task needs one; None skips the training of these tasks.
    Raises:
        ChoiceError: unknown paper or study.
    """
    studies = read_data("studies", paper)
    if name not in studies:
        raise ChoiceError("study", name, studies)
    return make_study(paper, name, studies[name], data)


def make_study(paper: str, name: str, data: dict[str, Any], corpus: str | None = None) -> Study:
    """Build the trials of a study's data: tasks x models x grid x seeds.

    A trial's config combines, in rising precedence, the settings of study, model, cell and grid.
    The config starts from the task's preset if the study has `preset: true` (with `protocol`).

    Args:
        paper, name: the paper, and the study's name.
        data: the fields about, tasks, models and seeds, and optionally

            - hidden_sizes, layers, learning_rates, clips, batch_sizes, output_initializations,
              symbol_initializations, schedules: lists of the grid;
            - batches, preset, protocol and any of PARTS;
            - cells: a pattern such as "copy/queue" or "*/queue" -> lists, batches, protocol and
              PARTS of the matching cells, where later patterns take precedence; or grids, which
              are alternatives of such lists;
            - skip: patterns of cells to omit;
            - needs_data: tasks that need a corpus;
            - verify: true to verify each run; in a cell, options such as {count: 1000};
            - extract: tasks whose automata are extracted.
        corpus: folder of a corpus.
    Raises:
        ConfigError: unknown cells, or missing or unknown fields; lists all errors.
    """
    values = published(paper)
    models = values.models
    errors = _errors(name, data, models)
    if errors:
        raise ConfigError(errors)
    grid = _grid(data, values)
    needing, verified = data.get("needs_data", ()), data.get("verify", False)
    trials: list[Trial] = []
    for run in grid_runs(grid, tuple(_GRIDS.values())):
        task, model = run.labels["task"], run.labels["model"]
        if task in needing:
            run.config.hardware.data = corpus
        lacks_data = task in needing and corpus is None
        options = run.verify if verified else None
        trials.append(Trial(task, model, run.config, models[model].phase, lacks_data, options))
    counted = Counter(trial.key for trial in trials)
    twice = [f"study {name!r}: {key} occurs twice" for key, n in counted.items() if n > 1]
    if twice:
        raise ConfigError(twice)
    verify, extract = bool(data.get("verify", False)), tuple(data.get("extract", ()))
    return Study(paper, name, data["about"], tuple(trials), verify, extract)


def _errors(name: str, data: Mapping[str, Any], models: Container[str]) -> list[str]:
    """All errors of a study's data, one line each."""
    errors = [
        f"study {name!r}: {field} is missing"
        for field in ("about", "tasks", "models", "seeds")
        if field not in data
    ]
    tasks, chosen = data.get("tasks", []), data.get("models", [])
    cells = {f"{task}/{model}" for task, model in product(tasks, chosen)}
    known = {*_GRIDS, *PARTS, "seeds", "batches", "protocol", "verify"}
    named = {*known, "about", "tasks", "models", "cells", "skip", "needs_data", "preset", "extract"}
    errors += [f"study {name!r}: unknown field {field!r}" for field in data if field not in named]
    errors += [
        f"study {name!r}: {task!r} under extract is not one of its tasks"
        for task in data.get("extract", ())
        if task not in data.get("tasks", ())
    ]
    for where in ("cells", "skip"):
        errors += [
            f"study {name!r}: {pattern!r} under {where} is not one of its tasks and models"
            for pattern in sorted(data.get(where, ()))
            if not any(fnmatchcase(cell, pattern) for cell in cells)
        ]
    errors += [
        f"study {name!r}: unknown field {field!r} of cell {cell!r}"
        for cell, fields in data.get("cells", {}).items()
        for field in fields
        if field not in {*known, "grids"}
    ]
    for where, fields in {"": data, **data.get("cells", {})}.items():
        errors += _list_errors(f"study {name!r}{where and f', cell {where!r}'}", fields)
    errors += [
        f"study {name!r}: unknown model {model!r}" for model in chosen if model not in models
    ]
    return errors


def _list_errors(where: str, fields: Mapping[str, Any]) -> list[str]:
    """Errors of grid lists, and of the grids of a cell."""
    lists = {*_GRIDS, "seeds"}
    errors = [
        f"{where}: {name}: expected a list of one or more, got {fields[name]!r}"
        for name in sorted(lists & fields.keys())
        if not isinstance(fields[name], list) or not fields[name]
    ]
    if "grids" not in fields:
        return errors
    grids = fields["grids"]
    if not isinstance(grids, list) or not grids or not all(isinstance(one, dict) for one in grids):
        expected = "expected a list of one or more mappings from fields to lists"
        return [*errors, f"{where}: grids: {expected}, got {grids!r}"]
    for one in grids:
        unknown = sorted(one.keys() - lists)
        errors += [f"{where}: unknown field {field!r} in grids" for field in unknown]
        errors += _list_errors(f"{where}, grids", {key: one[key] for key in lists & one.keys()})
    return errors


def _grid(data: Mapping[str, Any], values: Published) -> Grid:
    """The grid of a study's data: tasks x models, and rules for patterns of "task/model"."""
    rules = [
        Rule(
            _where(pattern),
            _changes(fields),
            _options(fields),
            fields.get("seeds"),
            [(_options(one), one.get("seeds")) for one in fields.get("grids", ())],
            fields.get("protocol", False),
            fields.get("verify", {}),
        )
        for pattern, fields in data.get("cells", {}).items()
    ]
    components = values.components
    return Grid(
        outer={
            "task": [
                Value(task, {"task": components[task]} if task in components else {})
                for task in data["tasks"]
            ],
            "model": [
                Value(model, _changes(values.models[model].settings)) for model in data["models"]
            ],
        },
        options=_options(data),
        seeds=data["seeds"],
        change=_changes(data),
        exclude=[_where(pattern) for pattern in data.get("skip", ())],
        rules=rules,
        preset=data.get("preset", False),
        protocol=data.get("protocol"),
    )


def _where(pattern: str) -> dict[str, list[str]]:
    """The condition of a pattern such as "copy/queue" or "*"."""
    task, slash, model = pattern.partition("/")
    return {"task": [task], "model": [model]} if slash else {"task": [pattern]}


def _options(fields: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The lists of a grid, by option."""
    lists = {option: fields[name] for name, option in _GRIDS.items() if name in fields}
    if "layers" in fields:
        # Only the deep LSTM has this option. Other controllers have one layer.
        layers = [{} if number == 1 else {"num_layers": number} for number in fields["layers"]]
        lists["model.controller"] = layers
    return lists


def _changes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The config sections in a study's settings, with `batches` moved into its section."""
    parts = {part: settings[part] for part in PARTS if part in settings}
    if "batches" not in settings:
        return parts
    return {**parts, "training": {**parts.get("training", {}), "batches": settings["batches"]}}
