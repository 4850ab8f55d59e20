"""Gradients of the weights of a recurrence, and that of its input."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from unbounded.kernels._shapes import CONTROLLERS

#: In the order of the backward operators' results.
WEIGHT_GRADIENTS: Final = (
    "grad_weight_ih",
    "grad_weight_hh",
    "grad_bias_ih",
    "grad_bias_hh",
    "grad_head_weight",
    "grad_head_bias",
)


def input_gradient(controller: str, grad_gates: Tensor, weight_ih: Tensor, x: Tensor) -> Tensor:
    """The gradient of x [T, B, I]."""
    columns = CONTROLLERS[controller].blocks * grad_gates.shape[2] // CONTROLLERS[controller].lanes
    flat = grad_gates[..., :columns].flatten(0, 1)
    return torch.mm(flat, weight_ih[:, : x.shape[2]]).view_as(x)


def new_weight_gradients(
    controller: str,
    weight_ih: Tensor,
    weight_hh: Tensor | None,
    head_weight: Tensor,
    *,
    needed: bool,
    steps: int,
) -> dict[str, Tensor]:
    """Room for the gradients of weight_ih, weight_hh, both biases, head_weight and head_bias.

    Args:
        needed: without it all are empty. steps: T * B; without any the sums over them are 0.
    Returns:
        six tensors by name, empty ones for what the controller does not have; bias_hh is a GRU's.
    """
    shapes: tuple[tuple[int, ...], ...] = (
        tuple(weight_ih.shape),
        (0,) if weight_hh is None else tuple(weight_hh.shape),
        (weight_ih.shape[0],),
        (weight_ih.shape[0] if controller == "gru" else 0,),
        tuple(head_weight.shape),
        (head_weight.shape[0],),
    )
    make = weight_ih.new_empty if steps else weight_ih.new_zeros
    return {
        name: make(shape if needed else (0,))
        for name, shape in zip(WEIGHT_GRADIENTS, shapes, strict=True)
    }
