"""First weights that belong to a paper rather than to a kind of layer."""

from __future__ import annotations

import torch
from torch import nn

from unbounded.errors import ConfigError


def draw_sums(module: nn.Module, bound: float = 0.1, terms: int = 3) -> None:
    """Draw each entry of each parameter as a sum of uniform numbers, nearly N(0, terms bound^2/3).

    Args:
        module: whose parameters are drawn, in their order, from torch's generator.
        bound: each term is uniform in (-bound, bound); above 0.
        terms: how many, at least 1. With 3 of 0.1 it is the first weights of the authors' program.
    Raises:
        ConfigError: `bound` or `terms` is out of range.
    Source: the authors' program of Joulin & Mikolov 2015.
    """
    faults = []
    if not bound > 0:
        faults.append(f"bound: expected a number above 0, got {bound!r}")
    if terms < 1:
        faults.append(f"terms: expected an integer >= 1, got {terms!r}")
    if faults:
        raise ConfigError(faults)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.rand(terms, *parameter.shape, dtype=parameter.dtype)
            parameter.copy_((bound * (2 * drawn - 1)).sum(dim=0))
