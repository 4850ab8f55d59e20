"""Bracket strings with a label at each prefix: is it balanced?

Source: the labels per prefix of Deleu & Dureau 2016, arXiv:1612.00827; the sampler is a plain
random walk, added here.
"""

from __future__ import annotations

import numpy as np
import torch

from unbounded.tasks.batch import Batch
from unbounded.tasks.dyck_membership import prefix_labels
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import LAST_INDEX, Integers, Stream, bounded, whole_number
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.task import Example, Task

OPEN, CLOSE = 0, 1
# At height 0 one bracket of so many closes an unopened one; all later labels are then 0.
_ONE_OF = 16


class DyckPrefixes(Task):
    """Label each prefix of a bracket string: is it a Dyck word?

    A string is a random walk: brackets open and close with equal probabilities; at height 0 one of
    16 closes. The label of a prefix is 1 if every bracket is closed and none was closed before it
    was opened.

    Args:
        train_lengths: brackets of a string of the split "train".
        test_lengths: of the splits "validation" and "test".
    """

    layout = "labels"
    objective = "binary"
    metric_set = "labels"

    def __init__(self, train_lengths: LengthRange, test_lengths: LengthRange) -> None:
        self.name = "dyck_prefixes"
        self.input_vocabulary = ("(", ")")
        self.output_vocabulary = ("balanced",)
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`."""
        words, labels, steps = self._draw(seed, split, start, size, lengths)
        mask = np.arange(words.shape[1]) < steps[:, None]
        arrays = (words * mask, labels * mask, mask, steps)
        return Batch(*(torch.from_numpy(array) for array in arrays))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`; the target is the label of each prefix."""
        words, labels, steps = self._draw(seed, split, start, size, lengths)
        return [
            Example(
                tuple(self.input_vocabulary[bracket] for bracket in word[:length]),
                tuple(str(label) for label in row[:length]),
            )
            for word, row, length in zip(
                words.tolist(), labels.tolist(), steps.tolist(), strict=True
            )
        ]

    def count_of(self, length: int, symbols: int) -> int:
        """See `Task.count_of`: every string of brackets, balanced or not."""
        return int(2**length) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Batch:
        """See `Task.every`; only the whole string is judged, not its prefixes."""
        words = all_strings(2, length)
        mask = np.broadcast_to(np.arange(length) == length - 1, words.shape)
        labels = prefix_labels(words, 1) & mask
        arrays = (words, labels.astype(np.int64), mask.copy(), np.full(len(words), length))
        return Batch(*(torch.from_numpy(array) for array in arrays))

    def _draw(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers, Integers]:
        """Strings and labels [B, T], and the length of each string [B]."""
        stream = Stream(seed, split)
        start = whole_number("start", start, 0, LAST_INDEX)
        size = whole_number("size", size, 1, LAST_INDEX + 1 - start)
        chosen = self.split_lengths(split) if lengths is None else LengthRange.of(lengths)
        indices = start + np.arange(size)
        length_words, words = stream.sequence_words(indices, chosen.maximum)
        steps = chosen.minimum + bounded(length_words, len(chosen))
        width = int(steps.max())
        drawn = bounded(words[:, :width], 2 * _ONE_OF)
        height = np.zeros(size, dtype=np.int64)
        brackets, labels = np.zeros((2, size, width), dtype=np.int64)
        is_prefix = np.ones(size, dtype=bool)
        for step in range(width):
            closes = np.where(height == 0, drawn[:, step] < 2, drawn[:, step] < _ONE_OF)
            is_prefix &= ~(closes & (height == 0))
            height = np.maximum(height + np.where(closes, -1, 1), 0)
            brackets[:, step] = np.where(closes, CLOSE, OPEN)
            labels[:, step] = is_prefix & (height == 0)
        return brackets, labels, steps
