"""The examples of each training batch, in order or bucketed by length.

The rows of a batch are sorted by length, the longest first, because the kernels skip finished rows
only at the end of a batch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unbounded.tasks import Batch, LengthRange, Stream, Task

# Block of the random stream that no example reaches.
_BLOCK = 2**32 - 2


class LengthBuckets:
    """Selects the training examples of each batch, which depend only on the batch's number.

    Batch n holds the examples n * B to (n + 1) * B - 1, the longest first. With `length_bucketing`
    above 1, the examples of this number of batches are sorted by length and split into batches,
    whose order is random. The examples are the same as without bucketing, each once, but with less
    padding. A mean over the symbols of a batch then gives a symbol of a short example more weight
    than a symbol of a long example. If a task is learned from short strings first, it is then
    learned sooner. If most strings are short already, the effect may be harmful
    (docs/notebook/grefenstette2015.md, "Length bucketing").

    Args:
        task: yields the examples.
        seed: seed of the examples and of the order, 0..2**64 - 1.
        batch_size: B.
        length_bucketing: number of batches that are bucketed together, at least 1.
    """

    def __init__(self, task: Task, seed: int, batch_size: int, length_bucketing: int = 1) -> None:
        self._task, self._seed = task, seed
        self._size, self._batches = batch_size, length_bucketing
        self._group: tuple[int, Batch, list[Tensor]] | None = None

    def batch(self, number: int, lengths: LengthRange | None) -> Batch:
        """Return the batch with a given number.

        Args:
            number: counted from 0.
            lengths: as for `Task.batch`; the same for all batches that are bucketed together.
        """
        if self._batches == 1:
            return _in_order(self._draw(number * self._size, self._size, lengths))
        group, place = divmod(number, self._batches)
        if self._group is None or self._group[0] != group:
            drawn = self._draw(
                group * self._batches * self._size, self._batches * self._size, lengths
            )
            self._group = (group, drawn, self._rows(group, drawn))
        _, drawn, rows = self._group
        inputs, targets, mask, steps = (field[rows[place]] for field in drawn)
        used = slice(0, int(steps.max()))
        return _in_order(Batch(inputs[:, used], targets[:, used], mask[:, used], steps))

    def _draw(self, start: int, size: int, lengths: LengthRange | None) -> Batch:
        return self._task.batch(self._seed, "train", start, size, lengths)

    def _rows(self, group: int, drawn: Batch) -> list[Tensor]:
        """The rows of each batch of a group, in the order of the batches."""
        parts = drawn.lengths.argsort(stable=True).split(self._size)
        numbers = group * self._batches + np.arange(self._batches)
        words = Stream(self._seed, "train").words(numbers, np.array([_BLOCK]))[0]
        # Rows of one length keep the order of their numbers, as without bucketing.
        return [torch.sort(parts[place]).values for place in np.argsort(words, kind="stable")]


def _in_order(batch: Batch) -> Batch:
    """Sort a batch by length, the longest first. Equal lengths keep their order."""
    rows = batch.lengths.argsort(descending=True, stable=True)
    return Batch(*(field[rows] for field in batch))
