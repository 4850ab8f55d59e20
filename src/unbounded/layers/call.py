"""Checks of what a recurrent layer is called with."""

from __future__ import annotations

from torch import Tensor

from unbounded.checks import check_floating, check_like
from unbounded.errors import ShapeError


def check_inputs(x: Tensor, like: Tensor) -> None:
    """Check inputs [T, B, I]; the messages name them.

    Args:
        like: one of the layer's parameters.
    Raises:
        ShapeError, DTypeError, DeviceError: they are empty, or disagree with the parameters.
    """
    if 0 in x.shape[:2]:
        raise ShapeError(f"x: expected at least one step and one sequence, got {list(x.shape)}.")
    check_floating("x", x)
    check_like("x", x, "the layer's parameters", like)
