"""The rows of a Lie-access memory: one is appended per step; at capacity the oldest are dropped."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """Rows of a memory, the oldest first.

    Fields:
        keys: k, [B, N, n]. values: v, [B, N, M].
        strengths: s, [B, N] in [0, 1]; strength 0 means no row.
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor


def appended(rows: Rows, new: Rows, capacity: int | None, drop: int) -> Rows:
    """Append a row to each sequence.

    Args:
        rows: N rows. new: one row per sequence, [B, 1, ...].
        capacity: largest number of rows; None for no limit.
        drop: number of oldest rows, at most `capacity`, that are dropped if a sequence has
            `capacity` rows and writes another.
    Returns:
        N + 1 rows, or N at capacity. There the oldest place without a row is removed. A sequence
        that writes with strength 0 stays as it is.
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
        trailing = (1,) * (before.dim() - 2)
        index = kept.view(*kept.shape, *trailing).expand(*kept.shape, *before.shape[2:])
        after = torch.cat([of_left.gather(1, index), last], dim=1)
        fields.append(torch.where(writes.view(-1, 1, *trailing), after, before))
    return Rows(*fields)
