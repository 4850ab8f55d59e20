"""Gradients of the weights of a recurrence: large products of what its two passes left."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.kernels._shapes import CONTROLLERS


def over_steps(grad: Tensor, earlier: Tensor, before: Tensor) -> Tensor:
    """Sum over t of grad[t]^T earlier[t - 1], where earlier[-1] is `before`."""
    if grad.shape[0] == 0:
        return grad.new_zeros(grad.shape[2], before.shape[1])
    total = torch.mm(grad[0].t(), before)
    if grad.shape[0] > 1:
        total.addmm_(grad[1:].flatten(0, 1).t(), earlier[:-1].flatten(0, 1))
    return total


def input_gradient(controller: str, grad_gates: Tensor, weight_ih: Tensor, x: Tensor) -> Tensor:
    """The gradient of x [T, B, I]."""
    columns = CONTROLLERS[controller].blocks * grad_gates.shape[2] // CONTROLLERS[controller].lanes
    flat = grad_gates[..., :columns].flatten(0, 1)
    return torch.mm(flat, weight_ih[:, : x.shape[2]]).view_as(x)


def weight_gradients(
    controller: str,
    x: Tensor,
    weight_hh: Tensor | None,
    grad_gates: Tensor,
    grad_instructions: Tensor,
    kept: dict[str, Tensor],
    hidden0: Tensor,
    reading0: Tensor,
) -> list[Tensor]:
    """Gradients of weight_ih, weight_hh, bias_ih, bias_hh, head_weight and head_bias.

    Args:
        grad_gates: [T, B, lanes H]. grad_instructions: [T, B, K].
        kept: "outputs" [T, B, H] and "readings" [T, B, R] of the forward pass.
    Returns:
        six tensors, empty ones for what the controller does not have; bias_hh is a GRU's.
    """
    kind, hidden = CONTROLLERS[controller], hidden0.shape[1]
    grad_blocks = grad_gates[..., : kind.blocks * hidden]
    flat_blocks, flat_instructions = grad_blocks.flatten(0, 1), grad_instructions.flatten(0, 1)
    of_lanes = [
        grad_gates[..., lanes.start * hidden : lanes.stop * hidden] for lanes in kind.hidden_lanes
    ]
    none = x.new_empty(0)
    of_hidden = none
    if weight_hh is not None:
        of_hidden = torch.cat([over_steps(lanes, kept["outputs"], hidden0) for lanes in of_lanes])
    of_input = torch.mm(flat_blocks.t(), x.flatten(0, 1))
    return [
        torch.cat((of_input, over_steps(grad_blocks, kept["readings"], reading0)), 1),
        of_hidden,
        flat_blocks.sum(0),
        torch.cat([lanes.sum((0, 1)) for lanes in of_lanes]) if controller == "gru" else none,
        torch.mm(flat_instructions.t(), kept["outputs"].flatten(0, 1)),
        flat_instructions.sum(0),
    ]


def empty_weight_gradients(
    controller: str, weight_ih: Tensor, weight_hh: Tensor | None, head_weight: Tensor
) -> list[Tensor]:
    """Tensors of the shapes that `weight_gradients` returns."""
    new = weight_ih.new_empty
    return [
        new(weight_ih.shape),
        new(0) if weight_hh is None else new(weight_hh.shape),
        new(weight_ih.shape[0]),
        new(weight_ih.shape[0]) if controller == "gru" else new(0),
        new(head_weight.shape),
        new(head_weight.shape[0]),
    ]
