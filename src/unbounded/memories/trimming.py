"""Taking away rows that never come back, so that a state carried from call to call stays short."""

from __future__ import annotations

import torch
from torch import Tensor


def live_rows(strengths: Tensor, *fields: Tensor) -> tuple[Tensor, ...]:
    """Keep the rows of strength above 0 in their order, and as many dead ones as batches need.

    Exact: a row without strength is neither read nor popped, adds 0 to every sum, and gets none
    back. Sequences with fewer live rows than others keep dead ones before them.

    Args:
        strengths: [B, N], of at least 0. fields: [B, N, ...], whose rows they belong to.
    Returns:
        the strengths and the fields with N' rows, as many as the fullest sequence has.
    """
    rows = strengths.shape[1]
    live = ~(strengths <= 0)  # so that NaN stays, to be seen
    most = int(live.sum(dim=1).max()) if live.numel() else 0
    if most == rows:
        return (strengths, *fields)
    # False before True, and otherwise as they were.
    order = live.to(torch.int8).argsort(dim=1, stable=True)[:, rows - most :]
    taken = [strengths.gather(1, order)]
    for field in fields:
        index = order.view(*order.shape, *(1,) * (field.dim() - 2))
        taken.append(field.gather(1, index.expand(*order.shape, *field.shape[2:])))
    return tuple(taken)


def used_cells(cells: Tensor, empty: float) -> int:
    """How many cells there are to the last that is not empty in all lists of all sequences.

    Args:
        cells: [B, S, N].
    """
    used = (cells != empty).flatten(0, 1).any(dim=0).nonzero()
    return int(used.max()) + 1 if used.numel() else 0
