"""Which examples a training batch has: one after the other, or with others of like length.

Rows of a batch come in the order of their lengths, the longest first: the kernels leave out those
that are over where none that goes on comes after them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unbounded.tasks import Batch, LengthRange, Stream, Task

# No example takes random words of so late a block.
_BLOCK = 2**32 - 2


class Dealer:
    """Deals the task's training examples into batches; what a batch has follows from its number.

    Batch n holds the examples n * B to (n + 1) * B - 1, the longest first. With `deal` above 1 the
    examples of `deal` batches are sorted by length and dealt again, so that little of a batch is
    padding, and these batches come in a random order: the same examples, each once. A loss that is
    a mean over the symbols of a batch then counts a symbol of a short example for more than one of
    a long one: what is learned from short words first is learned sooner, and where most are short
    already it may be too much (docs/reproducing/grefenstette2015.md, "Batches of like length").

    Args:
        task: yields the examples.
        seed: of the examples and of the order, 0..2**64 - 1.
        batch_size: B.
        deal: batches that are dealt together, at least 1.
    """

    def __init__(self, task: Task, seed: int, batch_size: int, deal: int = 1) -> None:
        self._task, self._seed = task, seed
        self._size, self._deal = batch_size, deal
        self._group: tuple[int, Batch, list[Tensor]] | None = None

    def batch(self, number: int, lengths: LengthRange | None) -> Batch:
        """The batch of that number, counted from 0.

        Args:
            number: of the batch.
            lengths: as for `Task.batch`; the same for all batches that are dealt together.
        """
        if self._deal == 1:
            return _in_order(self._draw(number * self._size, self._size, lengths))
        group, place = divmod(number, self._deal)
        if self._group is None or self._group[0] != group:
            drawn = self._draw(group * self._deal * self._size, self._deal * self._size, lengths)
            self._group = (group, drawn, self._rows(group, drawn))
        _, drawn, rows = self._group
        inputs, targets, mask, steps = (field[rows[place]] for field in drawn)
        own = slice(0, int(steps.max()))
        return _in_order(Batch(inputs[:, own], targets[:, own], mask[:, own], steps))

    def _draw(self, start: int, size: int, lengths: LengthRange | None) -> Batch:
        return self._task.batch(self._seed, "train", start, size, lengths)

    def _rows(self, group: int, drawn: Batch) -> list[Tensor]:
        """The rows of each batch of a group, in the order in which the batches come."""
        parts = drawn.lengths.argsort(stable=True).split(self._size)
        numbers = group * self._deal + np.arange(self._deal)
        words = Stream(self._seed, "train").words(numbers, np.array([_BLOCK]))[0]
        # Rows of a batch in the order of their numbers: those of one length come so, as without.
        return [torch.sort(parts[place]).values for place in np.argsort(words, kind="stable")]


def _in_order(batch: Batch) -> Batch:
    """The rows of a batch by their lengths, the longest first, and else as they are."""
    rows = batch.lengths.argsort(descending=True, stable=True)
    return Batch(*(field[rows] for field in batch))
