"""Correlation of a read head's position with the height of a Dyck word's path.

Source: Deleu & Dureau 2016, arXiv:1612.00827, section 4: the read head moves up and down with the
word, like the top of a stack.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.memories.turing_tape import TuringTape
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn import MemoryRNN
from unbounded.tasks import LengthRange, Task


def head_position(weights: Tensor) -> Tensor:
    """The head's position [...] for weights [..., N], which is the location of greatest weight.

    The mean location is not used, because a hundredth of the weight, spread over 128 locations,
    changes the mean more than a move between two neighbours.
    """
    return weights.argmax(dim=-1)


def correlation(left: Tensor, right: Tensor) -> float | None:
    """Pearson's correlation of two rows of numbers; None if one of them is constant."""
    deviations = [row.double() - row.double().mean() for row in (left, right)]
    norms = [float(row.norm()) for row in deviations]
    if min(norms) < 1e-9:
        return None
    return float(deviations[0] @ deviations[1]) / (norms[0] * norms[1])


def following(
    model: SequenceModel, task: Task, seed: int, lengths: LengthRange, count: int = 100
) -> float | None:
    """The correlation of the best read head's position with the height, averaged over test words.

    Words whose path goes below 0 are excluded, because a tape has no location below its first. A
    head may follow the path in the opposite direction. The sign is kept, so -1 is as good as 1. A
    word with a constant position or path counts as 0.

    Args:
        model: in any mode.
        task: yields the words and the heights of their paths.
        seed, lengths, count: of the words, of the split "test".
    Returns:
        -1 to 1; None for a model without a tape, a task without paths, or if no word is included.
    """
    layer = model.layer
    if not task.has_path or not isinstance(layer, MemoryRNN):
        return None
    if not isinstance(layer.memory, TuringTape):
        return None
    batch = task.batch(seed, "test", 0, count, lengths)
    heights = task.heights(batch.inputs)
    if heights is None:
        return None
    device = next(model.parameters()).device
    with torch.no_grad():
        embedded = model.embed(batch.inputs.to(device))
        trace = layer(embedded, lengths=batch.lengths.to(device), return_trace=True)[2]
    positions = head_position(trace.arrays["read_weights"].cpu())
    means = []
    for head in range(positions.shape[2]):
        rows = [
            correlation(positions[row, :steps, head], heights[row, :steps]) or 0.0
            for row, steps in enumerate(batch.lengths.tolist())
            if int(heights[row, :steps].min()) >= 0
        ]
        means.append(sum(rows) / len(rows) if rows else None)
    return max((mean for mean in means if mean is not None), key=abs, default=None)
