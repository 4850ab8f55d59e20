"""Work over all steps at once, by torch: weights by lanes, gradients of x and of weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbounded.kernels._controllers import weights_with_gradients
from unbounded.kernels._recurrence import Gradients
from unbounded.kernels.gpu._plan import Plan


def _lanes(weight: Tensor, controller: str, is_hidden: bool) -> Tensor:
    """The rows of a weight or bias by lanes; a GRU has separate lanes for the n of x and of h."""
    if controller != "gru":
        return weight
    r_and_z, n = weight.split([2 * (len(weight) // 3), len(weight) // 3])
    zeros = torch.zeros_like(n)
    return torch.cat([r_and_z, zeros, n] if is_hidden else [r_and_z, n, zeros])


def _blocks(of_lanes: Tensor, controller: str, is_hidden: bool) -> Tensor:
    """Map the gradient of a weight's or bias's lanes to that of its rows."""
    if controller != "gru":
        return of_lanes
    r_and_z, n_of_x, n_of_h = of_lanes.split([2 * (len(of_lanes) // 4), *[len(of_lanes) // 4] * 2])
    return torch.cat([r_and_z, n_of_h if is_hidden else n_of_x])


def recurrent_weight(plan: Plan) -> Tensor:
    """[LANES H, R + H]: the weights of read vector and h."""
    op, weights = plan.op, plan.op.named_weights
    of_read_vector = _lanes(weights.weight_ih[:, plan.sizes.inputs :], op.controller, False)
    if weights.weight_hh is None:
        of_hidden = of_read_vector.new_zeros(len(of_read_vector), plan.sizes.hidden)
    else:
        of_hidden = _lanes(weights.weight_hh, op.controller, True)
    return torch.cat([of_read_vector, of_hidden], dim=1)


def of_inputs(plan: Plan) -> Tensor:
    """[T, B, LANES H]: the part of the lanes from x and the biases."""
    op, weights = plan.op, plan.op.named_weights
    weight = _lanes(weights.weight_ih[:, : plan.sizes.inputs], op.controller, False)
    total = torch.matmul(op.x, weight.t())
    for bias, is_hidden in ((weights.bias_ih, False), (weights.bias_hh, True)):
        if bias is not None:
            total += _lanes(bias, op.controller, is_hidden)
    return total


def make_products(
    plan: Plan, of_forward: dict[str, Any], of_gates: Tensor, of_heads: Tensor, written: Gradients
) -> None:
    """Write the gradients of x and of the weights: products over all steps."""
    op, sizes, weights = plan.op, plan.sizes, plan.op.named_weights
    if written.x:
        weight = _lanes(weights.weight_ih[:, : sizes.inputs], op.controller, False)
        torch.matmul(of_gates, weight, out=written.x[0])
    if not written.weights or not of_gates.numel():
        return
    flat = of_gates.flatten(0, 1)
    of_h = of_heads.flatten(0, 1)
    initial = {"read_vectors": op.state[len(sizes.carried) - 1], "outputs": op.state[0]}
    read_vector, hidden = (
        torch.cat([first.unsqueeze(0), of_forward[name][:-1]]).flatten(0, 1)
        for name, first in initial.items()
    )
    inputs = torch.cat([op.x.flatten(0, 1), read_vector], dim=1)
    total = flat.sum(0)
    gradients = {
        "weight_ih": _blocks(flat.t() @ inputs, op.controller, False),
        "weight_hh": _blocks(flat.t() @ hidden, op.controller, True),
        "bias_ih": _blocks(total, op.controller, False),
        "bias_hh": _blocks(total, op.controller, True),
        "head_weight": of_h.t() @ of_forward["outputs"].flatten(0, 1),
        "head_bias": of_h.sum(0),
    }
    names = weights_with_gradients(op.controller, weights)
    for name, target in zip(names, written.weights, strict=True):
        target.copy_(gradients[name])
