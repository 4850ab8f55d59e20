"""Read weights of a Lie-access head from the distances between its key and the rows' keys.

Axes: B batch, N rows, n coordinates of a key. A row of strength 0 counts as absent: it is not read,
changes no other weight, and gets no gradient. Without any row all weights are 0.

Source: Yang 2016, arXiv:1602.08671.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

#: epsilon, added to squared distances. It limits the derivative of a weight by a key to
#: 1 / sqrt(epsilon). The derivative at distance 0 is 0: only the squared distance is a divisor.
DISTANCE_FLOOR: Final = 1e-10
#: Added to temperatures.
TEMPERATURE_FLOOR: Final = 1e-6
#: A smaller sum of weights counts as 0.
TOTAL_FLOOR: Final = 1e-37


def squared_distances(key: Tensor, keys: Tensor) -> Tensor:
    """|q - k_i|^2, [B, N], from the head's key q [B, n] and keys [B, N, n]."""
    return (key.unsqueeze(1) - keys).square().sum(-1)


def _shares(parts: Tensor, strengths: Tensor) -> Tensor:
    """Share of each row in the sum of `parts` weighted by `strengths`, [B, N], both [B, N]."""
    parts = torch.where(strengths <= 0, 0, strengths * parts)
    total = parts.sum(-1, keepdim=True)
    return parts / torch.where(total <= TOTAL_FLOOR, torch.inf, total)


def inverse_square(distances: Tensor, strengths: Tensor, temperature: Tensor | None) -> Tensor:
    """InvNorm: w_i = s_i / (d_i + epsilon) / sum_j s_j / (d_j + epsilon), [B, N].

    Args:
        distances: squared, [B, N]. strengths: s, [B, N] in [0, 1]. temperature: None.
    """
    del temperature
    return _shares(1 / (distances + DISTANCE_FLOOR), strengths)


def softmax(distances: Tensor, strengths: Tensor, temperature: Tensor | None) -> Tensor:
    """SoftMax: w_i = s_i exp(-d_i / T) / sum_j s_j exp(-d_j / T), [B, N].

    Args:
        distances: squared, [B, N]. strengths: s, [B, N] in [0, 1].
        temperature: T, [B], at least 0; 1e-6 is added. Larger is flatter.
    """
    if temperature is None or distances.shape[1] == 0:
        return torch.zeros_like(distances)
    is_row = ~(strengths <= 0)
    # A common factor changes no weight. Relative to the nearest row, the largest power is 1.
    nearest = torch.where(is_row, distances, torch.inf).amin(-1, keepdim=True).detach()
    nearest = torch.where(nearest == torch.inf, 0, nearest)
    farther = torch.where(is_row, distances, nearest) - nearest
    powers = torch.exp(-farther / (temperature.unsqueeze(-1) + TEMPERATURE_FLOOR))
    return _shares(powers, strengths)


#: By the name that configurations use.
WEIGHTINGS: Final[dict[str, Callable[[Tensor, Tensor, Tensor | None], Tensor]]] = {
    "inverse_square": inverse_square,
    "softmax": softmax,
}
