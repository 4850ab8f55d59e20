"""Small programs with six kinds of nested operators, and their outputs.

Source: Zaremba & Sutskever 2014, arXiv:1410.4615, "Learning to Execute", and their program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks.lengths import LengthRange

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
    """

    text: str
    value: int


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

    def finished(self) -> Program:
        """The program that prints the last result."""
        text, value = self._results.pop()
        return Program(LINE_END.join([*self.lines, f"print({text})"]), value)


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
    for _ in range(1 + program.below(nesting)):
        OPERATORS[operators[program.below(len(operators))]](program)
    return program.finished()


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
