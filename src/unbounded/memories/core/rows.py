"""Rows of values with strengths. A strength of 0 represents an absent row."""

from __future__ import annotations

import torch
from torch import Tensor


def read_rows(weights: Tensor, values: Tensor) -> Tensor:
    """Return r_t = sum_i w_t[i] V_t[i], [B, M], from weights [B, N] and values [B, N, M]."""
    return torch.matmul(weights.unsqueeze(1), values).squeeze(1)


def live_rows(strengths: Tensor, *fields: Tensor) -> tuple[Tensor, ...]:
    """Keep rows of strength above 0 in order, and empty rows as the batch's shape requires.

    The result is exact, because a row of strength 0 is neither read nor popped, adds 0 to every
    sum, and has no gradient. A sequence with fewer rows of positive strength than others keeps
    empty rows before them.

    Args:
        strengths: [B, N], at least 0. fields: [B, N, ...], further fields of the same rows.
    Returns:
        the strengths and the fields with N' rows, the number of live rows in the fullest sequence.
    """
    rows = strengths.shape[1]
    live = ~(strengths <= 0)  # keeps NaN visible
    most = int(live.sum(dim=1).max()) if live.numel() else 0
    if most == rows:
        return (strengths, *fields)
    # The sort is stable: rows of strength 0 come first, and the order is otherwise unchanged.
    order = live.to(torch.int8).argsort(dim=1, stable=True)[:, rows - most :]
    taken = [strengths.gather(1, order)]
    for field in fields:
        index = order.view(*order.shape, *(1,) * (field.dim() - 2))
        taken.append(field.gather(1, index.expand(*order.shape, *field.shape[2:])))
    return tuple(taken)
