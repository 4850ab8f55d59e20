"""Gradients of the weights of a recurrence: large products of what its two passes left."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.kernels._shapes import CONTROLLERS


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
    kind, hidden, steps = CONTROLLERS[controller], hidden0.shape[1], x.shape[0]
    grads, of_instructions = grad_gates.flatten(0, 1), grad_instructions.flatten(0, 1)
    of_blocks, outputs = grads[:, : kind.blocks * hidden], kept["outputs"]
    of_lanes = [grads[:, lanes.start * hidden : lanes.stop * hidden] for lanes in kind.hidden_lanes]
    # An operator's results must not be one tensor.
    of_hidden, of_bias_hh = x.new_empty(0), x.new_empty(0)
    # One product over all steps for each, straight into the tensor that leaves: what the cell saw
    # one step before is laid out for it, which is little beside a product in two parts.
    seen = x.new_empty(steps, x.shape[1], x.shape[2] + reading0.shape[1])
    x_seen, reading_seen = seen[..., : x.shape[2]], seen[..., x.shape[2] :]
    x_seen.copy_(x)
    reading_seen[:1], reading_seen[1:] = reading0, kept["readings"][: max(0, steps - 1)]
    if weight_hh is not None:
        before = torch.cat((hidden0.unsqueeze(0), outputs))[:steps].flatten(0, 1)
        of_hidden, done = torch.empty_like(weight_hh), 0
        for lanes in of_lanes:
            torch.mm(lanes.t(), before, out=of_hidden[done : done + lanes.shape[1]])
            done += lanes.shape[1]
    if controller == "gru":
        of_bias_hh = torch.cat([lanes.sum(0) for lanes in of_lanes])
    return [
        torch.mm(of_blocks.t(), seen.flatten(0, 1)),
        of_hidden,
        of_blocks.sum(0),
        of_bias_hh,
        torch.mm(of_instructions.t(), outputs.flatten(0, 1)),
        of_instructions.sum(0),
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
