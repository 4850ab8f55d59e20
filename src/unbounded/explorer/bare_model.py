"""A stand-in task for a model without a task, with numbers as symbols."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import torch

from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Batch, LengthRange, Task
from unbounded.tasks.task import Example

_LENGTHS: Final = LengthRange(8, 12)


class _Numbers(Task):
    """Random symbols, named by their numbers, without targets.

    Args:
        inputs, outputs: sizes of the two vocabularies.
    """

    layout, metric_set, name = "labels", "none", "no task"
    has_lengths: ClassVar[bool] = True
    train_lengths = test_lengths = _LENGTHS

    def __init__(self, inputs: int, outputs: int) -> None:
        self.input_vocabulary = tuple(str(number) for number in range(inputs))
        self.output_vocabulary = tuple(str(number) for number in range(outputs))

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`. No step is scored."""
        span = lengths or _LENGTHS
        rows = []
        for index in range(start, start + size):
            draw = np.random.default_rng([seed, index])
            steps = int(draw.integers(span.minimum, span.maximum + 1))
            rows.append(torch.from_numpy(draw.integers(0, len(self.input_vocabulary), steps)))
        inputs = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        nothing = torch.zeros_like(inputs)
        return Batch(inputs, nothing, nothing.bool(), torch.tensor([len(row) for row in rows]))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The targets are empty."""
        batch = self.batch(seed, split, start, size, lengths)
        return [
            Example(tuple(str(token) for token in row[:steps].tolist()), ())
            for row, steps in zip(batch.inputs, batch.lengths.tolist(), strict=True)
        ]


class NumberedSymbols(_Numbers):
    """The stand-in task of a model that outputs symbols."""


class NumberedYesNo(_Numbers):
    """The stand-in task of a model that outputs yes or no."""

    objective: ClassVar[str] = "binary"


def task_of(model: MemoryModel) -> Task:
    """Return the stand-in task of a model."""
    inputs, outputs = model.sequence.input_vocabulary, model.sequence.output.weight.shape[0]
    return (NumberedYesNo if outputs == 1 else NumberedSymbols)(inputs, outputs)
