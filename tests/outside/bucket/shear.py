"""A group for the keys of a Lie-access memory."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.memories import Group


class Shear(Group):
    """(x, y) to (x + a y, y)."""

    name = "shear"
    key_size, action_size = 2, 1
    identity, origin = (0.0,), (0.0, 1.0)

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        x, y = key.unbind(-1)
        return torch.stack([x + action[:, 0] * y, y], dim=-1)


def nearest(distances: Tensor, strengths: Tensor, temperature: Tensor | None) -> Tensor:
    """A weighting: strengths divided by 1 + the squared distance."""
    parts = strengths / (1 + distances)
    return parts / (parts.sum(-1, keepdim=True) + 1e-9)
