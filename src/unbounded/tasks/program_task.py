"""Learning to execute: read a program character by character, then output what it prints.

Source: Zaremba & Sutskever 2014, arXiv:1410.4615; the reversed digits of the answer and the answer
phase without feedback, Yang 2016, arXiv:1602.08671.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, errors_of_ranges
from unbounded.tasks.programs import (
    ANSWER_END,
    CHARACTERS,
    NAMES,
    OPERATORS,
    PROGRAM_END,
    Program,
    check_program,
    compose,
    operator_errors,
    words_of,
)
from unbounded.tasks.randomness import SPLITS, whole_number
from unbounded.tasks.task import Example, Task

#: Greatest number of digits in a number.
MOST_DIGITS: Final = 15
_PLACES = {character: place for place, character in enumerate(CHARACTERS)}


class ProgramTask(Task):
    """Output what a program prints, from the last digit to the first, then a sign, and the end.

    Inputs are the program and @. At each step of the answer, @ is fed again. A program's split
    depends only on its text, so no program is in two splits. A length is the number of digits L.
    Each number in a program is uniform in 1 .. 10^L, with its own L from the range.

    Args:
        name: the name it is listed under.
        train_lengths, test_lengths: L of the splits.
        nesting: most operators of a program, 1 to 10.
        operators: the kinds of operators.
    Raises:
        ConfigError: an option is out of range; all errors together.
    """

    layout = "answer"
    metric_set = "programs"

    def __init__(
        self,
        name: str,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        nesting: int = 1,
        operators: tuple[str, ...] = tuple(OPERATORS),
    ) -> None:
        errors = operator_errors(operators)
        with collected(errors):
            whole_number("nesting", nesting, 1, len(NAMES))
        errors += errors_of_ranges(
            self._range_errors, train_lengths=train_lengths, test_lengths=test_lengths
        )
        if errors:
            raise ConfigError(errors)
        self.name, self.nesting, self.operators = name, nesting, operators
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        self.input_vocabulary = self.output_vocabulary = CHARACTERS
        self.answer_token, self.end_token = _PLACES[PROGRAM_END], _PLACES[ANSWER_END]
        self.source_end_token = self.answer_token

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`.

        The number of steps T is the greatest length of program and answer, plus 2.
        """
        drawn = self.programs(seed, split, start, size, lengths)
        answers = [_answer(program) for program in drawn]
        read = np.array([len(program.text) for program in drawn])
        steps = read + [len(answer) for answer in answers]
        inputs = np.zeros((size, int(steps.max())), dtype=np.int64)
        targets = np.zeros_like(inputs)
        for row, (program, answer) in enumerate(zip(drawn, answers, strict=True)):
            inputs[row, : steps[row]] = _PLACES[PROGRAM_END]
            inputs[row, : read[row]] = [_PLACES[character] for character in program.text]
            targets[row, read[row] : steps[row]] = [_PLACES[character] for character in answer]
        place = np.arange(inputs.shape[1])
        mask = (place >= read[:, None]) & (place < steps[:, None])
        return batch_of(inputs, targets, mask, steps)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The target does not include the end symbol."""
        return [
            Example(tuple(program.text), tuple(_answer(program)[:-1]))
            for program in self.programs(seed, split, start, size, lengths)
        ]

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        if lengths.maximum <= MOST_DIGITS:
            return []
        return [f"length range: expected numbers of at most {MOST_DIGITS} digits, got {lengths}"]

    def asked(self, symbols: Sequence[str]) -> Tensor:
        """See `Task.asked`. The symbols are the characters of a program."""
        text = "".join(symbols)
        check_program(text)
        return torch.tensor([_PLACES[character] for character in text + PROGRAM_END])

    def programs(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Program]:
        """The programs of `batch`, with their outputs.

        Args and errors are as for `batch`.
        """
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        blocks = (words_of(self.nesting) + 1) // 2
        drawn_programs: dict[int, Program] = {}
        waiting, attempt = list(range(size)), 0
        while waiting:
            # Two of three programs belong to other splits. Each attempt has its own random words.
            indices = start + np.array(waiting)[:, None]
            pairs = stream.words(indices, attempt * blocks + np.arange(blocks))
            words = np.stack(pairs, axis=-1).reshape(len(waiting), -1).tolist()
            for index, random_words in zip(waiting, words, strict=True):
                program = compose(iter(random_words), chosen, self.nesting, self.operators)
                if split_of(program.text) == split:
                    drawn_programs[index] = program
            waiting = [index for index in waiting if index not in drawn_programs]
            attempt += 1
        return [drawn_programs[index] for index in range(size)]


def split_of(text: str) -> str:
    """The split of a program, which follows from its text."""
    names = list(SPLITS)
    return names[zlib.crc32(text.encode()) % len(names)]


def _answer(program: Program) -> str:
    return str(program.value)[::-1] + ANSWER_END
