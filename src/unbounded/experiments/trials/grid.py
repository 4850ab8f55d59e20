"""Lay out the runs of a study from axes, seeds, exclusions, and rules for some cells.

A cell is one value of each outer axis. The config of a run is composed in this order: the preset,
the study's settings, the values of the outer axes, the settings of matching rules, the values of
the inner axes, and the seed. Later settings override earlier ones.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from typing import Any, Final, Literal

from unbounded.errors import did_you_mean
from unbounded.experiments.config.compose import composed, nested, overlay, preset_of
from unbounded.experiments.config.schema import RunConfig, to_dict

Change = Mapping[str, Any]
DrawKind = Literal["log_uniform", "uniform", "integers", "choice"]
#: Number of digits of a drawn number.
_DIGITS: Final = 6
#: Greatest number of values that an error names.
_MOST_SHOWN: Final = 20


@dataclass(frozen=True)
class Value:
    """One value of an axis.

    Fields:
        label: how tables, conditions and data frames name it.
        change: what it changes in the config.
    """

    label: Any
    change: Change


@dataclass(frozen=True)
class Draw:
    """A distribution of an option.

    Fields:
        kind: log_uniform, uniform, integers (uniform, both ends included) or choice.
        values: the two ends, or the choices.
    """

    kind: DrawKind
    values: tuple[Any, ...]

    def points(self, name: str, count: int, seed: int) -> list[Any]:
        """The first `count` values drawn for an option. A larger count only appends values.

        Args:
            name: the option; each has its own sequence.
            count: number of values.
            seed: of the sequence.
        """
        generator = random.Random(f"{seed} {name}")
        return [self._point(generator) for _ in range(count)]

    def _point(self, generator: random.Random) -> Any:
        if self.kind == "choice":
            return generator.choice(self.values)
        low, high = self.values
        if self.kind == "integers":
            return generator.randint(low, high)
        if self.kind == "uniform":
            return float(f"{generator.uniform(low, high):.{_DIGITS}g}")
        drawn = math.exp(generator.uniform(math.log(low), math.log(high)))
        return float(f"{drawn:.{_DIGITS}g}")


@dataclass(frozen=True)
class Rule:
    """A rule: what differs in the cells that it matches.

    Fields:
        where: axis -> patterns of its labels, one of which must match; all axes must match.
        change: settings.
        options: maps an option to its values; each is an inner loop.
        seeds: seeds; None for those of the study.
        alternatives: sets of inner axes and seeds, each of which is laid out on its own.
        protocol: the protocol of the preset; False for that of the study.
        verify: options of the verification.
    """

    where: Mapping[str, Sequence[Any]]
    change: Change = field(default_factory=dict)
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    alternatives: Sequence[tuple[Mapping[str, Sequence[Any]], Sequence[int] | None]] = ()
    protocol: str | Literal[False] | None = False
    verify: Mapping[str, Any] = field(default_factory=dict)

    def matches(self, labels: Mapping[str, Any]) -> bool:
        """Whether the rule applies to a cell."""
        return matches(self.where, labels)


@dataclass(frozen=True)
class Grid:
    """The runs of a study, as axes.

    Fields:
        outer: axes whose values are settings, or that rules refer to; "task" is one of them.
        options: maps an option to its values; each is an inner loop, in this order.
        draws: option -> distribution.
        draw_count, draw_seed: number of random points, and their seed.
        seeds: seeds of the runs.
        change: settings of all runs.
        exclude: conditions on labels; a run that matches one is left out.
        rules: in rising precedence.
        preset: whether the config begins as the preset of the task.
        protocol: the preset's protocol.
    """

    outer: Mapping[str, Sequence[Value]]
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    draws: Mapping[str, Draw] = field(default_factory=dict)
    draw_count: int = 0
    draw_seed: int = 0
    seeds: Sequence[int] = (1,)
    change: Change = field(default_factory=dict)
    exclude: Sequence[Mapping[str, Sequence[Any]]] = ()
    rules: Sequence[Rule] = ()
    preset: bool = True
    protocol: str | None = None


@dataclass(frozen=True)
class GridRun:
    """One run of a grid.

    Fields:
        labels: the value of each axis but the seed.
        config: the config.
        verify: options of its verification.
    """

    labels: Mapping[str, Any]
    config: RunConfig
    verify: Mapping[str, Any]


def grid_runs(grid: Grid, order: Sequence[str] = ()) -> Iterator[GridRun]:
    """The runs of a grid. The last axis and the seeds are the innermost loops.

    Args:
        grid: the grid.
        order: options in the order of their loops, before those that it does not name.
    Raises:
        ConfigError: a setting is not an option of a config.
    """
    points: list[dict[str, Any]] = [{}]
    if grid.draws:
        columns = [
            draw.points(name, grid.draw_count, grid.draw_seed) for name, draw in grid.draws.items()
        ]
        drawn = [
            dict(zip(grid.draws, values, strict=True)) for values in zip(*columns, strict=True)
        ]
        # Drawn integers and choices may repeat, but each point is trained once.
        points = list({json.dumps(point, default=str): point for point in drawn}.values())
    for values in product(*grid.outer.values()):
        labels = {name: value.label for name, value in zip(grid.outer, values, strict=True)}
        if any(_excludes(condition, labels) for condition in grid.exclude):
            continue
        rules = [rule for rule in grid.rules if rule.matches(labels)]
        base = _base(grid, _task_of(values, labels), rules)
        base = overlay(
            base,
            grid.change,
            *(value.change for value in values),
            *(rule.change for rule in rules),
        )
        # One thread per run: parallel runs use the cores better than threads do.
        base["hardware"]["threads"] = 1
        verify: dict[str, Any] = {}
        for rule in rules:
            verify |= rule.verify
        for inner, config in _inner(grid, base, rules, points, order):
            every = {**labels, **inner}
            if not any(matches(condition, every) for condition in grid.exclude):
                yield GridRun(every, config, verify)


def _task_of(values: Sequence[Value], labels: Mapping[str, Any]) -> str:
    """The name of a cell's task: the name in its settings, otherwise its label."""
    components = [value.change["task"] for value in values if "task" in value.change]
    named = [one["name"] for one in components if isinstance(one, Mapping) and "name" in one]
    return str(named[-1] if named else labels["task"])


