"""Parity: is the number of ones so far odd?"""

from __future__ import annotations

import numpy as np
import torch

from unbounded.tasks.batch import Batch
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Stream, bounded
from unbounded.tasks.task import Example, Task


class Parity(Task):
    """Say after each bit whether the ones so far are odd in number.

    Args:
        train_lengths, test_lengths: bits of a word.
    """

    layout, objective, scoring = "labels", "binary", "labels"

    def __init__(self, train_lengths: LengthRange, test_lengths: LengthRange) -> None:
        self.name = "parity"
        self.input_vocabulary, self.output_vocabulary = ("0", "1"), ("odd",)
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`."""
        chosen = self.split_lengths(split) if lengths is None else lengths
        words = Stream(seed, split).sequence_words(start + np.arange(size), chosen.maximum)
        steps = chosen.minimum + bounded(words[0], len(chosen))
        mask = np.arange(steps.max()) < steps[:, None]
        bits = bounded(words[1][:, : steps.max()], 2) * mask
        odd = (bits.cumsum(axis=1) % 2) * mask
        return Batch(*(torch.from_numpy(array) for array in (bits, odd, mask, steps)))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`."""
        rows = zip(*self.batch(seed, split, start, size, lengths), strict=True)
        return [
            Example(tuple(map(str, bits[:length].tolist())), tuple(map(str, odd[:length].tolist())))
            for bits, odd, _, length in rows
        ]
