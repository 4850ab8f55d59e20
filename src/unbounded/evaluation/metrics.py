"""Exact match and prefix accuracy: "coarse" and "fine" of Grefenstette et al."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.errors import ShapeError


def sequence_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Compute exact match and prefix accuracy of each sequence in a batch.

    exact match     = 1 if every target symbol is correct, the closing </s> among them;
    prefix accuracy = (symbols before the first error) / |target|, where |target| counts </s>.

    Teacher forcing results in the scores of greedy generation. Up to and including the first error,
    both have the same inputs, and neither score depends on later symbols.

    Args:
        predicted: tokens, int64 [B, T].
        targets: tokens, int64 [B, T].
        mask: True at the target's symbols, bool [B, T], at least one a row.
    Returns:
        exact match, bool [B], and prefix accuracy, float64 [B] in [0, 1].
    Raises:
        ShapeError: the three shapes differ, or a row has no target.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
    """
    length = check_scored(predicted, targets, mask)
    is_wrong = (predicted != targets) & mask
    is_before_error = is_wrong.cumsum(dim=1) == 0
    correct = (is_before_error & mask).sum(dim=1)
    return correct == length, correct.to(torch.float64) / length


def check_scored(predicted: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Check the arguments of a score; return the number of counted steps of each row, int64 [B].

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