def _base(grid: Grid, task: str, rules: Sequence[Rule]) -> dict[str, Any]:
    if not grid.preset:
        return to_dict(RunConfig(task={"name": task}))
    protocol = grid.protocol
    for rule in rules:
        protocol = protocol if rule.protocol is False else rule.protocol
    return preset_of(task, protocol)


def _inner(
    grid: Grid,
    base: dict[str, Any],
    rules: Sequence[Rule],
    points: Sequence[Mapping[str, Any]],
    order: Sequence[str],
) -> Iterator[tuple[dict[str, Any], RunConfig]]:
    """Yield labels and config for each combination of a cell's inner axes."""
    lists, seeds = dict(grid.options), grid.seeds
    alternatives: Sequence[tuple[Mapping[str, Sequence[Any]], Sequence[int] | None]] = ()
    for rule in rules:
        lists.update(rule.options)
        seeds = seeds if rule.seeds is None else rule.seeds
        alternatives = rule.alternatives or alternatives
    for options, own_seeds in alternatives or [({}, None)]:
        axes = {**lists, **options}
        named = [*(name for name in order if name in axes), *(n for n in axes if n not in order)]
        for values in product(*(axes[name] for name in named)):
            fixed = dict(zip(named, values, strict=True))
            for point in points:
                both = {**fixed, **point}
                data = overlay(base, *(nested(name, value) for name, value in both.items()))
                labels = {name: label_of(value) for name, value in both.items()}
                for seed in seeds if own_seeds is None else own_seeds:
                    data["seed"] = seed
                    yield labels, composed(data)


