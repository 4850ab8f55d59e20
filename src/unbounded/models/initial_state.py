"""A learned initial state as a linear map of 1, as in the Lie-access authors' program.

In the authors' program, the initial state is computed by a Linear(1, S) with input 1. So each
number is learned twice, as a weight and as a bias, and the two are added. A model with this map is
not more expressive. With this map, the initial state learns twice as fast, and the number of
parameters equals the paper's.

Source: Yang & Rush 2017, arXiv:1611.02854, the authors' program; the counts of Yang 2016.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import parametrize

from unbounded.rnn import ControllerRNN, DeepLSTM, MemoryLayer
from unbounded.rnn.initial_values import InitialMemory


class OfOne(nn.Module):
    """A linear map of the number 1: weight plus bias."""

    def forward(self, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the state, in the shape of both."""
        return weight + bias

    def right_inverse(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return a weight and a bias whose sum is the state."""
        return state, state.new_zeros(state.shape)


def map_initial_state(layer: nn.Module) -> None:
    """Make each learned number of a layer's initial state a weight plus a bias, in place.

    Args:
        layer: newly created; constant initial values stay.
    """
    for part in list(layer.modules()):
        if isinstance(part, MemoryLayer) and part.initial_controller is not None:
            for place in range(len(part.initial_controller)):
                parametrize.register_parametrization(part.initial_controller, str(place), OfOne())
        if isinstance(part, InitialMemory):
            part.map_one()
        if isinstance(part, DeepLSTM | ControllerRNN) and part.initial is not None:
            parametrize.register_parametrization(part, "initial", OfOne())
