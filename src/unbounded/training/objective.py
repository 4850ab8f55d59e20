"""What training minimises: cross entropy over the steps that count, in nats per token."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional

from unbounded.errors import ShapeError

# No token has this number, and no target by mistake: -100, torch's own, is an error here.
_LEFT_OUT = -(2**62)


def masked_cross_entropy(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Cross entropy summed over the counted steps, in nats.

    The sum, not the mean: whoever shares a batch among processes divides by the tokens of all.

    Args:
        logits: [B, T, V].
        targets: tokens, int64 [B, T].
        mask: steps that count, bool [B, T]. The logits of others cost nothing but must be finite
            for finite gradients.
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
    chosen = targets.masked_fill(~mask, _LEFT_OUT).flatten()
    return functional.cross_entropy(flat, chosen, reduction="sum", ignore_index=_LEFT_OUT)


def perplexity(nats_per_token: float) -> float:
    """Exponential of the mean cross entropy; infinite where that leaves the range of a float."""
    try:
        return math.exp(nats_per_token)
    except OverflowError:
        return math.inf
