"""What training minimises: cross entropy over the steps that count, in nats per token or label."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from unbounded.errors import ShapeError

#: No token has this number, and no target by mistake: -100, torch's own, is an error here.
LEFT_OUT: Final = -(2**62)


def masked_cross_entropy(
    logits: Tensor, targets: Tensor, mask: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Cross entropy summed over the counted steps, in nats.

    The sum, not the mean: whoever shares a batch among processes divides by the tokens of all.

    Args:
        logits: [B, T, V].
        targets: tokens, int64 [B, T].
        mask: steps that count, bool [B, T]. The logits of others cost nothing but must be finite
            for finite gradients.
        label_smoothing: share of each target that is spread over all V tokens, in [0, 1].
    Returns:
        A scalar in the dtype of `logits`, at least float32.
    Raises:
        ShapeError: an axis disagrees.
    """
    if logits.dim() != 3 or logits.shape[:2] != targets.shape or mask.shape != targets.shape:
        raise ShapeError(
            "logits must be [B, T, V] with targets and mask [B, T]; got "
            f"{tuple(logits.shape)}, {tuple(targets.shape)}, {tuple(mask.shape)}"
        )
    flat = logits.flatten(0, 1)
    if flat.element_size() < 4:
        flat = flat.float()
    # Leaving steps out by their target copies no logits: of 10 000 words half the time is that.
    chosen = targets.masked_fill(~mask, LEFT_OUT).flatten()
    return functional.cross_entropy(
        flat,
        chosen,
        reduction="sum",
        ignore_index=LEFT_OUT,
        label_smoothing=label_smoothing,
    )


def masked_binary_cross_entropy(
    logits: Tensor, targets: Tensor, mask: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Binary cross entropy summed over the counted steps, in nats.

    Args:
        logits: [B, T, 1]; above 0 says 1.
        targets: 0 or 1, int64 [B, T].
        mask: steps that count, bool [B, T].
        label_smoothing: share of each target that is spread over 0 and 1, in [0, 1].
    Returns:
        A scalar in the dtype of `logits`, at least float32.
    Raises:
        ShapeError: an axis disagrees.
    """
    if logits.shape != (*targets.shape, 1) or mask.shape != targets.shape:
        raise ShapeError(
            "logits must be [B, T, 1] with targets and mask [B, T]; got "
            f"{tuple(logits.shape)}, {tuple(targets.shape)}, {tuple(mask.shape)}"
        )
    counted = logits[..., 0][mask]
    if counted.element_size() < 4:
        counted = counted.float()
    return _binary(counted, targets[mask], label_smoothing)


def masked_bit_cross_entropy(
    logits: Tensor, targets: Tensor, mask: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Binary cross entropy of the bits of a number, summed over bits and counted steps, in nats.

    Args:
        logits: [B, T, K]; above 0 says that a bit is 1, the lowest bit first.
        targets: numbers in 0..2**K - 1, int64 [B, T].
        mask: steps that count, bool [B, T].
        label_smoothing: share of each bit that is spread over 0 and 1, in [0, 1].
    Returns:
        A scalar in the dtype of `logits`, at least float32.
    Raises:
        ShapeError: an axis disagrees.
    """
    if logits.dim() != 3 or logits.shape[:2] != targets.shape or mask.shape != targets.shape:
        raise ShapeError(
            "logits must be [B, T, K] with targets and mask [B, T]; got "
            f"{tuple(logits.shape)}, {tuple(targets.shape)}, {tuple(mask.shape)}"
        )
    counted = logits[mask]
    if counted.element_size() < 4:
        counted = counted.float()
    places = torch.arange(logits.shape[-1], device=targets.device)
    bits = (targets[mask].unsqueeze(-1) >> places) & 1
    return _binary(counted, bits, label_smoothing)


def _binary(logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    wanted = targets.to(logits.dtype)
    if label_smoothing:
        wanted = wanted * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")


def _likelier_bits(logits: Tensor) -> Tensor:
    places = torch.arange(logits.shape[-1], device=logits.device)
    return ((logits > 0).to(torch.int64) << places).sum(dim=-1)


class Objective(NamedTuple):
    """What a task's objective is to a model.

    Fields:
        loss: of logits [B, T, V], targets and mask [B, T], and by name of label_smoothing: the sum
            over counted steps, in nats.
        predict: the targets that logits [B, T, V] say, int64 [B, T].
    """

    loss: Callable[..., Tensor]
    predict: Callable[[Tensor], Tensor]


#: The objectives by the name that a task gives.
OBJECTIVES: Final[dict[str, Objective]] = {
    "cross_entropy": Objective(masked_cross_entropy, lambda logits: logits.argmax(dim=-1)),
    "binary": Objective(
        masked_binary_cross_entropy, lambda logits: (logits[..., 0] > 0).to(torch.int64)
    ),
    "bits": Objective(masked_bit_cross_entropy, _likelier_bits),
}


#: Objectives whose logits are of yes or no.
CLIPPED: Final = ("binary", "bits")


def training_loss(
    objective: str, *, prediction_clip: float = 0.0, label_smoothing: float = 0.0
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What a step of training minimises: the loss of an objective, or one that is changed.

    Args:
        objective: one of `OBJECTIVES`.
        prediction_clip: chances of yes or no are cut to it and 1 less it, in (0, 0.5), or 0 for no
            cut; of an objective in `CLIPPED`. Beyond them a prediction has no gradient, and costs
            no more than -log(prediction_clip).
        label_smoothing: share of each target that is spread over all that could be said, in [0, 1].
            Above 0 a prediction that is right has a gradient still, until it is as sure as that;
            beyond a prediction_clip there is none all the same.
    Source: label smoothing: Szegedy et al. 2016, arXiv:1512.00567, section 7.
    """
    loss = OBJECTIVES[objective].loss
    if label_smoothing:
        loss = functools.partial(loss, label_smoothing=label_smoothing)
    if not prediction_clip:
        return loss
    bound = math.log((1 - prediction_clip) / prediction_clip)
    return lambda logits, targets, mask: loss(logits.clamp(-bound, bound), targets, mask)


def perplexity(nats_per_token: float) -> float:
    """Exponential of the mean cross entropy; infinite where that leaves the range of a float."""
    try:
        return math.exp(nats_per_token)
    except OverflowError:
        return math.inf
