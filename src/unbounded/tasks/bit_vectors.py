"""Tasks on bit vectors: symbols are integers whose bits are what a network reads and says.

A data symbol is its vector's bits, the lowest first; flags and numbers that are no data stand in
further bits, above these. While it answers the network is fed zeros.
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
    """A task whose inputs and targets are integers that stand for bits.

    Attributes:
        data_bits: bits of a vector.
        flags: name of each number above the vector's bits, 1, 2 and so on, as it is written.
        ends: whether a bit of its own, the highest of a target, marks the end of an answer.
    """

    layout = "answer"
    objective: ClassVar[str] = "bits"
    scoring = "bits"
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
        """The token of the first flag; the n-th is n times that."""
        return int(2**self.data_bits)

    def symbol(self, token: int) -> str:
        """A token as text: its bits, the lowest first, and its flag where it has one."""
        data, flag = token % self.flag, token // self.flag
        bits = "".join(str(data >> place & 1) for place in range(self.data_bits))
        if not flag:
            return bits
        return self.flags[flag - 1] + (f" {bits}" if data else "")

    @abstractmethod
    def draw(
        self, stream: Stream, indices: Integers, lengths: LengthRange
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Examples by their indices, each from its own random words alone.

        Returns:
            inputs and targets [B, T], how many steps come before the answer [B], and how many the
            answer takes [B]; inputs are 0 from there on, targets are 0 before.
        """

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`."""
        inputs, targets, before, answer = self._drawn(seed, split, start, size, lengths)
        step, steps = np.arange(inputs.shape[1]), before + answer
        mask = (step >= before[:, None]) & (step < steps[:, None])
        arrays = (inputs, targets, mask, steps)
        return Batch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`; the bits of each vector side by side."""
        rows = zip(*self._drawn(seed, split, start, size, lengths), strict=True)
        return [
            Example(
                tuple(self.symbol(token) for token in inputs[:before].tolist()),
                tuple(self._said(token) for token in targets[before : before + answer].tolist()),
            )
            for inputs, targets, before, answer in rows
        ]

    def _said(self, token: int) -> str:
        return "end" if self.ends and token >= self.flag else self.symbol(token)

    def _drawn(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers, Integers, Integers]:
        stream = Stream(seed, split)
        start = whole_number("start", start, 0, LAST_INDEX)
        size = whole_number("size", size, 1, LAST_INDEX + 1 - start)
        chosen = self.split_lengths(split) if lengths is None else LengthRange.of(lengths)
        return self.draw(stream, start + np.arange(size), chosen)
