"""A learned first state as the authors of Lie-access memories have it: a linear map of one number.

Their first state comes from a Linear(1, S) that is fed 1, so that each number is learned twice: as
a weight and as a bias, which are added. Such a model can do no more, its first state moves twice as
fast, and its parameters are as many as the paper counts.

Source: Yang & Rush 2017, arXiv:1611.02854, the authors' program; the counts of Yang 2016.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import parametrize

from unbounded.layers import ControllerRNN, DeepLSTM, MemoryRNN
from unbounded.layers.initial_memory import InitialMemory


class OfOne(nn.Module):
    """What a linear map makes of the number 1: weight and bias, added."""

    def forward(self, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the state, in the shape of both."""
        return weight + bias

    def right_inverse(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return a weight and a bias that make a state."""
        return state, state.new_zeros(state.shape)


def map_initial_state(layer: nn.Module) -> None:
    """Make every learned number of a layer's first state the sum of a weight and a bias, in place.

    Args:
        layer: freshly made; what begins with a constant stays as it is.
    """
    for part in list(layer.modules()):
        if isinstance(part, MemoryRNN) and part.initial_controller is not None:
            for place in range(len(part.initial_controller)):
                parametrize.register_parametrization(part.initial_controller, str(place), OfOne())
        if isinstance(part, InitialMemory):
            part.map_one()
        if isinstance(part, DeepLSTM | ControllerRNN) and part.initial is not None:
            parametrize.register_parametrization(part, "initial", OfOne())
