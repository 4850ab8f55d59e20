"""Optimizers and learning-rate schedules by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from unbounded.checks import check_choice, check_tensor
from unbounded.errors import ChoiceError, ConfigError, DTypeError
from unbounded.options import option_errors
from unbounded.training.tail import Tail, tail_length

Schedule = Callable[[int], float]

#: How a gradient is bounded: its norm, or the value of each element.
CLIPS = ("norm", "value")
#: When weights change: after each piece of a batch, or after each symbol (`SymbolTrainer`).
UPDATES = ("piece", "symbol")

#: Iterables that are no list of parameters; a set has no order.
_NO_LIST = (torch.Tensor, str, bytes, Mapping, set, frozenset)

#: The optimizers of torch.optim by name, but for LBFGS, which needs a closure, and SparseAdam and
#: Muon, which take no bias or dense gradient.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "rmsprop": torch.optim.RMSprop,
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
#: Grefenstette et al. give no constants of RMSProp. With epsilon 1e-8 the steps stay as long when
#: the gradients vanish, and a model that has solved its task leaves the solution again
#: (docs/reproducing/grefenstette2015.md).
RMSPROP_EPSILON = 1e-4


def _constant(batches: int, tail_batches: int) -> Schedule:
    return lambda batch: 1.0


def _linear(batches: int, tail_batches: int) -> Schedule:
    return lambda batch: max(0.0, 1.0 - batch / batches)


def _tail(batches: int, tail_batches: int) -> Schedule:
    return Tail(tail_length(batches, tail_batches))


#: Made from the budget in batches and the length of a tail.
SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    "constant": _constant,
    "linear": _linear,
    "tail": _tail,
}


def has_epsilon(name: str) -> bool:
    """Whether an optimizer of `OPTIMIZERS` adds one number to the denominator of a step."""
    eps = inspect.signature(OPTIMIZERS[name]).parameters.get("eps")
    return eps is not None and isinstance(eps.default, float)


def option_faults(
    name: str, options: Mapping[str, Any], device: torch.device | str = "cpu"
) -> list[str]:
    """What is wrong with an optimizer's own options, a line each, by its signature.

    Args:
        name: one of `OPTIMIZERS`.
        options: names and values of its own; `lr` and an `eps` of one number stand elsewhere.
        device: of the weights that it will change; some options need a GPU.
    """
    factory = OPTIMIZERS[name]
    elsewhere = ("params", "lr", *(("eps",) if has_epsilon(name) else ()))
    faults = option_errors(f"optimizer {name!r}", factory, options, hidden=elsewhere)
    if faults:
        return faults
    weight = nn.Parameter(torch.zeros(1, 1, device=device))
    weight.grad = torch.zeros_like(weight)
    try:
        factory([weight], lr=1e-3, **options).step()  # some values are refused by a step alone
    except Exception as error:  # torch asserts, and raises what it likes
        reason = str(error).partition("\n")[0]
        faults.append(f"{name} refuses {dict(options)!r} on {torch.device(device)}: {reason}")
    return faults


def make_optimizer(
    parameters: Iterable[nn.Parameter],
    *,
    name: str,
    learning_rate: float,
    epsilon: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> torch.optim.Optimizer:
    """The optimizer of that name.

    Args:
        parameters: what it changes: of a model its `parameters()` or `named_parameters()`, or
            groups of them with options of their own, as of torch.optim.
        name: one of `OPTIMIZERS`.
        learning_rate: above 0.
        epsilon: added to the denominator of a step, above 0; None for torch's own, and for rmsprop
            for RMSPROP_EPSILON.
        options: others of its own, for example {"momentum": 0.9} of sgd.
    Raises:
        ChoiceError: no optimizer has that name.
        ConfigError: it has no epsilon, no such option, or refuses a value; or there is no
            parameter. DTypeError: `parameters` are something else.
    """
    check_choice("optimizer", name, OPTIMIZERS)
    own, groups = dict(options or {}), _groups(parameters)
    weights = [
        weight
        for group in groups
        for weight in _weights(group["params"] if isinstance(group, Mapping) else [group])
    ]
    if not weights:
        raise ConfigError(["parameters: expected at least one, got none"])
    faults = option_faults(name, own, weights[0].device)
    if epsilon is not None and not has_epsilon(name):
        faults.append(f"epsilon: {name} has none; leave it out")
    if faults:
        raise ConfigError(faults)
    eps = RMSPROP_EPSILON if epsilon is None and name == "rmsprop" else epsilon
    given = {} if eps is None else {"eps": eps}
    return OPTIMIZERS[name](groups, lr=learning_rate, **given, **own)


def _groups(parameters: object) -> list[Any]:
    """Parameters or groups of them as a list, of which each can be looked at more than once.

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
    return [each[1] if isinstance(each, tuple) else each for each in parameters]


def make_schedule(
    optimizer: torch.optim.Optimizer, *, name: str, batches: int, tail_batches: int = 500
) -> torch.optim.lr_scheduler.LRScheduler:
    """The learning-rate schedule of that name, stepped once a batch.

    Args:
        optimizer: whose learning rate it sets.
        name: one of `SCHEDULES`; "linear" falls to 0 at the end of the budget, "tail" stays until
            the phase that it is of would be over, and then falls to 0.
        batches: the budget.
        tail_batches: batches that a tail takes, at least 1; half of the budget at most.
    Raises:
        ChoiceError: no schedule has that name.
    """
    if name not in SCHEDULES:
        raise ChoiceError("schedule", name, SCHEDULES)
    factor: Any = SCHEDULES[name](batches, tail_batches)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def scale_rate(
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    factor: float,
) -> None:
    """Multiply the learning rate, now and for the batches to come."""
    for group in optimizer.param_groups:
        group["lr"] *= factor
    # A schedule multiplies its base rates anew at each batch; accelerate wraps it.
    schedule = getattr(schedule, "scheduler", schedule)
    schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
