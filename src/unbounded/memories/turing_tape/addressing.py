"""The heads of a tape address, write and read its cells. Each equation has one function.

Axes: B batch, H heads (R read heads, W write heads), N locations, M width, S shifts. The symbols
follow Graves et al. 2014, arXiv:1410.5401, section 3. No function divides by zero, for any input.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

#: Number added under the root of a cosine similarity, as in the program of Deleu & Dureau 2016.
COSINE_FLOOR: Final = 1e-6
#: Limit of every cell and key. With a rectified controller that reads its own writes, cells can
#: grow without bound. In float32, the cosine of eq. 6 overflows at |k| |M(i)| = 1.8e19. The papers
#: do not limit cells and keys.
LIMIT: Final = 2.0**24


def cosine_similarity(keys: Tensor, cells: Tensor) -> Tensor:
    """K[k, M(i)] = k . M(i) / sqrt(|k|^2 |M(i)|^2 + 1e-6), [B, H, N].

    Args:
        keys: k, [B, H, M]. cells: M, [B, N, M].
    Source: Graves et al. 2014, eq. 6, where nothing is added under the root.
    """
    products = torch.einsum("bhm,bnm->bhn", keys, cells)
    key_squares = keys.square().sum(-1).unsqueeze(2)
    cell_squares = cells.square().sum(-1).unsqueeze(1)
    return products / torch.sqrt(key_squares * cell_squares + COSINE_FLOOR)


def content_weights(keys: Tensor, strengths: Tensor, cells: Tensor) -> Tensor:
    """w^c(i), proportional to exp(beta K[k, M(i)]), [B, H, N].

    Args:
        keys: k, [B, H, M]. strengths: beta, [B, H], at least 0. cells: M, [B, N, M].
    Source: Graves et al. 2014, eq. 5.
    """
    return torch.softmax(strengths.unsqueeze(-1) * cosine_similarity(keys, cells), dim=-1)


def interpolated(content: Tensor, before: Tensor, gates: Tensor) -> Tensor:
    """w^g = g w^c + (1 - g) w_{t-1}, [B, H, N].

    Args:
        content, before: w^c and w_{t-1}, [B, H, N]. gates: g, [B, H] in [0, 1].
    Source: Graves et al. 2014, eq. 7.
    """
    gate = gates.unsqueeze(-1)
    return gate * content + (1 - gate) * before


def shifted(weights: Tensor, shifts: Tensor, *, circular: bool) -> Tensor:
    """w~(i) = sum_j w^g(i - j) s(j) for j from -s to s, [B, H, N].

    Args:
        weights: w^g, [B, H, N].
        shifts: s, [B, H, S], the weight of each j in order; S = 2 s + 1, and s is at most N.
        circular: whether i - j is taken modulo N, so that shifts that differ by N are one move.
            Otherwise the ends of the tape are open: zero weight enters and weight that leaves is
            lost.
    Source: Graves et al. 2014, eq. 8; not circular as in the program of Deleu & Dureau 2016.
    """
    count, reach = weights.shape[-1], shifts.shape[-1] // 2
    if circular:
        around = torch.cat([weights[..., count - reach :], weights, weights[..., :reach]], dim=-1)
    else:
        around = F.pad(weights, (reach, reach))
    # Window p starts at location p - s. The window is the result of a shift by s - p.
    windows = around.unfold(-1, count, 1)
    return torch.einsum("bhs,bhsn->bhn", shifts.flip(-1), windows)


def sharpened(weights: Tensor, sharpening: Tensor, floor: float) -> Tensor:
    """w(i) = (w~(i) + floor)^gamma / sum_j (w~(j) + floor)^gamma, [B, H, N].

    The largest logarithm is subtracted before powers are computed, so no sum of powers vanishes.
    The weights sum to 1 again, even if a shift lost some weight at an end. If a head has lost all
    its weight, its weights are uniform.

    Args:
        weights: w~, [B, H, N]. sharpening: gamma, [B, H], at least 1. floor: above 0.
    Source: Graves et al. 2014, eq. 9, where the floor is 0.
    """
    return torch.softmax(sharpening.unsqueeze(-1) * torch.log(weights + floor), dim=-1)


def written(cells: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """M_t(i) = M_{t-1}(i) prod_w (1 - w(i) e) + sum_w w(i) a, [B, N, M], over the write heads.

    Each element of M_t is limited to [-LIMIT, LIMIT].

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
