"""The one form in which every task yields its data."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Padded sequences of tokens with their targets.

    A joint source-target sequence, a stream cut for truncated BPTT, a word to classify prefix by
    prefix and an answer phase without feedback are all this form.

    Fields:
        inputs: tokens fed to the model, int64 [B, T]; 0 beyond `lengths`.
        targets: tokens to predict at each step, int64 [B, T]; 0 where `mask` is False.
        mask: steps that count in loss and score, bool [B, T]; False beyond `lengths`.
        lengths: steps of each sequence, int64 [B], in 1..T.
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor
    lengths: Tensor
