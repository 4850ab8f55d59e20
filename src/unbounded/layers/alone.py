"""A controller without a memory on the fused kernels.

The kernels have no recurrence without a memory. The controller therefore gets a register of one
number with weights 0, which is never written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from unbounded import kernels
from unbounded.kernels import ControllerWeights
from unbounded.layers.cells import Cell, ControllerState
from unbounded.memories.core import autocast_dtype

REGISTER: Final = kernels.structure_of("register", (1,))
REGISTER_ACTIVATIONS: Final = ("identity",) * len(REGISTER.heads)
_HEAD_ROWS: Final = REGISTER.head_rows
_SIZES: Final = (1, 1)  # of the read vector and of the register's value


def why_not_alone(
    name: str | None, x: Tensor, weights: ControllerWeights, state: ControllerState
) -> str | None:
    """Why the kernels cannot serve a controller without a memory; None if they can.

    Args:
        name: the kernels' name of the controller; None without one.
        x, weights, state: of the call.
    """
    if name not in kernels.CONTROLLERS:
        return f"no kernel is built for the controller {name}"
    if weights.weight_hh is None:
        return "without recurrence there is nothing to fuse"
    if autocast_dtype(x.device) is not None:
        return "autocast computes the products in half precision"
    return kernels.why_not("recurrence", REGISTER, x, *weights, *state)


def run_alone(
    name: str,
    cell: Cell,
    x: Tensor,
    weights: ControllerWeights,
    state: ControllerState,
    lengths: Tensor | None,
) -> tuple[Tensor, ControllerState]:
    """Run a controller over a sequence in one fused call per direction.

    Args:
        name: the kernels' name of the controller. cell: its equations, for gradients of gradients.
        x: [T, B, I]. weights: of the controller, with weight_ih [G * H, I].
        state: tensors [B, H]. lengths: int64 [B] in 0..T, or None.
    Returns:
        h of every step, [T, B, H], 0 beyond a length, and the state at each length.
    Raises:
        ShapeError: lengths are not in 0..T.
    """
    weight_ih = weights.weight_ih
    wide = torch.cat([weight_ih, weight_ih.new_zeros(len(weight_ih), _SIZES[0])], dim=1)
    empty = [x.new_zeros(x.shape[1], size) for size in _SIZES]
    hidden, _, final = kernels.recurrence(
        REGISTER,
        REGISTER_ACTIVATIONS,
        name,
        x,
        lengths,
        with_register(weights, wide, state[0].shape[1]),
        [*state, *empty],
        reference=None if torch.compiler.is_compiling() else functools.partial(_reference, cell),
    )
    return hidden, final[: len(state)]


def with_register(weights: ControllerWeights, wide: Tensor, units: int) -> kernels.Weights:
    """A controller's weights with `wide` as weight_ih, [G * H, I + 1], and heads of 0."""
    heads = wide.new_zeros(_HEAD_ROWS, units)
    return kernels.Weights(*weights._replace(weight_ih=wide), heads, None)


def run_steps(
    step: Callable[[Tensor, ControllerState], ControllerState],
    x: Tensor,
    state: ControllerState,
    lengths: Tensor | None,
) -> tuple[Tensor, ControllerState]:
    """Compute `run_alone` step by step; `step` maps x_t and the last state to the next one.

    Args:
        x, state, lengths: as in `run_alone`; x has at least one step.
    """
    hidden = []
    for t, x_t in enumerate(x.unbind(0)):
        new = step(x_t, state)
        output = new[0]
        if lengths is not None:
            active = (lengths > t).unsqueeze(-1)
            output = torch.where(active, output, 0.0)
            new = tuple(
                torch.where(active, after, before) for after, before in zip(new, state, strict=True)
            )
        state = new
        hidden.append(output)
    return torch.stack(hidden), state


def _reference(
    cell: Cell,
    lengths: Tensor | None,
    x: Tensor,
    weights: kernels.Weights,
    initial: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """The fused call in differentiable steps, without the register, which stays 0."""
    *controller_weights, _, _ = weights
    narrow = ControllerWeights._make(controller_weights)
    narrow = narrow._replace(weight_ih=narrow.weight_ih[:, : -_SIZES[0]])
    *state, read_vector, value = initial
    hidden, final = run_steps(
        lambda x_t, before: cell(x_t, before, narrow), x, tuple(state), lengths
    )
    return hidden, x.new_zeros(*x.shape[:2], _SIZES[0]), *final, read_vector, value