def label_of(value: Any) -> Any:
    """The label of an option's value, as text. For a component it shows name and options."""
    if isinstance(value, Mapping):
        options = ", ".join(f"{k}={label_of(own)}" for k, own in value.items() if k != "name")
        name = str(value.get("name", ""))
        return f"{name}({options})" if options else name
    if isinstance(value, list | tuple):
        return f"[{', '.join(str(label_of(own)) for own in value)}]"
    return value


def matches(where: Mapping[str, Sequence[Any]], labels: Mapping[str, Any]) -> bool:
    """Whether each axis of a condition has a label that matches one of its patterns."""
    return all(
        name in labels and any(_fits(pattern, labels[name]) for pattern in patterns)
        for name, patterns in where.items()
    )


def _excludes(condition: Mapping[str, Sequence[Any]], labels: Mapping[str, Any]) -> bool:
    """Whether a condition matches by outer axes only, so that the cell need not be composed."""
    return all(name in labels for name in condition) and matches(condition, labels)


def unmatched(grid: Grid, condition: Mapping[str, Sequence[Any]]) -> list[str]:
    """One line for each pattern of a condition that matches no value of its axis."""
    found = []
    for axis, patterns in condition.items():
        values = _labels_of(grid, axis)
        for pattern in patterns:
            if not any(_fits(pattern, value) for value in values):
                shown = [v if isinstance(v, str) else json.dumps(v, default=str) for v in values]
                is_text = isinstance(pattern, str)
                got = repr(pattern) if is_text else json.dumps(pattern, default=str)
                hint = did_you_mean(str(pattern).rstrip("*"), shown)
                if is_text and not any(isinstance(v, str) for v in values):
                    hint = " The values of this axis are no text, so they have no quotes."
                names = ", ".join(shown[:_MOST_SHOWN]) + ", ..." * (len(shown) > _MOST_SHOWN)
                found.append(
                    f"{axis}: expected a value of this axis, or a pattern that matches one, got "
                    f"{got}.{hint} Values: {names}."
                )
    return found


def _labels_of(grid: Grid, axis: str) -> list[Any]:
    """The labels of an axis in all cells."""
    if axis in grid.draws:
        draw = grid.draws[axis]
        is_choice = draw.kind == "choice"  # also the choices that no point has
        values = draw.values if is_choice else draw.points(axis, grid.draw_count, grid.draw_seed)
        return list(map(label_of, values))
    labels = [value.label for value in grid.outer.get(axis, ())]
    labels += [label_of(v) for rule in grid.rules for v in rule.options.get(axis, ())]
    return list({repr(label): label for label in labels}.values())


def is_reached(grid: Grid, condition: Mapping[str, Sequence[Any]]) -> bool:
    """Whether the values that a condition names occur together, before anything is excluded."""
    inner = [axis for axis in condition if axis not in grid.outer and axis not in grid.draws]
    if not inner:  # outer axes occur in all combinations
        return True
    for values in product(*grid.outer.values()):
        labels = {name: value.label for name, value in zip(grid.outer, values, strict=True)}
        lists = {name: v for r in grid.rules if r.matches(labels) for name, v in r.options.items()}
        outside = {name: own for name, own in condition.items() if name in grid.outer}
        if matches(outside, labels) and all(
            any(
                _fits(pattern, label_of(own))
                for pattern in condition[axis]
                for own in lists.get(axis, ())
            )
            for axis in inner
        ):
            return True
    return False


def _fits(pattern: Any, label: Any) -> bool:
    if isinstance(pattern, str) and isinstance(label, str):
        # A component may be named without its options.
        return fnmatchcase(label, pattern) or fnmatchcase(label.partition("(")[0], pattern)
    if isinstance(pattern, bool) or isinstance(label, bool):
        return pattern is label
    return bool(pattern == label)
