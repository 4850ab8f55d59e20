"""Creates a controller from a name or a user's callable."""

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
    """Raise DTypeError unless a callable takes a controller's arguments."""
    try:
        signature = inspect.signature(controller)
    except ValueError:  # a class not written in Python
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
    """Create a controller from its name or a user's callable.

    Raises:
        ChoiceError: an unknown name. DTypeError: the callable returns no Controller, or `bias` is
            False with a callable.
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
                "bias: expected True with a custom controller; give it there, for example "
                "functools.partial(ElmanController, bias=False)."
            )
        is_factory = callable(controller) and not isinstance(controller, nn.Module)
        if is_factory:
            _check_signature(controller)
        result: object = controller
        if is_factory:
            result = controller(input_size, hidden_size, device=device, dtype=dtype)
        if not isinstance(result, Controller) or not is_factory:
            raise DTypeError(
                f"controller: expected a callable that makes an unbounded.layers.Controller, got "
                f"a {type(result).__name__}. By name: {', '.join(CONTROLLERS)}."
            )
        return result
    check_choice("controller", controller, CONTROLLERS)
    return CONTROLLERS[controller](input_size, hidden_size, bias=bias, device=device, dtype=dtype)
