"""Room for the gradients of the weights of a recurrence."""

from __future__ import annotations

from typing import Final

from torch import Tensor

#: In the order of the backward operators' results.
WEIGHT_GRADIENTS: Final = (
    "grad_weight_ih",
    "grad_weight_hh",
    "grad_bias_ih",
    "grad_bias_hh",
    "grad_head_weight",
    "grad_head_bias",
)


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
