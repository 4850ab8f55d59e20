"""How the heads of a tape write and read its cells, given their weights.

Axes: B batch, R read heads, W write heads, N locations, M width.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

#: Limit of every cell and key. A rectified controller that reads what it wrote can grow without
#: bound; in float32 the cosine of eq. 6 overflows at |k| |M(i)| = 1.8e19. The papers have no limit.
LIMIT: Final = 2.0**24


def written(cells: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """M_t(i) = M_{t-1}(i) prod_w (1 - w(i) e) + sum_w w(i) a, [B, N, M], over the write heads.

    Each element is then limited to [-LIMIT, LIMIT].

    Args:
        cells: M_{t-1}, [B, N, M]. weights: w, [B, W, N].
        erase: e, [B, W, M] in [0, 1]. add: a, [B, W, M].
    Source: Graves et al. 2014, eq. 3 and 4, there for one head.
    """
    kept = (1 - weights.unsqueeze(-1) * erase.unsqueeze(2)).prod(dim=1)
    changed = cells * kept + torch.einsum("bwn,bwm->bnm", weights, add)
    return changed.clamp(-LIMIT, LIMIT)


def read(cells: Tensor, weights: Tensor) -> Tensor:
    """The read vectors of all heads, r = sum_i w(i) M(i), concatenated, [B, R M].

    Args:
        cells: M, [B, N, M]. weights: w, [B, R, N].
    Source: Graves et al. 2014, eq. 2.
    """
    return torch.einsum("brn,bnm->brm", weights, cells).flatten(1)
