"""The batch format of all tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_kind, check_tensor
from unbounded.errors import ConfigError
from unbounded.tasks.randomness import Integers


class Batch(NamedTuple):
    """Padded sequences of tokens with their targets.

    All layouts use it: joint source-target sequences, streams for truncated BPTT, prefix
    classification, and answer phases without feedback.

    Fields:
        inputs: input tokens, int64 [B, T]; 0 beyond `lengths`.
        targets: target tokens of each step, int64 [B, T]; 0 where `mask` is False.
        mask: steps that count in loss and score, bool [B, T]; False beyond `lengths`.
        lengths: steps of each sequence, int64 [B], in 1..T (in a chunk of a batch from 0).
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor
    lengths: Tensor


def batch_of(inputs: Integers, targets: Integers, mask: NDArray[Any], lengths: Integers) -> Batch:
    """Return the arrays of a batch as tensors."""
    arrays = (inputs, targets, mask, lengths)
    return Batch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))


def check_batch(value: object) -> None:
    """Raise DTypeError unless an argument `batch` is a Batch of tensors."""
    check_kind("batch", value, Batch, "task.batch(seed, 'test', 0, 10) makes one.")
    for name, part in zip(Batch._fields, value, strict=True):  # type: ignore[call-overload]  # a Batch
        check_tensor(f"batch.{name}", part)


def together(batches: Sequence[Batch]) -> Batch:
    """Join the sequences of several batches into one batch, padded to the longest."""
    steps = max(batch.inputs.shape[1] for batch in batches)
    inputs, targets, mask = (
        torch.cat([F.pad(field, (0, steps - field.shape[1])) for field in fields])
        for fields in zip(*(batch[:3] for batch in batches), strict=True)
    )
    return Batch(inputs, targets, mask, torch.cat([batch.lengths for batch in batches]))


def chunks(batch: Batch, steps: int) -> Iterator[Batch]:
    """Split a batch into chunks along time, for truncated BPTT with a carried state.

    Args:
        batch: [B, T].
        steps: of each chunk, at least 1; the last one may be shorter.
    Raises:
        ConfigError: `steps` is not an integer of at least 1.
    """
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ConfigError(f"steps of a chunk: expected an integer of at least 1, got {steps!r}")
    for start in range(0, batch.inputs.shape[1], steps):
        columns = slice(start, start + steps)
        inputs = batch.inputs[:, columns]
        lengths = (batch.lengths - start).clamp(0, inputs.shape[1])
        yield Batch(inputs, batch.targets[:, columns], batch.mask[:, columns], lengths)
