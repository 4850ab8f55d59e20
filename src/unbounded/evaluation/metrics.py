"""Coarse and fine accuracy, exactly as Grefenstette et al. define them."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.errors import ShapeError


def sequence_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Score each sequence of a batch.

    coarse = 1 if every target symbol is right, the closing </s> among them;
    fine   = (symbols right before the first error) / |target|, where |target| counts </s>.

    A teacher-forced prediction gives the numbers of greedy generation: up to and including the
    first error both have read the same symbols, and neither score looks further.

    Args:
        predicted: tokens, int64 [B, T].
        targets: tokens, int64 [B, T].
        mask: True at the target's symbols, bool [B, T], at least one a row.
    Returns:
        coarse, bool [B], and fine, float64 [B] in [0, 1].
    Raises:
        ShapeError: the three shapes differ, or a row has no target.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
    """
    length = check_scored(predicted, targets, mask)
    wrong = (predicted != targets) & mask
    flawless = wrong.cumsum(dim=1) == 0
    right = (flawless & mask).sum(dim=1)
    return right == length, right.to(torch.float64) / length


def check_scored(predicted: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Check what is scored; how many steps of each row count, int64 [B].

    Raises:
        ShapeError: the three shapes differ, or a row has no target.
    """
    if not predicted.shape == targets.shape == mask.shape or predicted.dim() != 2:
        raise ShapeError(
            "predicted, targets and mask must have one shape [B, T]; got "
            f"{tuple(predicted.shape)}, {tuple(targets.shape)}, {tuple(mask.shape)}"
        )
    length = mask.sum(dim=1)
    if bool((length == 0).any()):
        raise ShapeError("mask must be True somewhere in each row; a row has no target symbol")
    return length
