"""A controller by its name, or as a callable of the user's makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import torch
from torch import nn

from unbounded.checks import check_choice
from unbounded.errors import DTypeError
from unbounded.layers.controllers import CONTROLLERS, Controller

#: (input_size, hidden_size, device=, dtype=) -> Controller.
ControllerFactory = Callable[..., Controller]


def _check_signature(controller: ControllerFactory) -> None:
    """Raise DTypeError unless a callable takes what a layer makes its controller with."""
    try:
        signature = inspect.signature(controller)
    except ValueError:  # of a class that is not written in Python
        return
    try:
        signature.bind(1, 1, device=None, dtype=None)
    except TypeError as error:
        name = getattr(controller, "__name__", type(controller).__name__)
        raise DTypeError(
            f"controller: expected a callable (input_size, hidden_size, device=, dtype=), got "
            f"{name}{signature}: {error}."
        ) from None


def make_controller(
    controller: str | ControllerFactory,
    input_size: int,
    hidden_size: int,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
    bias: bool = True,
) -> Controller:
    """Make a controller by its name or with a callable of the user's.

    Raises:
        ChoiceError: no controller has such a name. DTypeError: the callable made something else,
            or has options of its own for biases.
    """
    if not isinstance(controller, str):
        kind: object = controller
        if isinstance(kind, type) and issubclass(kind, Mapping):
            raise DTypeError(
                f"controller: expected a callable that makes an unbounded.layers.Controller, got "
                f"the class {kind.__name__}. By name: {', '.join(CONTROLLERS)}."
            )
        if not bias:
            raise DTypeError(
                "bias: expected True beside a controller of your own; give it there, for example "
                "functools.partial(ElmanController, bias=False)."
            )
        makes = callable(controller) and not isinstance(controller, nn.Module)
        if makes:
            _check_signature(controller)
        made = controller(input_size, hidden_size, device=device, dtype=dtype) if makes else None
        if not isinstance(made, Controller):
            raise DTypeError(
                f"controller: expected a callable that makes an unbounded.layers.Controller, got "
                f"a {type(made if makes else controller).__name__}. "
                f"By name: {', '.join(CONTROLLERS)}."
            )
        return made
    check_choice("controller", controller, CONTROLLERS)
    return CONTROLLERS[controller](input_size, hidden_size, bias=bias, device=device, dtype=dtype)
