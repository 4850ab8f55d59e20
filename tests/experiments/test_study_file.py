"""The file of a study: its runs and its errors."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.studies.tiny_study import tiny, trials, write
from unbounded.errors import ConfigError, StorageError
from unbounded.evaluation.metric_sets.base import roles_of
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.check import check_all, checked, ranges
from unbounded.experiments.run.plan import plan
from unbounded.experiments.trials.study_file import (
    KEYS,
    make_study_file,
    parse_seeds,
    read_study,
    study_trials,
)
from unbounded.studies.missing import role_warnings


def errors(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        study_trials(make_study_file("tiny", tiny(**changes)))
    return "\n".join(caught.value.errors)


def labels(**changes: Any) -> list[tuple[Any, ...]]:
    return [(*trial.axes.values(), trial.config.seed) for trial in trials(tiny(**changes))]


def test_a_study_is_all_values_with_all_seeds() -> None:
    axes = {"model.hidden_size": [4, 5], "training.learning_rate": [0.1, 0.2]}
    assert labels(axes=axes, seeds=[3, 7]) == [
        (size, rate, seed) for size in (4, 5) for rate in (0.1, 0.2) for seed in (3, 7)
    ]


def test_base_and_budget_override_the_preset() -> None:
    (first, *_) = trials()
    assert first.config.task["name"] == "anbn"
    assert first.config.task["train_lengths"] == "2:4"
    assert first.config.training.batches == 2
    assert first.config.hardware.threads == 1
    assert first.config.model.memory["name"] == "superposition_stack"


def test_an_axis_of_components_and_one_of_settings() -> None:
    axes = {
        "model.memory": ["none", {"name": "superposition_stack", "count": 3}],
        "size": {"small": {"model.hidden_size": 4}, "large": {"model": {"hidden_size": 6}}},
    }
    runs = trials(tiny(axes=axes, seeds=[0]))
    assert [(*run.axes.values(), run.config.model.hidden_size) for run in runs] == [
        ("none", "small", 4),
        ("none", "large", 6),
        ("superposition_stack(count=3)", "small", 4),
        ("superposition_stack(count=3)", "large", 6),
    ]


def test_an_axis_of_tasks_takes_each_preset() -> None:
    runs = trials(tiny(preset=None, base=None, axes={"task": ["copy", "anbn"]}, seeds=[0]))
    assert [run.config.model.memory["name"] for run in runs] == ["queue", "superposition_stack"]
    assert [run.cell for run in runs] == ["copy/all", "anbn/all"]


def test_exclusions_remove_runs() -> None:
    axes = {"model.memory": ["none", "superposition_stack"], "model.hidden_size": [4, 5, 6]}
    exclude = [{"model.memory": "none", "model.hidden_size": [4, 6]}, {"model.memory": "super*",
                "model.hidden_size": 5}]  # fmt: skip
    assert labels(axes=axes, exclude=exclude, seeds=[0]) == [
        ("none", 5, 0),
        ("superposition_stack", 4, 0),
        ("superposition_stack", 6, 0),
    ]
    assert "leaves no run" in errors(exclude=[{"model.hidden_size": [4, 5]}])


def test_rules_change_some_cells() -> None:
    rules = [
        {"where": {"model.hidden_size": [4, 5]}, "set": {"training": {"clip": 2.0}}},
        {
            "where": {"model.hidden_size": 5},
            "set": {"training.clip": 3.0},
            "seeds": [8],
            "axes": {"training.learning_rate": [0.1, 0.2]},
        },
    ]
    runs = trials(tiny(rules=rules, seeds=[0]))
    assert [(run.config.training.clip, run.config.seed) for run in runs] == [
        (2.0, 0), (3.0, 8), (3.0, 8),
    ]  # fmt: skip
    assert [run.config.training.learning_rate for run in runs][1:] == [0.1, 0.2]


def test_draws_are_of_their_distribution_and_stay_when_more_are_drawn() -> None:
    axes = {
        "training.learning_rate": {"log_uniform": [1e-4, 1e-2]},
        "training.clip": {"uniform": [1.0, 2.0]},
        "model.hidden_size": {"integers": [4, 9]},
        "training.optimizer": {"choice": ["adam", "sgd"]},
    }
    few, many = (
        trials(tiny(axes=axes, draws={"count": count, "seed": 5}, seeds=[0])) for count in (5, 400)
    )
    assert [run.axes for run in few] == [run.axes for run in many[:5]]
    rates = sorted(run.config.training.learning_rate for run in many)
    assert 1e-4 <= rates[0] < 2e-4 < 8e-3 < rates[-1] <= 1e-2
    assert 5e-4 < rates[200] < 2e-3  # the median is the geometric mean of the ends
    clips = sorted(run.config.training.clip for run in many)
    assert 1.0 <= clips[0] < 1.1 < 1.4 < clips[200] < 1.6 < 1.9 < clips[-1] <= 2.0
    assert {run.config.model.hidden_size for run in many} == set(range(4, 10))
    assert {run.config.training.optimizer["name"] for run in many} == {"adam", "sgd"}
    other = trials(tiny(axes=axes, draws={"count": 5, "seed": 6}, seeds=[0]))
    assert [run.axes for run in few] != [run.axes for run in other]


def test_drawn_options_are_selected_unless_the_file_has_a_selection() -> None:
    axes = {"training.learning_rate": {"log_uniform": [1e-4, 1e-2]}, "model.hidden_size": [4]}
    study = make_study_file("tiny", tiny(axes=axes, draws=3))
    assert study.select == ("training.learning_rate",)
    assert make_study_file("tiny", tiny(axes=axes, draws=3, select=[])).select == ()


@pytest.mark.parametrize(
    ("text", "seeds"), [("0:3", [0, 1, 2]), (":2", [0, 1]), ("5", [5]), ("1,4", [1, 4])]
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "3:1", "1:", "-1,2", "1,,2"])
def test_invalid_seeds_are_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"such as 0:10"):
        parse_seeds(text)


#: Changes of the file, and a part of their error; empty: they are valid.
CHANGES = {
    "axis: {}": "unknown key 'axis'. Did you mean 'axes'?",
    "axes: []": "",
    "axes: [1]": "axes: expected a mapping",
    "axes: {model.hiden_size: [4]}": "Did you mean 'model.hidden_size'?",
    "axes: {model.hidden_size: 4}": "expected a list of values, or a draw",
    "axes: {model.hidden_size: []}": "expected a list of values",
    "axes: {model.hidden_size: [4, 4]}": "expected each value once",
    "axes: {model.hidden_size: {log: [1, 2]}}": "or one of log_uniform, uniform",
    "axes: {size: {small: 3}}": "size: small: expected settings",
    "axes: {size: {small: {modle: {}}}}": "unknown section 'modle'. Did you mean",
    "axes: {size: {small: {model: {hidden: 3}}}}":
        "model has no option 'hidden'. Did you mean 'hidden_size'?",
    "axes: {model.memory: [none], model.memory.name: [stack]}":
        "axes: model.memory and model.memory.name both set model.memory",
    "axes: {size: {small: {model: {hidden_size: 3}}}, model.hidden_size: [4]}":
        "both set model.hidden_size; leave one of them out",
    "axes: {training.clip: {log_uniform: [1, 2]}}": "draws: expected the number",
    "draws: 3": "draws: no axis is drawn",
    "axes: {training.clip: {log_uniform: [0, 2]}}, draws: 3":
        "log_uniform: expected numbers above 0",
    "axes: {training.clip: {uniform: [3, 2]}}, draws: 3":
        "expected two numbers, the lower one first",
    "axes: {model.hidden_size: {integers: [1.5, 2]}}, draws: 3": "expected two integers",
    "axes: {model.hidden_size: {choice: 3}}, draws: 3": "choice: expected a list",
    "axes: {model.hidden_size: {choice: [3]}}, draws: x": "{count: 20, seed: 0}",
    "seeds: []": "seeds: expected a list or a range",
    "seeds: [1, 1]": "seeds: expected each seed once",
    "seeds: 'a:b'": "seeds: expected seeds such as 0:10",
    "exclude: {}": "",
    "exclude: [3]": "exclude 1: expected a condition",
    "exclude: [{model.memry: 1}]": "exclude: 'model.memry' is no axis.",
    "axes: {seed: [1, 2]}": "axes: seed is no axis, because every cell has all seeds",
    "rules: [{where: {model.hidden_size: 4}, axes: {training.clip: [1, 2]}}, "
    "{where: {training.clip: 1}, set: {}}]":
        "rules 2: training.clip is an axis of a rule, so that no rule can refer to it",
    "rules: [{where: {model.hidden_size: 4}, axes: [training.clip]}]":
        "rules 1: axes: expected options with lists of values, as in "
        "{training.learning_rate: [1.0e-3, 1.0e-2]}, got ['training.clip']",
    "axes: {model.memory: [null, queue]}":
        "axes: model.memory: expected a name, or a mapping with a name and options, got null; "
        "for no memory write none",
    "axes: {model.controller: [null]}":
        "axes: model.controller: expected a name, or a mapping with a name and options, got null",
    "axes: {model.memory.name: [null]}": "axes: model.memory: expected a name",
    "base: {model: {memory: 3}}": "base: model.memory: expected a name",
    "axes: {size: {small: {training.stop: null}}}":
        "axes: size: small: training.stop: expected a name",
    "rules: [{where: {model.hidden_size: 4}, axes: {hardening: [null]}}]":
        "rules 1: axes: hardening: expected a name",
    "rules: [3]": "rules 1: expected {where",
    "rules: [{where: {model.hidden_size: 4}, sett: {}}]": "unknown key 'sett'",
    "rules: [{where: {}, set: {}}]": "rules 1: expected a condition",
    "rules: [{where: {model.hidden_size: 4}, set: 3}]": "set: expected settings",
    "rules: [{where: {model.hidden_size: 4}, axes: {x: [1]}}]": "unknown option 'x'",
    "rules: [{where: {model.hidden_size: 4}, axes: {model.hidden_size: [1]}}]":
        "rules 1: model.hidden_size is an axis of the study",
    "axes: {training: [1]}":
        "'training' is a section, not an option; name an option in it, such as training.",
    "preset: null": "preset: expected the name of a task",
    "preset: copie": "unknown task 'copie'. Did you mean 'copy'?",
    "axes: {task: [copy]}": "the axis task names the presets; leave one out",
    "protocol: papr": "protocol: expected paper, got 'papr'",
    "budget: {batch: 3}": "budget: unknown 'batch'. Did you mean 'batches'?",
    "budget: {batches: 3}, base: {training: {batches: 2}}": "budget: batches is in base",
    "base: {training: {bathces: 2}}": "training has no option 'bathces'",
    "select: [model.memory]": "select: 'model.memory' is no axis.",
    "select: 3": "select: expected a list of axes",
    "table: {row: []}": "table: unknown 'row'. Did you mean 'rows'?",
    "table: {columns: [x]}": "table: columns: 'x' is no axis.",
    "figures: yes": "figures: expected true or false",
    "log_with: 3": "log_with: expected a list of names",
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), CHANGES.items())
def test_each_wrong_option_has_its_error(changes: str, expected: str) -> None:
    own = plain_yaml.load(f"{{{changes}}}")
    if expected:
        assert expected in errors(**own)
    else:
        study_trials(make_study_file("tiny", tiny(**own)))


def test_all_errors_are_reported_together() -> None:
    text = errors(seeds=[], axis={}, figures=3)
    assert len(text.splitlines()) == 3


def test_values_of_an_axis_without_effect_are_named() -> None:
    axes = {"model.memory": ["none"], "model.readout_size": [3, 4]}
    text = errors(axes=axes, seeds=[0])
    assert "are the same run, because model.readout_size has no effect there" in text
    assert "exclude: [{model.memory: none, model.readout_size: 4}]" in text


def test_a_file_is_read(tmp_path: Path) -> None:
    study = read_study(write(tmp_path / "mine.yaml"))
    assert (study.name, study.about) == ("mine", "tiny runs")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="expected a mapping with axes"):
        read_study(tmp_path / "list.yaml")
    (tmp_path / "odd.yaml").write_text("a: [1")
    with pytest.raises(ConfigError, match="is not YAML, line 1"):
        read_study(tmp_path / "odd.yaml")
    with pytest.raises(StorageError, match="No such file"):
        read_study(tmp_path / "none.yaml")


def test_the_template_is_a_study_without_errors() -> None:
    text = files("unbounded.studies").joinpath("template.yaml").read_text(encoding="utf-8")
    runs = study_trials(make_study_file("template", plain_yaml.load(text)))
    assert len(runs) == 15
    check_all(run.config for run in runs)
    for run in runs:
        assert run.config.evaluation["lengths"] == ["1:8", "9:16", "17:32"]
        planned = plan(run.config, checked(run.config))
        scored = ranges(run.config.evaluation["lengths"])
        assert list(roles_of(planned, scored).values()) == ["train", "test", "longer"]
    assert role_warnings(run.config for run in runs) == []


def test_the_example_of_the_page_is_a_study_without_errors() -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    data = plain_yaml.load(page.split("```yaml\n")[1].split("```")[0])
    runs = study_trials(make_study_file("page", data))
    # Three memories of two sizes without one, each with 20 draws and three seeds.
    assert len(runs) == 5 * 20 * 3
    check_all(run.config for run in runs)
    keys = set(page.split("| key | meaning |")[1].split("\n\n")[0].replace("`", " ").split())
    assert set(KEYS) - {"about"} <= {key.strip(",") for key in keys}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exclude": [{"model.hidden_size": 7}]}, "exclude 1: model.hidden_size: expected a value"),
        (
            {"axes": {"model.memory": ["stack", "queue"]}, "exclude": [{"model.memory": "stck"}]},
            "got 'stck'. Did you mean 'stack'? Values: stack, queue.",
        ),
        (
            {
                "axes": {"model.memory": ["stack", "queue"]},
                "rules": [{"where": {"model.memory": ["stack", "stck*"]}, "set": {}}],
            },
            "rules 1: where: model.memory: expected a value of this axis, or a pattern that "
            "matches one, got 'stck*'. Did you mean 'stack'?",
        ),
        (
            {
                "axes": {"training.optimizer": {"choice": ["adam", "sgd"]}},
                "draws": 3,
                "exclude": [{"training.optimizer": "adm"}],
            },
            "Did you mean 'adam'?",
        ),
        (
            {
                "rules": [{"where": {"model.hidden_size": 4}, "axes": {"training.clip": [1, 2]}}],
                "exclude": [{"model.hidden_size": 5, "training.clip": 1}],
            },
            "exclude 1: expected a condition that matches a cell, got {model.hidden_size: 5, "
            "training.clip: 1}. No cell has these values together",
        ),
        (
            {"axes": {"training.chunk_steps": [8, 16]}, "exclude": [{"training.chunk_steps": "8"}]},
            "got '8'. The values of this axis are no text, so they have no quotes. Values: 8, 16.",
        ),
        (
            {"axes": {"training.clip": [1, 2]}, "exclude": [{"training.clip": None}]},
            "got null. Values: 1, 2.",
        ),
    ],
)
def test_useless_conditions_are_found(changes: dict[str, Any], message: str) -> None:
    (line,) = make_study_file("x", tiny(**changes)).useless
    assert message in line
