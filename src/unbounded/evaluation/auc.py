"""Area under the ROC curve, and its standard error by DeLong's method."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError

# Quantile of the normal distribution for 95 % intervals.
_NORMAL_95 = 1.959963984540054


class Auc(NamedTuple):
    """The area under a ROC curve with its confidence interval.

    Fields:
        area: the probability that a positive scores above a negative (ties: half), in [0, 1].
        low, high: DeLong's 95 % interval, clipped to [0, 1]. Its width is 0 where the area is 0 or
            1; the certainty is then given by the numbers of positives and negatives.
    """

    area: float
    low: float
    high: float


def auc(scores: Tensor, labels: Tensor) -> Auc | None:
    """The area under the ROC curve with its interval; None where a class is missing.

    Args:
        scores: higher is more positive, [N]; only their order counts.
        labels: 0 or 1, [N].
    Raises:
        ShapeError: the two shapes differ, or are not [N].
    Source: DeLong, DeLong & Clarke-Pearson 1988, with the midranks of Sun & Xu 2014.
    """
    # The import takes half a second, and most commands do not need it.
    from scipy.stats import rankdata

    if scores.shape != labels.shape or scores.dim() != 1:
        raise ShapeError(
            "scores and labels must have one shape [N]; got "
            f"{tuple(scores.shape)} and {tuple(labels.shape)}"
        )
    positive = labels > 0
    positives = int(positive.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        return None
    ranks = torch.as_tensor(rankdata(scores.double().numpy()))
    above = _places(scores, ranks, positive) / negatives
    area = float(above.mean())
    below = 1 - _places(scores, ranks, ~positive) / positives
    error = math.sqrt(_variance_of_mean(above) + _variance_of_mean(below))
    width = _NORMAL_95 * error
    return Auc(area, max(0.0, area - width), min(1.0, area + width))


def _places(scores: Tensor, ranks: Tensor, is_in_class: Tensor) -> Tensor:
    """For each member of a class, how many of the other score below it, ties counting half."""
    from scipy.stats import rankdata

    return ranks[is_in_class] - torch.as_tensor(rankdata(scores[is_in_class].double().numpy()))


def _variance_of_mean(values: Tensor) -> float:
    return float(values.var()) / len(values) if len(values) > 1 else 0.0
