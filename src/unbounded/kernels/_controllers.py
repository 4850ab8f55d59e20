"""The controllers with kernels, and their weights."""

from __future__ import annotations

from typing import Final, NamedTuple

from torch import Tensor


class ControllerKind(NamedTuple):
    """The properties of a controller that are not in its C++ file.

    Fields:
        blocks: row blocks of H in weight_ih and weight_hh.
        lanes: H-wide sums of products per step, as in csrc/controllers.h.
        has_cell: whether the state holds a cell.
        needs_recurrence: whether weight_hh is required.
        has_two_biases: whether bias_hh has a separate gradient.
    """

    blocks: int
    lanes: int
    has_cell: bool = False
    needs_recurrence: bool = False
    has_two_biases: bool = False

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the state's tensors."""
        return ("hidden", "cell") if self.has_cell else ("hidden",)


_ELMAN: Final = ControllerKind(1, 1)
CONTROLLERS: Final = {
    "lstm": ControllerKind(4, 4, has_cell=True, needs_recurrence=True),
    "gru": ControllerKind(3, 4, needs_recurrence=True, has_two_biases=True),
    "elman_tanh": _ELMAN,
    "elman_sigmoid": _ELMAN,
    "elman_relu": _ELMAN,
}


class ControllerWeights(NamedTuple):
    """The weights of a controller, G gates of H units each.

    Fields:
        weight_ih: [G * H, I + R]. weight_hh: [G * H, H] or None without recurrence.
        bias_ih, bias_hh: [G * H] or None.
    """

    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None


#: Optional weights of a recurrence.
OPTIONAL_WEIGHTS: Final = ("weight_hh", "bias_ih", "bias_hh", "head_bias")


class Weights(NamedTuple):
    """The weights of a recurrence: the weights of its controller and heads.

    Fields:
        weight_ih, weight_hh, bias_ih, bias_hh: see ControllerWeights.
        head_weight: [K, H]; rows in the order of the memory's instruction. head_bias: [K] or None.
    """

    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    head_weight: Tensor
    head_bias: Tensor | None


def weights_with_gradients(controller: str, weights: Weights) -> tuple[str, ...]:
    """Names of the weights for which the backward operator computes gradients."""
    without = set() if weights.weight_hh is not None else {"weight_hh"}
    if not CONTROLLERS[controller].has_two_biases:
        without.add("bias_hh")  # has the gradient of bias_ih, as both are added
    return tuple(name for name in Weights._fields if name not in without)
