"""Weightings, which compute the weights of rows from their distances to a read head.

Axes: N rows; further axes come before it. A row of strength 0 counts as absent.

Source: Yang 2016, arXiv:1602.08671, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Final

import torch
from torch import Tensor

from unbounded.custom_components import find_function
from unbounded.errors import ConfigError

#: Computes weights [..., N] from squared distances and strengths [..., N], and temperatures [...]
#: or None.
Weighting = Callable[[Tensor, Tensor, Tensor | None], Tensor]

#: epsilon, added to squared distances. The number epsilon limits the derivative of a weight with
#: respect to a key to 1 / sqrt(epsilon). The derivative at distance 0 is 0, because the divisor
#: contains only the squared distance.
DISTANCE_FLOOR: Final = 1e-10
#: Added to temperatures.
TEMPERATURE_FLOOR: Final = 1e-6
#: A smaller sum of weights counts as 0.
TOTAL_FLOOR: Final = 1e-37


def shares(parts: Tensor, strengths: Tensor) -> Tensor:
    """Share of each row in the sum of `parts` times `strengths`, all [..., N].

    A row of strength 0 has a share of 0 and no gradient. A custom weighting can use this function.
    """
    parts = torch.where(strengths <= 0, 0, strengths * parts)
    total = parts.detach().sum(-1, keepdim=True)
    # A constant factor does not change the shares. If one row has them all, its part is then 1, and
    # its gradient is 0 without a rounding error, which a small temperature would enlarge.
    parts = parts / torch.where(total <= TOTAL_FLOOR, torch.inf, total)
    whole = parts.sum(-1, keepdim=True)
    return parts / torch.where(whole == 0, 1, whole)


def inverse_square(distances: Tensor, strengths: Tensor, temperature: Tensor | None) -> Tensor:
    """InvNorm: w_i = s_i / (d_i + epsilon) / sum_j s_j / (d_j + epsilon), [..., N].

    Args:
        distances: squared, [..., N]. strengths: s, [..., N] in [0, 1]. temperature: None.
    """
    del temperature
    return shares(1 / (distances + DISTANCE_FLOOR), strengths)


def softmax(distances: Tensor, strengths: Tensor, temperature: Tensor | None) -> Tensor:
    """SoftMax: w_i = s_i exp(-d_i / T) / sum_j s_j exp(-d_j / T), [..., N].

    Args:
        distances: squared, [..., N]. strengths: s, [..., N] in [0, 1].
        temperature: T, [...], at least 0; 1e-6 is added. Larger is flatter.
    """
    if temperature is None or distances.shape[-1] == 0:
        return torch.zeros_like(distances)
    is_row = ~(strengths <= 0)
    # A common factor does not change the weights. Powers are relative to the nearest row, so the
    # largest power is 1.
    nearest = torch.where(is_row, distances, torch.inf).amin(-1, keepdim=True).detach()
    nearest = torch.where(nearest == torch.inf, 0, nearest)
    farther = torch.where(is_row, distances, nearest) - nearest
    powers = torch.exp(-farther / (temperature.unsqueeze(-1) + TEMPERATURE_FLOOR))
    return shares(powers, strengths)


#: Weightings by their names in configs.
WEIGHTINGS: Final[dict[str, Weighting]] = {"inverse_square": inverse_square, "softmax": softmax}


def chosen_weighting(weighting: str | Weighting) -> Weighting:
    """Return the function with a name or import path, or a given function.

    Raises:
        ChoiceError: no weighting has this name. ConfigError: the package of a path was not
            imported, or has no such function; or a given function takes other arguments.
    """
    parameters = ("distances", "strengths", "temperature")
    if callable(weighting):
        try:
            signature(weighting).bind(*parameters)
        except TypeError as error:
            raise ConfigError(
                f"weighting: expected a function of ({', '.join(parameters)}), got {weighting!r}, "
                f"which does not take them: {error}."
            ) from None
        except ValueError:  # a function in C has no signature
            pass
        return weighting
    return find_function("weighting", weighting, WEIGHTINGS, parameters)
