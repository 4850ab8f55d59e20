"""The recurrent cells of the controllers, each a function of its weights.

The input of a cell is concat(x_t, r_{t-1}).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.errors import ChoiceError
from unbounded.kernels import ControllerWeights

ControllerState = tuple[Tensor, ...]
Cell = Callable[[Tensor, ControllerState, ControllerWeights], ControllerState]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
}


def _linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply a linear map; under autocast the result is cast to the weights' dtype."""
    return F.linear(inputs, weight, bias).to(weight.dtype)


def lstm_cell(
    inputs: Tensor, state: ControllerState, weights: ControllerWeights
) -> ControllerState:
    """One step of an LSTM, gates in the order i, f, g, o as in torch.nn.LSTM.

    Args:
        inputs: [B, I + R]. state: (h, c), each [B, H].
    """
    h, c = state
    gates = _linear(inputs, weights.weight_ih, weights.bias_ih)
    if weights.weight_hh is not None:
        gates = gates + _linear(h, weights.weight_hh, weights.bias_hh)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(inputs: Tensor, state: ControllerState, weights: ControllerWeights) -> ControllerState:
    """One step of a GRU, gates in the order r, z, n as in torch.nn.GRU.

    Args:
        inputs: [B, I + R]. state: (h,), [B, H].
    """
    (h,) = state
    if weights.weight_hh is None:
        raise ChoiceError("GRU controller without recurrence", "weight_hh = None", ["weight_hh"])
    input_r, input_z, input_n = _linear(inputs, weights.weight_ih, weights.bias_ih).chunk(3, -1)
    hidden_r, hidden_z, hidden_n = _linear(h, weights.weight_hh, weights.bias_hh).chunk(3, -1)
    reset = torch.sigmoid(input_r + hidden_r)
    update = torch.sigmoid(input_z + hidden_z)
    candidate = torch.tanh(input_n + reset * hidden_n)
    return (candidate + update * (h - candidate),)


def elman_cell(
    inputs: Tensor,
    state: ControllerState,
    weights: ControllerWeights,
    activation: str = "tanh",
) -> ControllerState:
    """One step of an Elman network; without weight_hh it is a feed-forward controller.

    Args:
        inputs: [B, I + R]. state: (h,), [B, H].
    """
    (h,) = state
    total = _linear(inputs, weights.weight_ih, weights.bias_ih)
    if weights.weight_hh is not None:
        total = total + _linear(h, weights.weight_hh, weights.bias_hh)
    elif weights.bias_hh is not None:
        total = total + weights.bias_hh
    return (ACTIVATIONS[activation](total),)
