"""Options are checked against signatures, in one module that checks all types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from unbounded.errors import ConfigError
from unbounded.models.model_parts import controller_errors, memory_errors
from unbounded.options import (
    Count,
    Rate,
    Share,
    field_errors,
    fits,
    from_text,
    option_errors,
    options_of,
    words,
)
from unbounded.tasks import make_task
from unbounded.training.optimizers import optimizer_errors


def component(
    size: int,
    share: float = 0.5,
    flag: bool = False,
    name: str | None = None,
    pair: tuple[float, float] = (0.9, 0.99),
    table: Mapping[str, str] | None = None,
    kind: Literal["mean", "sum"] = "mean",
    device: Any = None,
) -> None:
    """Something with options."""


class Component:
    """A class with options."""

    def __init__(self, size: int, flag: bool = False) -> None:
        self.size, self.flag = size, flag


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("size", "3", "an integer"),
        ("size", True, "an integer"),
        ("size", 3.0, "an integer"),
        ("share", "0.5", "a number"),
        ("share", True, "a number"),
        ("share", math.nan, "a finite number"),
        ("share", math.inf, "a finite number"),
        ("share", 10**400, "a number"),
        ("flag", "no", "true or false"),
        ("flag", 0, "true or false"),
        ("flag", None, "true or false"),
        ("name", 3, "a text or null"),
        ("pair", [0.9], "a list such as [a, b]"),
        ("pair", [0.9, "x"], "a list such as [a, b]"),
        ("table", {"a": 1}, "a mapping such as {name: value} or null"),
        ("table", {1: "a"}, "a mapping such as {name: value} or null"),
        ("kind", 3, "'mean' or 'sum'"),
    ],
)
def test_a_value_of_another_type_is_an_error(name: str, value: Any, expected: str) -> None:
    options = {"size": 1, name: value}
    (error,) = option_errors("component", component, options)
    assert error.startswith(f"{name}: expected {expected}, got {value!r:.40}")


def test_an_error_for_an_unknown_choice_lists_the_valid_choices() -> None:
    (error,) = option_errors("component", component, {"size": 1, "kind": "meam"})
    assert error == "kind: unknown kind 'meam'. Did you mean 'mean'? Valid: mean, sum."


def bounded(share: Share = 1.0, sizes: list[Count] | None = None, rate: Rate | None = None) -> None:
    """Options with ranges."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"share": 0}, "share: expected a number above 0, got 0"),
        ({"share": 1.5}, "share: expected a number at most 1, got 1.5"),
        ({"share": "x"}, "share: expected a number, got 'x'"),
        ({"share": True}, "share: expected a number, got True"),
        ({"sizes": [3, 0]}, "sizes: expected a number at least 1, got 0"),
        ({"rate": -1.0}, "rate: expected a number above 0, got -1.0"),
    ],
)
def test_a_number_outside_of_its_range_is_an_error(options: dict[str, Any], expected: str) -> None:
    assert option_errors("component", bounded, options) == [expected]


def test_numbers_within_their_range_are_accepted() -> None:
    for options in ({"share": 1}, {"share": 0.001}, {"sizes": [1, 5]}, {"rate": None}):
        assert option_errors("component", bounded, options) == []


@pytest.mark.parametrize(
    "options",
    [
        {"size": 3},
        {"size": 3, "share": 1, "flag": True, "name": "x", "pair": [1, 0.5]},
        {"size": 3, "name": None, "table": {"a": "b"}, "kind": "sum", "device": object()},
    ],
)
def test_values_of_the_annotated_types_are_accepted(options: dict[str, Any]) -> None:
    assert option_errors("component", component, options) == []


def test_all_errors_are_reported_together() -> None:
    errors = option_errors("component", Component, {"flags": True, "flag": "no"})
    assert errors == [
        "component has no option 'flags'. Did you mean 'flag'? Valid: size, flag.",
        "component needs the option 'size'",
        "flag: expected true or false, got 'no'",
    ]
    assert option_errors("component", Component, {}, filled=("size",)) == []
    assert option_errors("none", lambda: None, {"a": 1}) == ["none has no option 'a'. It has none."]


def test_hidden_parameters_are_no_options() -> None:
    assert set(options_of(component, hidden=("device", "table"))) == {
        *("size", "share", "flag", "name", "pair", "kind")
    }
    assert options_of(Component)["size"].is_required


@pytest.mark.parametrize(
    ("text", "value", "kind", "typed"),
    [
        ("no", "no", bool, False),
        ("Yes", "Yes", bool | None, True),
        ("off", "off", bool, False),
        ("false", False, bool, False),
        ("maybe", "maybe", bool, "maybe"),
        ("3", 3, int, 3),
        ("2016", 2016, str, "2016"),
        ("007", 7, str | None, "007"),
        ("true", True, str, "true"),
        ("null", None, str | None, None),
        ("null", None, int, None),
        ("no", "no", str, "no"),
        ("no", "no", bool | str, "no"),
        ("x", "x", int, "x"),
    ],
)
def test_text_of_a_command_line_is_converted(text: str, value: Any, kind: Any, typed: Any) -> None:
    made = from_text(text, value, kind)
    assert made == typed
    assert type(made) is type(typed)


@dataclass
class Inner:
    """A part of a config."""

    flag: bool = True


@dataclass
class Outer:
    """A config."""

    count: int = 1
    inner: Inner = field(default_factory=Inner)


def test_a_config_is_checked_field_by_field() -> None:
    assert field_errors(Outer()) == []
    wrong: Any = "no"
    assert field_errors(Outer(count=wrong, inner=Inner(flag=wrong)), "a.") == [
        "a.count: expected an integer, got 'no'",
        "a.inner.flag: expected true or false, got 'no'",
    ]
    assert field_errors(Outer(inner=wrong)) == ["inner: expected options, got 'no'"]


def test_types_are_described_in_words() -> None:
    assert words(int | None) == "an integer or null"
    assert words(tuple[int, int] | list[str]) == "a list such as [a, b]"
    assert words(Component) == "a Component"
    assert fits(Component(1), Component)
    assert not fits(3, Component)


def test_optimizers_and_tasks_check_their_options() -> None:
    """Once "no" reversed an optimizer and turned a task's option on."""
    assert optimizer_errors("adam", {"maximize": "no", "weight_decay": "1"}) == [
        "maximize: expected true or false, got 'no'",
        "weight_decay: expected a number, got '1'",
    ]
    assert optimizer_errors("adam", {"betas": [0.9, 0.98]}) == []
    (fault,) = optimizer_errors("sgd", {"momentm": 0.9})
    assert "optimizer 'sgd' has no option 'momentm'. Did you mean 'momentum'?" in fault
    with pytest.raises(ConfigError, match="characters: expected true or false, got 'no'"):
        make_task("pairs", data="nowhere.tsv", characters="no")
    with pytest.raises(ConfigError) as caught:
        make_task("copy", symbols="3", train_lengths="9:2")
    assert len(caught.value.errors) == 2
    (fault,) = memory_errors({"name": "queue", "width": "3"}, 8)
    assert fault == "width: expected an integer, got '3'"
    (fault,) = controller_errors({"name": "elman", "recurrent": "no"}, "queue", 4)
    assert fault == "recurrent: expected true or false, got 'no'"


def test_optimizer_options_that_fail_at_a_step_are_found_before_training() -> None:
    """Once capturable ended in a traceback and left a run folder."""
    (fault,) = optimizer_errors("adam", {"capturable": True})
    assert fault.startswith("adam refuses {'capturable': True} on cpu: If capturable=True")
