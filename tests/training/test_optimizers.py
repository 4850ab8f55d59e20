"""Optimizers by name; parameters are checked before torch sees them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from unbounded.errors import ChoiceError, ConfigError, DTypeError
from unbounded.training import make_optimizer

WEIGHT = nn.Parameter(torch.ones(2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (None, r"parameters: expected a list of parameters or groups, got NoneType\. Give model"),
        (nn.Linear(1, 1), "got Linear. Give model.parameters"),
        (WEIGHT, "got Parameter. Give model.parameters"),
        ({WEIGHT}, "got set. Give model.parameters"),
        ([WEIGHT, None], r"parameters\[1\]: expected a tensor, got NoneType. A layer without"),
        ([("weight", None)], r"parameters\[0\]: expected a tensor, got NoneType"),
        ([{"params": None}], r"parameters\[0\]\['params'\]: expected a list .*, got NoneType"),
        (
            [{"params": [WEIGHT]}, {"params": [WEIGHT, None]}],
            r"parameters\[1\]\['params'\]\[1\]: expected a tensor, got NoneType",
        ),
        ([{"params": [WEIGHT]}, WEIGHT], "expected parameters or groups of them, got both"),
        ([{"lr": 0.1}], r"parameters\[0\]: expected a group with 'params', got 'lr'"),
    ],
)
def test_invalid_parameters_are_named(parameters: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        make_optimizer(parameters, name="adam", learning_rate=0.1)


@pytest.mark.parametrize("parameters", [[], [{"params": []}]])
def test_an_optimizer_without_parameters_is_refused(parameters: Any) -> None:
    with pytest.raises(ConfigError, match="parameters: expected at least one, got none"):
        make_optimizer(parameters, name="adam", learning_rate=0.1)


def test_groups_and_names_are_those_of_torch() -> None:
    model = nn.Linear(2, 1)
    for parameters in (
        model.parameters(),
        model.named_parameters(),
        nn.ParameterList(model.parameters()),
        [{"params": model.weight, "lr": 0.5}, {"params": iter([model.bias])}],
    ):
        optimizer = make_optimizer(parameters, name="sgd", learning_rate=0.1)
        held = [weight for group in optimizer.param_groups for weight in group["params"]]
        assert [id(weight) for weight in held] == [id(model.weight), id(model.bias)]
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    no_name: Any = ["sgd"]
    with pytest.raises(ChoiceError, match="unknown optimizer"):
        make_optimizer([WEIGHT], name=no_name, learning_rate=0.1)
