"""The same equations fused over time: tensors and names in, tensors out."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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


__all__ = ["ControllerWeights"]
