"""Optimizers and learning-rate schedules by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from unbounded.checks import check_choice, check_tensor
from unbounded.errors import ConfigError, DTypeError
from unbounded.options import option_errors
from unbounded.training.hooks import SCHEDULES

#: Iterables that cannot replace a list of parameters. A set, for example, has no order.
_NO_LIST = (torch.Tensor, str, bytes, Mapping, set, frozenset)

#: Grefenstette et al. do not name constants for RMSProp. With epsilon 1e-8, steps do not shrink
#: when the gradients shrink, and a model that has solved its task loses the solution again
#: (docs/notebook/grefenstette2015.md).
RMSPROP_EPSILON = 1e-4

#: The optimizers of torch.optim by name. LBFGS needs a closure, SparseAdam does not support dense
#: gradients, and Muon does not support biases.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "rmsprop": functools.partial(torch.optim.RMSprop, eps=RMSPROP_EPSILON),
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "adafactor": torch.optim.Adafactor,
    "adamax": torch.optim.Adamax,
    "adamw": torch.optim.AdamW,
    "asgd": torch.optim.ASGD,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rprop": torch.optim.Rprop,
}
#: Parameters of an optimizer that are not options here.
NOT_OPTIONS = ("params", "lr")


def optimizer_errors(
    name: str, options: Mapping[str, Any], device: torch.device | str = "cpu"
) -> list[str]:
    """Errors in an optimizer's options according to its signature, one line each.

    Args:
        name: one of `OPTIMIZERS`.
        options: names and values of its options, as in torch.optim, without `lr`.
        device: device of the weights; some options need a GPU.
    """
    factory = OPTIMIZERS[name]
    errors = option_errors(f"optimizer {name!r}", factory, options, hidden=NOT_OPTIONS)
    if errors or not options:
        return errors
    weight = nn.Parameter(torch.zeros(1, 1, device=device))
    weight.grad = torch.zeros_like(weight)
    try:
        factory([weight], lr=1e-3, **options).step()  # a step finds other invalid values
    except Exception as error:  # torch raises many types, AssertionError among them
        reason = str(error).partition("\n")[0]
        errors.append(f"{name} refuses {dict(options)!r} on {torch.device(device)}: {reason}")
    return errors


def make_optimizer(
    parameters: Iterable[nn.Parameter],
    *,
    name: str,
    learning_rate: float,
    options: Mapping[str, Any] | None = None,
) -> torch.optim.Optimizer:
    """Make the optimizer with a given name.

    Args:
        parameters: a model's `parameters()` or `named_parameters()`, or groups of them with options
            of their own, as in torch.optim.
        name: one of `OPTIMIZERS`.
        learning_rate: above 0.
        options: its other options, for example {"momentum": 0.9} of sgd. The default `eps` of
            rmsprop is RMSPROP_EPSILON.
    Raises:
        ChoiceError: no optimizer has that name.
        ConfigError: it has no such option, or refuses a value; or there is no parameter.
        DTypeError: `parameters` are something else.
    """
    check_choice("optimizer", name, OPTIMIZERS)
    own, groups = dict(options or {}), _groups(parameters)
    weights = [
        weight
        for group in groups
        for weight in _weights(group["params"] if isinstance(group, Mapping) else [group])
    ]
    if not weights:
        raise ConfigError("parameters: expected at least one, got none")
    errors = optimizer_errors(name, own, weights[0].device)
    if errors:
        raise ConfigError(errors)
    return OPTIMIZERS[name](groups, lr=learning_rate, **own)


def _groups(parameters: object) -> list[Any]:
    """Return parameters or groups of parameters as a list that can be iterated more than once.

    Raises:
        DTypeError: they are something else.
    """
    if not isinstance(parameters, Iterable) or isinstance(parameters, _NO_LIST):
        raise DTypeError(
            f"parameters: expected a list of parameters or groups, got "
            f"{type(parameters).__name__}. Give model.parameters()."
        )
    groups = list(parameters)
    for place, group in enumerate(groups):
        where = f"parameters[{place}]"
        if not isinstance(group, Mapping):
            _check_parameter(where, group)
            continue
        if "params" not in group:
            raise DTypeError(
                f"{where}: expected a group with 'params', got {', '.join(map(repr, group))}."
            )
        own = group["params"]
        if isinstance(own, torch.Tensor):
            own = [own]
        if not isinstance(own, Iterable) or isinstance(own, _NO_LIST):
            raise DTypeError(
                f"{where}['params']: expected a list of parameters, got {type(own).__name__}."
            )
        groups[place] = {**group, "params": list(own)}
        for number, weight in enumerate(groups[place]["params"]):
            _check_parameter(f"{where}['params'][{number}]", weight)
    if len({isinstance(group, Mapping) for group in groups}) > 1:
        raise DTypeError("parameters: expected parameters or groups of them, got both in one list.")
    return groups


def _check_parameter(name: str, value: object) -> None:
    is_named = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
    weight = value[1] if isinstance(value, tuple) and is_named else value
    check_tensor(name, weight, "A layer without the weight, such as one without a bias, has None.")


def _weights(parameters: Iterable[Any]) -> list[torch.Tensor]:
    return [item[1] if isinstance(item, tuple) else item for item in parameters]


def make_schedule(
    optimizer: torch.optim.Optimizer, budget: int, *, name: str, **options: Any
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make the learning-rate schedule with a given name, which is stepped once for each batch.

    Args:
        optimizer: the optimizer whose learning rate it sets.
        budget: of the run, in batches.
        name: one of `SCHEDULES`.
        options: its options.
    Raises:
        ChoiceError: no schedule has that name. ConfigError: it has no such option, or refuses a
            value.
    """
    check_choice("schedule", name, SCHEDULES)
    errors = option_errors(f"schedule {name!r}", SCHEDULES[name], options, hidden=("budget",))
    if errors:
        raise ConfigError(errors)
    factor: Any = SCHEDULES[name](budget, **options)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
