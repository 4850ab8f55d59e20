"""Training objectives: cross entropy over the counted steps, in nats."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from unbounded.errors import ShapeError

#: Target of the steps that do not count. Torch's own value, -100, is an error here.
LEFT_OUT: Final = -(2**62)


def masked_cross_entropy(
    logits: Tensor, targets: Tensor, mask: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Cross entropy summed over the counted steps, in nats.

    The loss is a sum, not a mean, because with several processes it is divided by the number of
    tokens of all processes.

    Args:
        logits: [B, T, V].
        targets: tokens, int64 [B, T].
        mask: steps that count, bool [B, T]. Other logits do not change the loss, but gradients are
            finite only if all logits are.
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
    # Masking targets does not copy logits. With 10 000 tokens, this copy would take half of the
    # time.
    kept_targets = targets.masked_fill(~mask, LEFT_OUT).flatten()
    return functional.cross_entropy(
        flat,
        kept_targets,
        reduction="sum",
        ignore_index=LEFT_OUT,
        label_smoothing=label_smoothing,
    )


def masked_binary_cross_entropy(
    logits: Tensor, targets: Tensor, mask: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Binary cross entropy summed over the counted steps, in nats.

    Args:
        logits: [B, T, 1]; above 0 predicts 1.
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
        logits: [B, T, K]; above 0 predicts that a bit is 1, the lowest bit first.
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
    shifts = torch.arange(logits.shape[-1], device=targets.device)
    bits = (targets[mask].unsqueeze(-1) >> shifts) & 1
    return _binary(counted, bits, label_smoothing)


def _binary(logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    expected = targets.to(logits.dtype)
    if label_smoothing:
        expected = expected * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits, expected, reduction="sum")


def _likelier_bits(logits: Tensor) -> Tensor:
    shifts = torch.arange(logits.shape[-1], device=logits.device)
    return ((logits > 0).to(torch.int64) << shifts).sum(dim=-1)


class Objective(NamedTuple):
    """The loss and the prediction of an objective.

    Fields:
        loss: of logits [B, T, V], targets and mask [B, T] and, by name, label_smoothing: the sum
            over counted steps, in nats.
        predict: the predicted targets of logits [B, T, V], int64 [B, T].
    """

    loss: Callable[..., Tensor]
    predict: Callable[[Tensor], Tensor]


#: The objectives by name.
OBJECTIVES: Final[dict[str, Objective]] = {
    "cross_entropy": Objective(masked_cross_entropy, lambda logits: logits.argmax(dim=-1)),
    "binary": Objective(
        masked_binary_cross_entropy, lambda logits: (logits[..., 0] > 0).to(torch.int64)
    ),
    "bits": Objective(masked_bit_cross_entropy, _likelier_bits),
}


def training_loss(
    objective: str, label_smoothing: float = 0.0
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The loss that a training step minimises.

    Args:
        objective: one of `OBJECTIVES`.
        label_smoothing: share of each target that is spread over all outputs, in [0, 1]. Above 0 a
            correct prediction keeps a gradient until its probability reaches that of the smoothed
            target.
    Source: label smoothing: Szegedy et al. 2016, arXiv:1512.00567, section 7.
    """
    loss = OBJECTIVES[objective].loss
    return functools.partial(loss, label_smoothing=label_smoothing) if label_smoothing else loss


def perplexity(nats_per_token: float) -> float:
    """Exponential of the mean cross entropy; infinite on overflow."""
    try:
        return math.exp(nats_per_token)
    except OverflowError:
        return math.inf
