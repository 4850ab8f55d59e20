"""Learning to execute: read a program character by character, then output what it prints.

The programs are small, with six kinds of nested operators.

Source: Zaremba & Sutskever 2014, arXiv:1410.4615, "Learning to Execute", and their program; the
reversed digits of the answer and the answer phase without feedback, Yang 2016, arXiv:1602.08671.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbounded.errors import ChoiceError, ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, errors_of_ranges
from unbounded.tasks.randomness import SPLITS, whole_number
from unbounded.tasks.task import Example, Task

#: The separator of lines, which also ends a program.
LINE_END, PROGRAM_END = "#", "@"
#: The end of an answer.
ANSWER_END: Final = "."
#: Digits, letters, then all other characters of programs and answers.
CHARACTERS: Final = tuple("0123456789" + "abcdefghijlnoprstx" + "()+-*=;:<> " + "#@.")
#: Names of variables. A program has at most as many operators as there are names.
NAMES: Final = "abcdefghij"
#: Greatest number of random words that one operator uses.
WORDS_OF_AN_OPERATOR: Final = 24
_FIXED_WORDS = 1 + len(NAMES)


class Program(NamedTuple):
    """A program and its output.

    Fields:
        text: lines separated by #, without the final @.
        value: the integer that it prints.
        operators: the kinds of its operators, in order.
    """

    text: str
    value: int
    operators: tuple[str, ...]


class Operand(NamedTuple):
    """An expression and its value."""

    text: str
    value: int


class Composer:
    """Writes one program; holds its lines and random numbers.

    An operand is the result of an earlier operator. If no result is left, it is a new integer from
    1 to 10^L; each draw has its own L.

    Args:
        words: random words of 64 bits, `words_of(nesting)` of them.
        lengths: range of L, the digits of a number.
    """

    def __init__(self, words: Iterator[int], lengths: LengthRange) -> None:
        self._words, self._lengths = words, lengths
        self._results: list[Operand] = []
        self.lines: list[str] = []
        self._names = self.shuffled(list(NAMES))

    def below(self, count: int) -> int:
        """A random integer from 0 to count - 1."""
        return next(self._words) * count >> 64

    def shuffled(self, items: list[str]) -> list[str]:
        """The items in random order."""
        keys = [next(self._words) for _ in items]
        return [item for _, item in sorted(zip(keys, items, strict=True))]

    def either(self, one: str, other: str) -> str:
        """One of two texts, with equal probabilities."""
        return other if self.below(2) else one

    def digits(self) -> int:
        """Draw L, a uniform length in the range."""
        return self._lengths.minimum + self.below(len(self._lengths))

    def small(self) -> int:
        """Draw a factor or a number of rounds, from 1 to 4L."""
        return 1 + self.below(4 * self.digits())

    def name(self) -> str:
        """A variable that the program has not used yet."""
        return self._names.pop()

    def operands(self, count: int) -> list[Operand]:
        """Return `count` operands in random order, including earlier results."""
        operands = [self._results.pop() if self._results else self._integer() for _ in range(count)]
        order = self.shuffled([str(place) for place in range(count)])
        return [operands[int(place)] for place in order]

    def _integer(self) -> Operand:
        value = 1 + self.below(10 ** self.digits())
        return Operand(str(value), value)

    def result(self, text: str, value: int) -> None:
        """Keep the result of an operator for the next operator."""
        self._results.append(Operand(text, value))

    def finished(self, operators: Sequence[str]) -> Program:
        """The program that prints the last result."""
        text, value = self._results.pop()
        lines = [*self.lines, f"print({text})"]
        return Program(LINE_END.join(lines), value, tuple(operators))


def _pair(program: Composer) -> None:
    a, b = program.operands(2)
    sign = program.either("+", "-")
    value = a.value + b.value if sign == "+" else a.value - b.value
    program.result(f"({a.text}{sign}{b.text})", value)


def _small_multiplication(program: Composer) -> None:
    (a,), factor = program.operands(1), program.small()
    text = program.either(f"({a.text}*{factor})", f"({factor}*{a.text})")
    program.result(text, a.value * factor)


def _identity(program: Composer) -> None:
    (a,) = program.operands(1)
    program.result(*a)


def _substitution(program: Composer) -> None:
    a, b = program.operands(2)
    name, sign = program.name(), program.either("+", "-")
    program.lines.append(f"{name}={a.text};")
    value = a.value + b.value if sign == "+" else a.value - b.value
    program.result(f"({name}{sign}{b.text})", value)


def _small_loop(program: Composer) -> None:
    a, b = program.operands(2)
    name, rounds, sign = program.name(), program.small(), program.either("+", "-")
    program.lines.append(f"{name}={a.text}")
    program.lines.append(f"for x in range({rounds}):{name}{sign}={b.text}")
    value = a.value + rounds * b.value if sign == "+" else a.value - rounds * b.value
    program.result(name, value)


def _ternary(program: Composer) -> None:
    a, b, c, d = program.operands(4)
    sign = program.either(">", "<")
    holds = a.value > b.value if sign == ">" else a.value < b.value
    text = f"({c.text} if {a.text}{sign}{b.text} else {d.text})"
    program.result(text, c.value if holds else d.value)


#: The six kinds of operators, by name.
OPERATORS: Final[dict[str, Callable[[Composer], None]]] = {
    "pair": _pair,
    "small_multiplication": _small_multiplication,
    "identity": _identity,
    "substitution": _substitution,
    "small_loop": _small_loop,
    "ternary": _ternary,
}


def words_of(nesting: int) -> int:
    """Greatest number of random words that a program with up to `nesting` operators uses."""
    return _FIXED_WORDS + WORDS_OF_AN_OPERATOR * nesting


def compose(
    words: Iterator[int], lengths: LengthRange, nesting: int, operators: tuple[str, ...]
) -> Program:
    """One program.

    Args:
        words: random words of 64 bits, `words_of(nesting)` of them.
        lengths: range of L, the digits of a number.
        nesting: most operators; their number is uniform in 1 .. `nesting`.
        operators: the kinds to draw from, uniformly.
    """
    program = Composer(words, lengths)
    drawn = []
    for _ in range(1 + program.below(nesting)):
        drawn.append(operators[program.below(len(operators))])
        OPERATORS[drawn[-1]](program)
    return program.finished(drawn)


def check_program(text: str) -> None:
    """Check the characters of a program.

    Raises:
        ConfigError: it is empty, or a character is unknown, or ends a program or an answer.
    """
    if not text:
        raise ConfigError("program: expected at least one character, got none")
    known = [character_ for character_ in CHARACTERS if character_ not in (PROGRAM_END, ANSWER_END)]
    for place, character in enumerate(text, start=1):
        if character not in known:
            raise ConfigError(
                f"program: character {place} is {character!r}, which is not allowed in a "
                f"program; a program consists of {' '.join(known).strip()} and blanks, with "
                f"{LINE_END} between lines"
            )


def operator_errors(operators: tuple[str, ...]) -> list[str]:
    """Errors in a choice of operators, a line each."""
    if not operators:
        return [f"operators: expected at least one of {', '.join(OPERATORS)}, got none"]
    return [
        f"operators: {ChoiceError('operator', operator, OPERATORS)}"
        for operator in operators
        if operator not in OPERATORS
    ]


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
