"""Tasks on bit vectors: a symbol is an integer whose bits are a network's inputs or outputs.

A data symbol is its vector's bits, the lowest first. Flags and numbers that are no data use higher
bits. The inputs of the answer phase are zeros.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch

from unbounded.tasks.batch import Batch
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import LAST_INDEX, Integers, Stream, whole_number
from unbounded.tasks.task import Example, Task


class BitTask(Task):
    """A task whose inputs and targets are integers that represent bits.

    Attributes:
        data_bits: bits of a vector.
        flags: names of the numbers above the vector's bits, 1, 2 and so on.
        ends: whether an extra bit, the highest of a target, marks the end of an answer.
    """

    layout = "answer"
    objective: ClassVar[str] = "bits"
    metric_set = "bits"
    data_bits: int

    def __init__(
        self,
        name: str,
        data_bits: int,
        flags: tuple[str, ...],
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        *,
        ends: bool = False,
    ) -> None:
        self.name, self.data_bits, self.flags, self.ends = name, data_bits, flags, ends
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        vectors = tuple(self.symbol(token) for token in range(2**data_bits))
        above = range(2**data_bits, 2**data_bits * (1 + len(flags)))
        self.input_vocabulary = (*vectors, *(self.symbol(token) for token in above))
        end = ("end",) if ends else ()
        self.output_vocabulary = (*(f"bit {place}" for place in range(data_bits)), *end)

    @property
    def flag(self) -> int:
        """The token of the first flag; the n-th flag is n times that."""
        return int(2**self.data_bits)

    def symbol(self, token: int) -> str:
        """A token as text: its bits, the lowest first, and its flag if it has one."""
        data, flag = token % self.flag, token // self.flag
        bits = "".join(str(data >> place & 1) for place in range(self.data_bits))
        if not flag:
            return bits
        return self.flags[flag - 1] + (f" {bits}" if data else "")

    @abstractmethod
    def draw(
        self, stream: Stream, indices: Integers, lengths: LengthRange
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Examples by their indices; each depends on its own random words alone.

        Returns:
            inputs and targets [B, T], the number of steps before the answer [B], and of the answer
            [B]; inputs are 0 in the answer, targets are 0 before it.
        """

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`."""
        inputs, targets, prompt_steps, answer = self._drawn(seed, split, start, size, lengths)
        step, steps = np.arange(inputs.shape[1]), prompt_steps + answer
        mask = (step >= prompt_steps[:, None]) & (step < steps[:, None])
        arrays = (inputs, targets, mask, steps)
        return Batch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`; each symbol is the bits of a vector."""
        rows = zip(*self._drawn(seed, split, start, size, lengths), strict=True)
        return [
            Example(
                tuple(self.symbol(token) for token in inputs[:prompt_steps].tolist()),
                tuple(
                    self._output_name(token)
                    for token in targets[prompt_steps : prompt_steps + answer].tolist()
                ),
            )
            for inputs, targets, prompt_steps, answer in rows
        ]

    def _output_name(self, token: int) -> str:
        return "end" if self.ends and token >= self.flag else self.symbol(token)

    def _drawn(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers, Integers, Integers]:
        stream = Stream(seed, split)
        start = whole_number("start", start, 0, LAST_INDEX)
        size = whole_number("size", size, 1, LAST_INDEX + 1 - start)
        chosen = self.split_lengths(split) if lengths is None else LengthRange.of(lengths)
        return self.draw(stream, start + np.arange(size), chosen)
