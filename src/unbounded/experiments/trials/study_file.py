"""Read the file of a custom study: what varies, what is fixed, and what the table shows.

docs/studies.md describes the format; `unbounded study --new FILE` writes an example.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast, get_args

import yaml

from unbounded.custom_components import is_path
from unbounded.errors import ConfigError, did_you_mean, unknown
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import (
    PARTS,
    component_places,
    joined,
    nested,
    part_type_errors,
)
from unbounded.experiments.config.presets import PRESETS, PROTOCOLS
from unbounded.experiments.config.schema import all_options, is_entry, unknown_options
from unbounded.experiments.trials.grid import (
    Draw,
    DrawKind,
    Grid,
    GridRun,
    Rule,
    Value,
    grid_runs,
    is_reached,
    label_of,
    unmatched,
)
from unbounded.experiments.trials.trial import Trial
from unbounded.files import read_text

#: Keys in a study's file.
KEYS: Final = (
    "about", "preset", "protocol", "base", "budget", "axes", "draws", "seeds", "exclude", "rules",
    "select", "table", "figures", "log_with", "import", "data",
)  # fmt: skip
_RULE_KEYS: Final = ("where", "set", "axes", "seeds")
_BUDGET: Final = ("batches", "symbols", "minutes")
_DRAWS: Final = get_args(DrawKind)
#: Parts of a config that a study may set.
_SECTIONS: Final = (*PARTS, "hardware")
#: A study with more runs than this is most likely a mistake.
_MOST_RUNS: Final = 1_000_000


@dataclass(frozen=True)
class TableOptions:
    """The contents of a study's table.

    Fields:
        rows, columns: axes; without columns each metric is a column.
        metric: the metric of a table with columns; None for the first of the task.
    """

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    metric: str | None = None


@dataclass(frozen=True)
class StudyFile:
    """A custom study.

    Fields:
        name: name of the study, of its file.
        about: one line about it.
        grid: the runs.
        axes: names of the axes, in order, without the seed.
        select: axes over which the best value is chosen, by validation alone.
        table: what the table shows.
        figures: whether each run draws its figures.
        log_with: trackers that receive the metrics of each run.
        modules: modules of custom components.
        data: the file's content.
        useless: a line for each condition that matches no cell; a new study must have none.
    """

    name: str
    about: str
    grid: Grid
    axes: tuple[str, ...]
    select: tuple[str, ...] = ()
    table: TableOptions = field(default_factory=TableOptions)
    figures: bool = False
    log_with: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    useless: tuple[str, ...] = ()


def read_study(path: Path) -> StudyFile:
    """Read the file of a study.

    Raises:
        StorageError: the file cannot be read.
        ConfigError: the file is no study; lists all errors.
    """
    try:
        data = plain_yaml.load(read_text(path))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = plain_yaml.yaml_error(error) if isinstance(error, yaml.YAMLError) else f": {error}"
        raise ConfigError(f"{path} is not YAML{reason}") from error
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path}: expected a mapping with axes and seeds, got {data!r:.80}")
    try:
        return make_study_file(path.stem, data)
    except ConfigError as error:
        raise ConfigError([f"{path}: {line}" for line in error.errors]) from None


def make_study_file(name: str, data: Mapping[str, Any]) -> StudyFile:
    """Build a study from a file's content.

    Args:
        name: the study's name.
        data: the content.
    Raises:
        ConfigError: lists all errors.
    """
    reader = _Reader(data)
    study = reader.study(name)
    if reader.errors:
        raise ConfigError(reader.errors)
    return study


def study_trials(study: StudyFile) -> tuple[Trial, ...]:
    """The runs of a study.

    Raises:
        ConfigError: no run is left, two runs are the same, or a setting is not an option.
    """
    trials: list[Trial] = []
    names: dict[str, Mapping[str, Any]] = {}
    same: list[str] = []
    for run in grid_runs(study.grid):
        trial = _trial(study, run)
        if trial.name in names:
            same.append(_same(trial.axes, names[trial.name]))
        names[trial.name] = trial.axes
        trials.append(trial)
        if len(trials) > _MOST_RUNS:
            raise ConfigError(f"axes: expected at most {_MOST_RUNS} runs")
    if same:
        raise ConfigError(list(dict.fromkeys(same))[:10])
    if not trials:
        raise ConfigError("exclude: it leaves no run of the study")
    return tuple(trials)


def _trial(study: StudyFile, run: GridRun) -> Trial:
    axes = {name: run.labels[name] for name in study.axes if name in run.labels}
    axes |= {name: label for name, label in run.labels.items() if name not in axes}
    if "task" not in study.axes:
        axes.pop("task", None)
    words = [f"{name.rpartition('.')[2]}={axes[name]}" for name in axes if name != "task"]
    model = ", ".join(words) or "all"
    return Trial(str(run.config.task["name"]), model, run.config, axes=axes)


def _same(axes: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    differing = {name: value for name, value in axes.items() if before.get(name) != value}
    if not differing:
        return "seeds: expected each seed once"
    text = ", ".join(f"{name}: {value}" for name, value in axes.items())
    other = ", ".join(f"{name}: {value}" for name, value in before.items())
    return (
        f"axes: {{{text}}} and {{{other}}} are the same run, because {', '.join(differing)} has no "
        f"effect there; leave one out: exclude: [{{{text}}}]"
    )


def parse_seeds(text: str) -> list[int]:
    """Parse seeds from text: "0:10" (without 10), or "1,2,5".

    Raises:
        ConfigError: the text names no seeds.
    """
    first, colon, last = text.partition(":")
    try:
        if colon:
            seeds = list(range(int(first or 0), int(last)))
        else:
            seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0:
        raise ConfigError(f"seeds: expected seeds such as 0:10 (0 to 9) or 1,2,5, got {text!r}")
    return seeds


def option_error(name: str) -> str:
    """The error in an option's name; empty if the name itself shows no error."""
    known = [option for option in all_options() if option not in ("id", "seed")]
    if name in known:
        return ""
    if name == "seed":
        return "seed is no axis, because every cell has all seeds; give them as `seeds`"
    place = next((place for place in component_places() if name.startswith(f"{place}.")), None)
    if place is not None or is_entry(name):  # the check of the configs knows these options
        return ""
    inside = [option for option in known if option.startswith(f"{name}.")]
    if inside:
        return f"{name!r} is a section, not an option; name an option in it, such as {inside[0]}"
    hint = did_you_mean(name, known)
    return f"unknown option {name!r}.{hint} `unbounded train --help` lists the options"


