"""Learning to execute: read a program character by character, then say what it prints.

Source: Zaremba & Sutskever 2014, arXiv:1410.4615; the digits of the answer from the last to the
first and nothing fed back, Yang 2016, arXiv:1602.08671.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.tasks.batch import Batch
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.programs import (
    ANSWER_END,
    CHARACTERS,
    NAMES,
    OPERATORS,
    PROGRAM_END,
    Program,
    check_program,
    compose,
    operator_faults,
    words_of,
)
from unbounded.tasks.randomness import LAST_INDEX, SPLITS, Stream, whole_number
from unbounded.tasks.task import Example, Task

#: Digits of a number at the most.
MOST_DIGITS: Final = 15
_PLACES = {character: place for place, character in enumerate(CHARACTERS)}


class ProgramTask(Task):
    """Say what a program prints, from its last digit to its first, a sign last, and the end.

    Inputs are the program and @, which is fed again at each step of the answer. Which split a
    program is in depends on its text alone, so that none is in two of them. A length is the number
    of digits L: a number in a program is uniform in 1 .. 10^L, with an L of its own of the range.

    Args:
        name: the name it is listed under.
        train_lengths, test_lengths: L of the splits.
        nesting: operators of a program at the most, 1 to 10.
        operators: the kinds it is made of.
    Raises:
        ConfigError: an option is out of range; all faults together.
    """

    layout = "answer"
    scoring = "programs"

    def __init__(
        self,
        name: str,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        nesting: int = 1,
        operators: tuple[str, ...] = tuple(OPERATORS),
    ) -> None:
        faults = operator_faults(operators)
        try:
            whole_number("nesting", nesting, 1, len(NAMES))
        except ConfigError as error:
            faults += error.faults
        for what, lengths in (("train_lengths", train_lengths), ("test_lengths", test_lengths)):
            faults += [f"{what}: {fault}" for fault in _range_faults(lengths)]
        if faults:
            raise ConfigError(faults)
        self.name, self.nesting, self.operators = name, nesting, operators
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        self.input_vocabulary = self.output_vocabulary = CHARACTERS
        self.answer_token, self.end_token = _PLACES[PROGRAM_END], _PLACES[ANSWER_END]

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`; T is the longest of program + answer + 2."""
        drawn = self.programs(seed, split, start, size, lengths)
        answers = [_answer(program) for program in drawn]
        read = np.array([len(program.text) for program in drawn])
        steps = read + [len(answer) for answer in answers]
        inputs = np.zeros((size, int(steps.max())), dtype=np.int64)
        targets = np.zeros_like(inputs)
        for row, (program, answer) in enumerate(zip(drawn, answers, strict=True)):
            inputs[row, : steps[row]] = _PLACES[PROGRAM_END]
            inputs[row, : read[row]] = [_PLACES[each] for each in program.text]
            targets[row, read[row] : steps[row]] = [_PLACES[each] for each in answer]
        place = np.arange(inputs.shape[1])
        mask = (place >= read[:, None]) & (place < steps[:, None])
        return Batch(*(torch.from_numpy(array) for array in (inputs, targets, mask, steps)))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`; the target is without the end."""
        return [
            Example(tuple(program.text), tuple(_answer(program)[:-1]))
            for program in self.programs(seed, split, start, size, lengths)
        ]

    def range_faults(self, lengths: LengthRange) -> list[str]:
        """See `Task.range_faults`."""
        return [f"{self.name}: {fault}" for fault in _range_faults(lengths)]

    def asked(self, symbols: Sequence[str]) -> Tensor:
        """See `Task.asked`; the characters of a program."""
        text = "".join(symbols)
        check_program(text)
        return torch.tensor([_PLACES[each] for each in text + PROGRAM_END])

    def programs(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Program]:
        """The programs of `batch`, with what they print.

        Args and errors as for `batch`.
        """
        stream = Stream(seed, split)
        start = whole_number("start", start, 0, LAST_INDEX)
        size = whole_number("size", size, 1, LAST_INDEX + 1 - start)
        chosen = self.split_lengths(split) if lengths is None else LengthRange.of(lengths)
        faults = self.range_faults(chosen)
        if faults:
            raise ConfigError([f"lengths: {fault}" for fault in faults])
        blocks = (words_of(self.nesting) + 1) // 2
        found: dict[int, Program] = {}
        waiting, attempt = list(range(size)), 0
        while waiting:
            # Two of three programs are of other splits; each attempt has words of its own.
            indices = start + np.array(waiting)[:, None]
            pairs = stream.words(indices, attempt * blocks + np.arange(blocks))
            words = np.stack(pairs, axis=-1).reshape(len(waiting), -1).tolist()
            for index, own in zip(waiting, words, strict=True):
                program = compose(iter(own), chosen, self.nesting, self.operators)
                if split_of(program.text) == split:
                    found[index] = program
            waiting = [index for index in waiting if index not in found]
            attempt += 1
        return [found[index] for index in range(size)]


def split_of(text: str) -> str:
    """The split that a program is in, by its text."""
    names = list(SPLITS)
    return names[zlib.crc32(text.encode()) % len(names)]


def _answer(program: Program) -> str:
    return str(program.value)[::-1] + ANSWER_END


def _range_faults(lengths: LengthRange) -> list[str]:
    if lengths.maximum <= MOST_DIGITS:
        return []
    return [f"length range: expected numbers of at most {MOST_DIGITS} digits, got {lengths}"]
