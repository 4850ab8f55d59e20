"""The rows of a Lie-access memory: appended one a step, and with a cap the oldest let go."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """Rows of a memory, the oldest first.

    Fields:
        keys: k, [B, N, n]. values: v, [B, N, M].
        strengths: s, [B, N] in [0, 1]; 0 is no row.
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor


def appended(rows: Rows, new: Rows, capacity: int | None, drop: int) -> Rows:
    """Append a row to each sequence.

    Args:
        rows: N of them. new: one a sequence, [B, 1, ...].
        capacity: most rows; None for no limit.
        drop: how many of the oldest rows, at most `capacity`, are let go where a sequence has
            `capacity` rows and one is to be written.
    Returns:
        N + 1 rows. At the capacity there are as many as before: a place without a row, the oldest
        of them, is taken away, and where strength 0 is written nothing changes.
    """
    count = rows.strengths.shape[1]
    if capacity is None or count < capacity:
        return Rows(*(torch.cat(pair, dim=1) for pair in zip(rows, new, strict=True)))
    places = torch.arange(count, device=rows.strengths.device)
    is_row, writes = ~(rows.strengths <= 0), ~(new.strengths <= 0)
    lost = is_row.all(dim=1, keepdim=True) & (places < drop)
    free = (lost | ~is_row).to(torch.int8).argmax(dim=1, keepdim=True)
    kept = places[:-1] + (places[:-1] >= free)
    left = rows._replace(strengths=torch.where(lost, 0, rows.strengths))
    fields = []
    for before, of_left, last in zip(rows, left, new, strict=True):
        beside = (1,) * (before.dim() - 2)
        index = kept.view(*kept.shape, *beside).expand(*kept.shape, *before.shape[2:])
        after = torch.cat([of_left.gather(1, index), last], dim=1)
        fields.append(torch.where(writes.view(-1, 1, *beside), after, before))
    return Rows(*fields)