def _useless(grid: Grid) -> Iterator[str]:
    """One line for each condition that has no effect."""
    named = [(f"exclude {number}", one) for number, one in enumerate(grid.exclude, 1)]
    named += [(f"rules {number}: where", one.where) for number, one in enumerate(grid.rules, 1)]
    for where, condition in named:
        lines = unmatched(grid, condition)
        yield from (f"{where}: {line}" for line in lines)
        if not lines and not is_reached(grid, condition):
            text = ", ".join(
                f"{axis}: {patterns[0] if len(patterns) == 1 else patterns}"
                for axis, patterns in condition.items()
            )
            yield (
                f"{where}: expected a condition that matches a cell, got {{{text}}}. No cell has "
                "these values together; leave the condition out, or change it"
            )


class _Reader:
    """Reads a study's content and collects its errors."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data, self.errors = data, list[str]()

    def study(self, name: str) -> StudyFile:
        data = self._data
        for key in data:
            if key not in KEYS:
                self.errors.append(unknown("unknown key", key, KEYS))
        outer, draws = self._axes(self._mapping("axes"))
        task = self._task(outer)
        rules = [self._rule(number, rule) for number, rule in enumerate(self._list("rules"), 1)]
        exclude = self._list("exclude")
        conditions = [self._where(f"exclude {n}", one) for n, one in enumerate(exclude, 1)]
        inner = {option for rule in rules for option in rule.options}
        for number, rule in enumerate(rules, 1):
            self.errors += [
                f"rules {number}: {axis} is {'drawn' if axis in draws else 'an axis of a rule'}, "
                "so that no rule can refer to it"
                for axis in rule.where
                if axis in draws or axis in inner - set(outer)
            ]
            self.errors += [
                f"rules {number}: {axis} is an axis of the study; leave it out"
                for axis in rule.options
                if axis in self._mapping("axes")
            ]
        axes = [axis for axis in self._mapping("axes") if axis in (*outer, *draws)]
        named = [*axes, *(option for rule in rules for option in rule.options)]
        self._check_twice(outer, draws)
        for where, conditions_of in (
            ("exclude", conditions),
            ("rules", [rule.where for rule in rules]),
        ):
            for condition in conditions_of:
                for axis in condition:
                    if axis not in named:
                        hint = did_you_mean(axis, named)
                        axes_text = ", ".join(named) or "none"
                        self.errors.append(
                            f"{where}: {axis!r} is no axis.{hint} Axes: {axes_text}."
                        )
        count, seed = self._draws(bool(draws))
        grid = Grid(
            outer={"task": [Value(task, {})], **outer} if "task" not in outer else outer,
            draws=draws,
            draw_count=count,
            draw_seed=seed,
            seeds=self._seeds(data.get("seeds", [1]), "seeds"),
            change=self._base(),
            exclude=conditions,
            rules=rules,
            protocol=self._protocol(),
        )
        # Drawn options form a search, so the best point is chosen, unless the file sets `select`.
        select = self._axis_names("select", data.get("select", list(draws)), named)
        return StudyFile(
            name,
            str(data.get("about", "")),
            grid,
            tuple(dict.fromkeys(named)),
            select,
            self._table(named),
            self._flag("figures"),
            self._names("log_with"),
            self._names("import"),
            dict(data),
            tuple(_useless(grid)),
        )

    def _mapping(self, key: str) -> Mapping[str, Any]:
        value = self._data.get(key) or {}
        if isinstance(value, Mapping):
            return value
        if key in self._data:
            self._once(f"{key}: expected a mapping, got {value!r:.80}")
        return {}

    def _list(self, key: str) -> list[Any]:
        value = self._data.get(key) or []
        if isinstance(value, list):
            return value
        self._once(f"{key}: expected a list, got {value!r:.80}")
        return []

    def _once(self, error: str) -> None:
        if error not in self.errors:
            self.errors.append(error)

    def _names(self, key: str) -> tuple[str, ...]:
        value = self._data.get(key) or []
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return tuple(value)
        self._once(f"{key}: expected a list of names, got {value!r:.80}")
        return ()

    def _flag(self, key: str) -> bool:
        value = self._data.get(key, False)
        if not isinstance(value, bool):
            self._once(f"{key}: expected true or false, got {value!r:.80}")
        return value is True

    def _axes(self, axes: Mapping[str, Any]) -> tuple[dict[str, list[Value]], dict[str, Draw]]:
        outer: dict[str, list[Value]] = {}
        draws: dict[str, Draw] = {}
        for name, values in axes.items():
            if name == "task":
                if self._is_list(name, values):
                    outer[name] = [Value(self._task_name(task), {}) for task in values]
            elif isinstance(values, Mapping) and len(values) == 1 and next(iter(values)) in _DRAWS:
                error = option_error(name)
                drawn = self._draw(name, *next(iter(values.items())))
                if error:
                    self.errors.append(f"axes: {error}")
                elif drawn is not None:
                    draws[name] = drawn
                    self._check_parts("axes", [nested(name, value) for value in drawn.values])
            elif isinstance(values, Mapping):
                outer[name] = self._settings(name, values)
            elif error := option_error(name):
                settings = (
                    ". An axis with a name of its own has settings by name: "
                    f"{name}: {{small: {{model: {{hidden_size: 8}}}}, ...}}"
                )
                self.errors.append(f"axes: {error}{settings * ('unknown' in error)}")
            elif self._is_list(name, values):
                outer[name] = [Value(label_of(v), nested(name, v)) for v in values]
                self._check_parts("axes", [value.change for value in outer[name]])
        return outer, draws

    def _is_list(self, name: str, values: Any) -> bool:
        if isinstance(values, list) and values:
            labels = [repr(label_of(value)) for value in values]
            if len(set(labels)) < len(labels):
                self.errors.append(f"axes: {name}: expected each value once, got {values!r:.80}")
            return True
        kinds = ", ".join(_DRAWS)
        self.errors.append(
            f"axes: {name}: expected a list of values, or a draw ({kinds}), got {values!r:.80}"
        )
        return False

    def _settings(self, name: str, values: Mapping[str, Any]) -> list[Value]:
        """The values of an axis that is not an option: names with settings."""
        if not option_error(name) and name != "task":
            self.errors.append(
                f"axes: {name}: expected a list of values, or one of {', '.join(_DRAWS)}, got "
                f"{dict(values)!r:.80}"
            )
            return []
        result = []
        for label, settings in values.items():
            where = f"axes: {name}: {label}"
            if not isinstance(settings, Mapping):
                self.errors.append(f"{where}: expected settings, got {settings!r:.80}")
                continue
            change = _expanded(settings)
            self._check_settings(where, change)
            result.append(Value(label, change))
        return result

    def _check_settings(self, where: str, settings: Mapping[str, Any]) -> None:
        for section, value in settings.items():
            if section not in _SECTIONS:
                self.errors.append(unknown(f"{where}: unknown section", section, _SECTIONS))
            elif section in ("model", "training", "hardware"):
                self.errors += [f"{where}: {line}" for line in unknown_options({section: value})]
        self._check_parts(where, [settings])

    def _check_parts(self, where: str, changes: Iterable[Mapping[str, Any]]) -> None:
        """Append an error for each component that is neither a name nor a mapping."""
        for change in changes:
            self.errors += [f"{where}: {line}" for line in part_type_errors(change)]

    def _draw(self, name: str, kind: str, values: Any) -> Draw | None:
        where = f"axes: {name}: {kind}"
        if not isinstance(values, list) or not values:
            self.errors.append(f"{where}: expected a list, got {values!r:.80}")
            return None
        if kind != "choice":
            of_kind = [type(value) is int or (kind != "integers" and type(value) is float)
                       for value in values]  # fmt: skip
            if len(values) != 2 or not all(of_kind) or not values[0] < values[1]:
                number = "integers" if kind == "integers" else "numbers"
                self.errors.append(
                    f"{where}: expected two {number}, the lower one first, got {values!r:.80}"
                )
                return None
            if kind == "log_uniform" and (values[0] <= 0 or not math.isfinite(values[1])):
                self.errors.append(f"{where}: expected numbers above 0, got {values!r:.80}")
                return None
        return Draw(cast(DrawKind, kind), tuple(values))

    def _draws(self, is_drawn: bool) -> tuple[int, int]:
        draws = self._data.get("draws")
        if draws is None:
            if is_drawn:
                self.errors.append("draws: expected the number of points, as in draws: {count: 20}")
            return 0, 0
        if type(draws) is int:
            draws = {"count": draws}
        is_sound = isinstance(draws, Mapping) and set(draws) <= {"count", "seed"}
        count = draws.get("count") if is_sound else None
        seed = draws.get("seed", 0) if is_sound else 0
        if type(count) is not int or count < 1 or type(seed) is not int:
            self.errors.append(f"draws: expected {{count: 20, seed: 0}}, got {draws!r:.80}")
            return 0, 0
        if not is_drawn:
            self.errors.append("draws: no axis is drawn, as in {log_uniform: [1e-4, 1e-2]}")
        return count, seed

    def _task(self, outer: Mapping[str, Any]) -> str:
        preset = self._data.get("preset")
        if "task" in outer:
            if preset is not None:
                self.errors.append("preset: the axis task names the presets; leave one out")
            return ""
        base = self._data.get("base")
        if preset is None and isinstance(base, Mapping):
            part = base.get("task")
            preset = part.get("name") if isinstance(part, Mapping) else part
        if preset is None:
            self.errors.append("preset: expected the name of a task, as in preset: copy, got none")
            return ""
        return self._task_name(preset)

    def _task_name(self, task: Any) -> str:
        if not isinstance(task, str) or not (task in PRESETS or is_path(task)):
            self.errors.append(unknown("preset: unknown task", task, sorted(PRESETS)))
            return "copy"
        return task

    def _protocol(self) -> str | None:
        protocol = self._data.get("protocol")
        if protocol is not None and protocol not in PROTOCOLS:
            self.errors.append(f"protocol: expected {' or '.join(PROTOCOLS)}, got {protocol!r}")
            return None
        return protocol

    def _base(self) -> dict[str, Any]:
        base = _expanded(self._mapping("base"))
        self._check_settings("base", base)
        budget = self._mapping("budget")
        for name in budget:
            if name not in _BUDGET:
                self.errors.append(unknown("budget: unknown", name, _BUDGET))
            elif name in (base.get("training") or {}):
                self.errors.append(f"budget: {name} is in base: training, too; leave one out")
        if budget:
            training = base.get("training")
            training = training if isinstance(training, Mapping) else {}
            base["training"] = {**training, **budget}
        data = self._data.get("data")
        if data is not None:
            hardware = base.get("hardware")
            hardware = hardware if isinstance(hardware, Mapping) else {}
            # The path is absolute, because workers may have another current folder.
            base["hardware"] = {**hardware, "data": os.path.abspath(str(data))}
        return base

    def _seeds(self, seeds: Any, where: str) -> list[int]:
        if type(seeds) is int:
            seeds = [seeds]
        if isinstance(seeds, str):
            try:
                return parse_seeds(seeds)
            except ConfigError as error:
                self.errors += error.errors
                return [1]
        is_sound = isinstance(seeds, list) and seeds
        if not is_sound or not all(type(seed) is int and seed >= 0 for seed in seeds):
            self.errors.append(
                f"{where}: expected a list or a range such as 0:10, got {seeds!r:.80}"
            )
            return [1]
        if len(set(seeds)) < len(seeds):
            self.errors.append(f"{where}: expected each seed once, got {seeds!r:.80}")
        return list(seeds)

    def _rule(self, number: int, rule: Any) -> Rule:
        where = f"rules {number}"
        if not isinstance(rule, Mapping):
            self.errors.append(f"{where}: expected {{where: ..., set: ...}}, got {rule!r:.80}")
            return Rule({})
        for key in rule:
            if key not in _RULE_KEYS:
                self.errors.append(unknown(f"{where}: unknown key", key, _RULE_KEYS))
        settings = rule.get("set") or {}
        if not isinstance(settings, Mapping):
            self.errors.append(f"{where}: set: expected settings, got {settings!r:.80}")
            settings = {}
        change = _expanded(settings)
        self._check_settings(where, change)
        axes = rule.get("axes") or {}
        if not isinstance(axes, Mapping):
            self.errors.append(
                f"{where}: axes: expected options with lists of values, as in "
                f"{{training.learning_rate: [1.0e-3, 1.0e-2]}}, got {axes!r:.80}"
            )
            axes = {}
        options: dict[str, list[Any]] = {}
        for name, values in axes.items():
            if error := option_error(name):
                self.errors.append(f"{where}: axes: {error}")
            elif self._is_list(name, values):
                options[name] = values
                self._check_parts(f"{where}: axes", [nested(name, value) for value in values])
        seeds = None if "seeds" not in rule else self._seeds(rule["seeds"], f"{where}: seeds")
        return Rule(self._where(where, rule.get("where") or {}), change, options, seeds)

    def _where(self, where: str, condition: Any) -> dict[str, list[Any]]:
        if not isinstance(condition, Mapping) or not condition:
            self.errors.append(
                f"{where}: expected a condition such as {{model.memory: stack}}, got "
                f"{condition!r:.80}"
            )
            return {}
        return {
            axis: [label_of(value) for value in (values if isinstance(values, list) else [values])]
            for axis, values in condition.items()
        }

    def _axis_names(self, key: str, value: Any, axes: Iterable[str]) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if isinstance(names, Mapping):
            names = names.get("over", [])
        if not isinstance(names, list):
            self.errors.append(f"{key}: expected a list of axes, got {value!r:.80}")
            return ()
        known = list(dict.fromkeys(axes))
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known)
                self.errors.append(
                    f"{key}: {name!r} is no axis.{hint} Axes: {', '.join(known) or 'none'}."
                )
        return tuple(map(str, names))

    def _table(self, axes: Sequence[str]) -> TableOptions:
        table = self._mapping("table")
        valid = ("rows", "columns", "metric")
        for name in table:
            if name not in valid:
                self.errors.append(unknown("table: unknown", name, valid))
        rows, columns = (
            self._axis_names(f"table: {name}", table.get(name, []), axes)
            for name in ("rows", "columns")
        )
        metric = table.get("metric")
        return TableOptions(rows, columns, None if metric is None else str(metric))

    def _check_twice(self, outer: Mapping[str, Sequence[Value]], draws: Mapping[str, Any]) -> None:
        """Append an error for each two axes that set the same option."""
        owners: dict[str, str] = {}
        own: dict[str, set[str]] = {name: {_place(name)} for name in draws}
        for name, values in outer.items():
            own[name] = {_place(option) for value in values for option in _leaves(value.change)}
        for name, changed in own.items():
            for option in sorted(changed):
                other = owners.setdefault(option, name)
                if other != name:
                    self.errors.append(
                        f"axes: {other} and {name} both set {option}; leave one of them out"
                    )


def _place(option: str) -> str:
    """The component that an option names (model.memory for model.memory.name), else the option."""
    place = option.removesuffix(".name")
    return place if place in component_places() else option


def _leaves(change: Any, prefix: str = "") -> list[str]:
    """The dotted names of the options in settings. A component is represented by its name."""
    leaves: list[str] = []
    for key, value in change.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and not ("name" in value and name != "model"):
            leaves += _leaves(value, f"{name}.")
        else:
            leaves.append(name)
    return leaves


def _expanded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn settings with dotted names, such as model.hidden_size, into nested mappings."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        part = nested(str(name), _expanded(value) if isinstance(value, Mapping) else value)
        result = joined(result, part)
    return result
