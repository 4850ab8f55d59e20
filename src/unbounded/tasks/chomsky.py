"""The fifteen tasks of "Neural Networks and the Chomsky Hierarchy", as questions and answers.

A length is the number of symbols of a source. Where the paper and its released code differ, the
paper's form is the default, and the variant "code" is the code's form.

Source: Delétang et al. 2023, arXiv:2207.02098, section 4 and appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isqrt
from typing import Final

import numpy as np

from unbounded.checks import check_choice
from unbounded.tasks.lengths import Lengths
from unbounded.tasks.questions import QuestionSource, QuestionTask, question
from unbounded.tasks.randomness import Integers, Words, bounded
from unbounded.tasks.symbols import all_strings

#: The paper and its code differ in eight tasks.
VARIANTS: Final = ("paper", "code")
MODULUS: Final = 5
BITS: Final = ("0", "1")
DIGITS: Final = tuple("01234")
MOVES: Final = ("<", "=", ">")
TRAIN: Final = "1:40"
TEST: Final = "41:500"


def column(values: Integers) -> tuple[Integers, Integers]:
    """Answers of one symbol each, from int64 [K]."""
    return values[:, None], np.ones(len(values), dtype=np.int64)


def _whole(answers: Integers) -> tuple[Integers, Integers]:
    """Answers of one length, from int64 [K, A]."""
    return answers, np.full(len(answers), answers.shape[1])


def _padded(rows: Iterable[Sequence[int]]) -> tuple[Integers, Integers]:
    """Answers of different lengths."""
    listed = list(rows)
    counts = np.array([len(row) for row in listed], dtype=np.int64)
    answers = np.zeros((len(listed), int(counts.max(initial=1))), dtype=np.int64)
    for number, row in enumerate(listed):
        answers[number, : len(row)] = row
    return answers, counts


class Rule(QuestionSource):
    """Uniform strings with a rule for the answers.

    Args:
        symbols: the source symbols.
        classes: the target symbols.
        rule: maps sources [K, L] to answers and their numbers of symbols.
    """

    def __init__(
        self,
        symbols: tuple[str, ...],
        classes: tuple[str, ...],
        rule: Callable[[Integers], tuple[Integers, Integers]],
    ) -> None:
        self.source_vocabulary, self.target_vocabulary = symbols, classes
        self.chance = 1 / len(classes)
        self._rule = rule

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        return self._rule(sources)


class SimpleArithmetic(QuestionSource):
    """Digits and operators in turn. The answer is the value modulo 5; * binds more strongly.

    Args:
        variant: a source of even length has one symbol more ("paper") or less ("code").
    """

    source_vocabulary = (*DIGITS, "+", "-", "*")
    target_vocabulary = DIGITS
    chance = 0.2

    def __init__(self, variant: str = "paper") -> None:
        check_choice("variant", variant, VARIANTS)
        self._longer = variant == "paper"

    def words_of(self, length: int) -> int:
        return length + 1

    def sources(self, words: Words, length: int) -> Integers:
        """See `QuestionSource.sources`. An even length is replaced by an odd length."""
        size = max(1, length if length % 2 else length + (1 if self._longer else -1))
        digits, operators = bounded(words, MODULUS), MODULUS + bounded(words, 3)
        return np.where(np.arange(size) % 2, operators[:, :size], digits[:, :size])

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        total = np.zeros(len(sources), dtype=np.int64)
        product = sources[:, 0]
        for place in range(1, sources.shape[1], 2):
            operator, digit = sources[:, place], sources[:, place + 1]
            times = operator == MODULUS + 2
            total = np.where(times, total, total + product) % MODULUS
            signed = np.where(operator == MODULUS + 1, -digit, digit)
            product = np.where(times, product * digit, signed) % MODULUS
        return column((total + product) % MODULUS)

    def source_error(self, source: Sequence[int]) -> str:
        kinds = [symbol >= MODULUS for symbol in source]
        if len(source) % 2 and kinds == [bool(place % 2) for place in range(len(source))]:
            return ""
        return "expected digits and operators in turn, such as 1+2*3"

    def count(self, length: int) -> int:
        """See `QuestionSource.count`. For an even length, all sources have another length."""
        return int(MODULUS ** (length // 2 + 1) * 3 ** (length // 2)) if length % 2 else 0

    def listed(self, length: int) -> Integers:
        half = length // 2
        digits, operators = all_strings(MODULUS, half + 1), MODULUS + all_strings(3, half)
        sources = np.zeros((len(digits), len(operators), length), dtype=np.int64)
        sources[..., 0::2], sources[..., 1::2] = digits[:, None], operators
        return sources.reshape(-1, length)


#: Tokens of the tasks with brackets.
_PLUS, _MINUS, _TIMES, _OPEN, _CLOSE = range(MODULUS, MODULUS + 5)


def expression(words: Iterable[int], length: int, operators: Sequence[int]) -> list[int]:
    """A random expression: d, -d, (d), (-d), or (L op R) with operands of uniform lengths.

    Args:
        words: random words of 64 bits, at least `length` of them.
        length: of the expression, at least 1.
        operators: the possible tokens of op.
    """
    drawn = iter(words)

    def below(count: int) -> int:
        return (next(drawn) * count) >> 64

    tokens: list[int] = []
    # A negative entry represents a token, and a positive entry is the length of an operand.
    waiting = [length]
    while waiting:
        size = waiting.pop()
        if size <= 0:
            tokens.append(-size)
        elif size <= 4:
            brackets = size > 2
            sign = [_MINUS] if size % 2 == 0 else []
            inner = [*sign, below(MODULUS)]
            tokens += [_OPEN, *inner, _CLOSE] if brackets else inner
        else:
            left = 1 + below(size - 4)
            operator = operators[below(len(operators))]
            tokens.append(_OPEN)
            waiting += [-_CLOSE, size - 3 - left, -operator, left]
    return tokens


def value_of(tokens: Sequence[int]) -> int:
    """The value modulo 5 of a fully bracketed expression.

    Raises:
        ValueError: it is no such expression.
    """
    operands: list[list[int]] = [[]]
    for place, token in enumerate(tokens):
        level = operands[-1]
        if token == _OPEN:
            operands.append([])
            continue
        if token == _CLOSE:
            if len(operands) == 1:
                raise ValueError("a bracket is closed that was not opened")
            token = _reduced(operands.pop())
            level = operands[-1]
        elif token > _CLOSE:
            raise ValueError("a symbol is not allowed in an expression")
        elif token >= MODULUS:
            is_sign = not level or level[-1] >= MODULUS
            if not is_sign:
                level.append(token)
            elif token != _MINUS or not (place + 1 < len(tokens) and tokens[place + 1] < MODULUS):
                raise ValueError("an operator has no operand")
            else:
                level.append(_SIGN)
            continue
        if level and level[-1] == _SIGN:
            level.pop()
            token = -token % MODULUS
        level.append(token)
    if len(operands) > 1:
        raise ValueError("a bracket is not closed")
    if len(operands[0]) != 1:
        raise ValueError("expected brackets around each operation")
    return _reduced(operands[0])


# A minus sign before a digit, within `value_of`.
_SIGN = 100


def _reduced(level: Sequence[int]) -> int:
    """The value of d or of d op d."""
    if len(level) == 1 and level[0] < MODULUS:
        return level[0]
    kinds = [token >= MODULUS for token in level]
    if kinds != [False, True, False]:
        raise ValueError("expected brackets around each operation")
    left, operator, right = level
    values = {_PLUS: left + right, _MINUS: left - right, _TIMES: left * right}
    return values[operator] % MODULUS


class BracketArithmetic(QuestionSource):
    """Fully bracketed expressions. The answer is the value modulo 5."""

    source_vocabulary = (*DIGITS, "+", "-", "*", "(", ")")
    target_vocabulary = DIGITS
    chance = 0.2

    def sources(self, words: Words, length: int) -> Integers:
        operators = (_PLUS, _MINUS, _TIMES)
        rows = [expression(row, length, operators) for row in words.tolist()]
        return np.array(rows, dtype=np.int64)

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        return column(np.array([value_of(row) for row in sources.tolist()], dtype=np.int64))

    def source_error(self, source: Sequence[int]) -> str:
        return _value_error(source)


class Equation(QuestionSource):
    """An expression of + and - with x for one digit, "=", and the value. The answer is x.

    The place of x is drawn uniformly. If its symbol is not a digit, x moves to the next digit on
    the right, from the end to the start.

    Args:
        variant: "code" adds sources of one and two zeros, whose answer is 0.
    """

    source_vocabulary = (*DIGITS, "+", "-", "(", ")", "x", "=")
    target_vocabulary = DIGITS
    chance = 0.2

    def __init__(self, variant: str = "paper") -> None:
        check_choice("variant", variant, VARIANTS)
        self.shortest = 3 if variant == "paper" else 1

    def sources(self, words: Words, length: int) -> Integers:
        if length < 3:
            return np.zeros((len(words), length), dtype=np.int64)
        rows = []
        for row in words.tolist():
            tokens = expression(row, length - 2, (_PLUS, _MINUS))
            value = value_of(tokens)
            place = (row[-1] * len(tokens)) >> 64
            while tokens[place] >= MODULUS:
                place = (place + 1) % len(tokens)
            hidden = [token - (token > _TIMES) for token in tokens]
            hidden[place] = _X
            rows.append([*hidden, _EQUALS, value])
        return np.array(rows, dtype=np.int64)

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        if sources.shape[1] < 3:
            return column(np.zeros(len(sources), dtype=np.int64))
        return column(np.array([_solution(row) for row in sources.tolist()], dtype=np.int64))

    def source_error(self, source: Sequence[int]) -> str:
        if self.shortest <= len(source) < 3 and not any(source):
            return ""
        is_equation = list(source).count(_X) == 1 and list(source[-2:-1]) == [_EQUALS]
        if not is_equation or source[-1] >= MODULUS:
            return "expected an expression with one x, = and a digit, such as (1+x)=3"
        return _value_error(_with(source, 0))


# Tokens of x and =, which follow the brackets. The equations have no *, so these numbers are lower
# by one.
_X, _EQUALS = 9, 10


def _with(source: Sequence[int], digit: int) -> list[int]:
    """The left side of an equation with a digit in place of x, in the tokens of `value_of`."""
    left = [digit if token == _X else token for token in source[:-2]]
    return [token + (token >= _TIMES) for token in left]


def _solution(source: Sequence[int]) -> int:
    """The digit for which an equation holds. With + and -, exactly one digit modulo 5 does."""
    at_zero, at_one = value_of(_with(source, 0)), value_of(_with(source, 1))
    slope = at_one - at_zero
    return (source[-1] - at_zero) * (1 if slope % MODULUS == 1 else -1) % MODULUS


def _value_error(tokens: Sequence[int]) -> str:
    """The reason why tokens have no value; empty if they have a value."""
    try:
        value_of(tokens)
    except ValueError as error:
        return str(error)
    return ""


class StackManipulation(QuestionSource):
    """A stack from bottom to top, then actions. The answer is the final stack, top first, and end.

    The stack's height is uniform in 1 .. n - 1 (1 for n = 1), and actions are uniform. A pop from
    an empty stack does nothing.

    Args:
        variant: the answer stops at the end symbol ("paper"), or zeros follow up to n + 1 symbols,
            which the loss counts and the score does not ("code").
    """

    source_vocabulary = (*BITS, "pop", "push0", "push1")
    target_vocabulary = (*BITS, "end")

    def __init__(self, variant: str = "paper") -> None:
        check_choice("variant", variant, VARIANTS)
        self.room = 1 if variant == "code" else None

    def words_of(self, length: int) -> int:
        return length + 1

    def sources(self, words: Words, length: int) -> Integers:
        height = 1 + bounded(words[:, length:], max(1, length - 1))
        in_stack = np.arange(length) < height
        return np.where(in_stack, bounded(words[:, :length], 2), 2 + bounded(words[:, :length], 3))

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        rows = np.arange(len(sources))
        stack = np.zeros((len(sources), sources.shape[1] + 1), dtype=np.int64)
        height = np.zeros(len(sources), dtype=np.int64)
        for symbol in sources.T:
            pops = symbol == 2
            stack[rows, height] = np.where(pops, stack[rows, height], symbol % 3)
            height = np.where(pops, np.maximum(height - 1, 0), height + 1)
        place = np.arange(sources.shape[1] + 1)
        order = np.clip(height[:, None] - 1 - place, 0, None)
        answers = np.take_along_axis(stack, order, axis=1)
        return np.where(place < height[:, None], answers, 2), height + 1

    def source_error(self, source: Sequence[int]) -> str:
        actions = [symbol >= 2 for symbol in source]
        if source and not actions[0] and actions == sorted(actions):
            return ""
        return "expected a stack of 0 and 1, at least one, and then actions"

    def count(self, length: int) -> int:
        """See `QuestionSource.count`. The number is a sum over the heights of the stack."""
        return sum(2**height * 3 ** (length - height) for height in _heights(length))

    def listed(self, length: int) -> Integers:
        parts = []
        for height in _heights(length):
            stacks, actions = all_strings(2, height), 2 + all_strings(3, length - height)
            pairs = np.arange(len(stacks) * len(actions))
            first, second = pairs // len(actions), pairs % len(actions)
            parts.append(np.hstack([stacks[first], actions[second]]))
        return np.vstack(parts)


def _heights(length: int) -> range:
    """The stack heights in a source. At least one action remains, except with one symbol."""
    return range(1, max(2, length))


class MissingDuplicate(QuestionSource):
    """w w with one symbol hidden.

    The answer is the hidden symbol. An odd length ends with padding.

    Args:
        variant: "code" adds the source 1, whose answer is 1.
    """

    source_vocabulary = (*BITS, "_", "#")
    target_vocabulary = BITS

    def __init__(self, variant: str = "paper") -> None:
        check_choice("variant", variant, VARIANTS)
        self.shortest = 2 if variant == "paper" else 1

    def sources(self, words: Words, length: int) -> Integers:
        if length == 1:
            return np.ones((len(words), 1), dtype=np.int64)
        half = length // 2
        copies = np.tile(bounded(words[:, :half], 2), (1, 2))
        place = bounded(words[:, half : half + 1], 2 * half)
        hidden = np.where(np.arange(2 * half) == place, 2, copies)
        return np.pad(hidden, ((0, 0), (0, length % 2)), constant_values=3)

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        if sources.shape[1] == 1:
            return column(sources[:, 0])
        half = sources.shape[1] // 2
        place = (sources == 2).argmax(axis=1)
        other = np.where(place < half, place + half, place - half)
        return column(sources[np.arange(len(sources)), other])

    def source_error(self, source: Sequence[int]) -> str:
        if self.shortest == 1 and list(source) == [1]:
            return ""
        half = len(source) // 2
        known = list(source[: 2 * half])
        differing = [
            pair for pair in zip(known[:half], known[half:], strict=True) if len({*pair}) > 1
        ]
        fits = half > 0 and known.count(2) == 1 and len(differing) == 1 and 3 not in known
        if fits and list(source[2 * half :]) == [3] * (len(source) % 2):
            return ""
        return "expected w w with one symbol hidden by _, and # after it if the length is odd"

    def count(self, length: int) -> int:
        """See `QuestionSource.count`.

        The result counts each w with each place that may be hidden.
        """
        half = length // 2
        return int(2**half * 2 * half) if length > 1 else 1

    def listed(self, length: int) -> Integers:
        if length == 1:
            return np.ones((1, 1), dtype=np.int64)
        half = length // 2
        copies = np.repeat(np.tile(all_strings(2, half), (1, 2)), 2 * half, axis=0)
        place = np.arange(len(copies)) % (2 * half)
        copies[np.arange(len(copies)), place] = 2
        return np.pad(copies, ((0, 0), (0, length % 2)), constant_values=3)


class BinaryOperation(QuestionSource):
    """u op v in binary, least significant bit first. The answer is the result, and end.

    The length of u is uniform in 1 .. n - 2. Each number is uniform from 1 to the greatest number
    of its length, and may end with zeros. The result does not end with zeros.

    Args:
        operator: "+" or "*".
        variant: the answer stops at the end symbol ("paper"), or zeros follow up to n symbols, and
            n + 1 for a sum, which the loss counts and the score does not ("code"). The "code" also
            has sources of one and two bits, which are numbers below 2^n - 1. The answer of "+" is
            the number, and the answer of "*" is n - 1 zeros.
    """

    target_vocabulary = (*BITS, "end")

    def __init__(self, operator: str, variant: str = "paper") -> None:
        check_choice("variant", variant, VARIANTS)
        self.source_vocabulary = (*BITS, operator)
        self._operator = operator
        self.shortest = 3 if variant == "paper" else 1
        self.room = None if variant == "paper" else int(operator == "+")

    def words_of(self, length: int) -> int:
        return length // 64 + 6

    def sources(self, words: Words, length: int) -> Integers:
        if length < 3:
            numbers = bounded(words[:, :1], 2**length - 1)
            return numbers >> np.arange(length) & 1
        rows = []
        for row in words.tolist():
            first = 1 + ((row[0] * (length - 2)) >> 64)
            second = length - 1 - first
            from_here, to_here = 3 + first // 64, 5 + first // 64 + second // 64
            left = bits_of(1 + big_below(row[1:from_here], 2**first - 1), first)
            right = bits_of(1 + big_below(row[from_here:to_here], 2**second - 1), second)
            rows.append([*left, 2, *right])
        return np.array(rows, dtype=np.int64)

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        return _padded([*self._result(row), 2] for row in sources.tolist())

    def _result(self, source: Sequence[int]) -> list[int]:
        is_sum = self._operator == "+"
        if len(source) < 3 and not is_sum:
            return [0] * (len(source) - 1)
        place = source.index(2) if len(source) >= 3 else len(source)
        left, right = number_of(source[:place]), number_of(source[place + 1 :])
        result = left + right if is_sum else left * right
        return bits_of(result, max(1, result.bit_length()))

    def source_error(self, source: Sequence[int]) -> str:
        if self.shortest <= len(source) < 3 and 2 not in source and 0 in source:
            return ""
        if list(source).count(2) == 1 and source[0] != 2 and source[-1] != 2:
            return ""
        return f"expected two numbers with {self._operator} between them"

    def count(self, length: int) -> int:
        """See `QuestionSource.count`. The result counts all pairs of numbers above 0."""
        if length < 3:
            return int(2**length - 1)
        firsts = range(1, length - 1)
        return sum((2**first - 1) * (2 ** (length - 1 - first) - 1) for first in firsts)

    def listed(self, length: int) -> Integers:
        if length < 3:
            return np.arange(2**length - 1)[:, None] >> np.arange(length) & 1
        rows = [
            [*bits_of(left, first), 2, *bits_of(right, length - 1 - first)]
            for first in range(1, length - 1)
            for left in range(1, 2**first)
            for right in range(1, 2 ** (length - 1 - first))
        ]
        return np.array(rows, dtype=np.int64)


class SquareRoot(QuestionSource):
    """A number x of n bits, uniform in 1 .. 2^n - 1. The answer is its exact floored square root.

    Args:
        variant: both numbers have the least significant bit first ("paper"), or last ("code").
    """

    source_vocabulary = target_vocabulary = BITS

    def __init__(self, variant: str = "paper") -> None:
        check_choice("variant", variant, VARIANTS)
        self._step = 1 if variant == "paper" else -1

    def words_of(self, length: int) -> int:
        return length // 64 + 2

    def sources(self, words: Words, length: int) -> Integers:
        numbers = (1 + big_below(row, 2**length - 1) for row in words.tolist())
        return np.array([bits_of(number, length)[:: self._step] for number in numbers])

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        size = (sources.shape[1] + 1) // 2
        roots = (isqrt(number_of(row[:: self._step])) for row in sources.tolist())
        return _whole(np.array([bits_of(root, size)[:: self._step] for root in roots]))

    def count(self, length: int) -> int:
        """See `QuestionSource.count`. The result counts all numbers above 0."""
        return int(2**length - 1)

    def listed(self, length: int) -> Integers:
        return all_strings(2, length)[1:]


def big_below(words: Sequence[int], count: int) -> int:
    """An integer in 0 .. count - 1, from words of 64 bits with at least 64 more bits than it needs.

    Each probability differs from 1 / count by a relative error of at most 2**-64.
    """
    number = 0
    for word in words:
        number = number << 64 | word
    return number * count >> 64 * len(words)


def bits_of(number: int, length: int) -> list[int]:
    """The bits of a number, the least significant first, padded with zeros to `length`."""
    return [int(bit) for bit in reversed(f"{number:0{length}b}")]


def number_of(bits: Sequence[int]) -> int:
    """The number with these bits, of which the least significant is first."""
    return int("".join(map(str, reversed(bits))) or "0", 2)


def _odds_first(variant: str) -> Rule:
    check_choice("variant", variant, VARIANTS)
    first = int(variant == "code")
    return _uniform(BITS, partial(_alternating, first))


# The answers of rules are functions of this module or parts of them, so that tasks can be pickled.


def _uniform(alphabet: tuple[str, ...], answers: Callable[[Integers], Integers]) -> Rule:
    """Uniform strings; the answers of each batch have one length."""
    return Rule(alphabet, alphabet, partial(_whole_answers, answers))


def _whole_answers(
    answers: Callable[[Integers], Integers], sources: Integers
) -> tuple[Integers, Integers]:
    return _whole(answers(sources))


def _alternating(first: int, bits: Integers) -> Integers:
    return np.hstack([bits[:, first::2], bits[:, 1 - first :: 2]])


def _ends_differ(bits: Integers) -> Integers:
    return bits[:, :1] ^ bits[:, -1:]


def parity(bits: Integers) -> tuple[Integers, Integers]:
    """Whether each row of bits has an odd number of ones, as answers."""
    return column(bits.sum(axis=1) % 2)


def last_place(moves: Integers) -> tuple[Integers, Integers]:
    """The place after moves (0 back, 1 stay, 2 on) on a cycle of five places, as answers."""
    return column((moves - 1).sum(axis=1) % MODULUS)


_OPTIONS: Final = """
    computation: computation tokens for each symbol of the source, 0 to 100.
    train_lengths: source lengths of the split "train".
    test_lengths: of the splits "validation" and "test".

Raises:
    ConfigError: options are out of range; all errors together.
Source: Delétang et al. 2023, arXiv:2207.02098.
"""


def _task(
    about: str, name: str, source: Callable[[], QuestionSource], train: Lengths = TRAIN
) -> Callable[..., QuestionTask]:
    """The factory of a task with the options that all of these tasks have."""

    def make(
        computation: int = 0, train_lengths: Lengths = train, test_lengths: Lengths = TEST
    ) -> QuestionTask:
        return question(name, source(), train_lengths, test_lengths, computation)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{about}\n\nArgs:{_OPTIONS}"
    return make


def _task_with_variant(
    about: str,
    name: str,
    source: Callable[[str], QuestionSource],
    variants: str,
    train: Lengths = TRAIN,
) -> Callable[..., QuestionTask]:
    """The factory of a task in which the paper and the authors' program differ."""

    def make(
        variant: str = "paper",
        computation: int = 0,
        train_lengths: Lengths = train,
        test_lengths: Lengths = TEST,
    ) -> QuestionTask:
        return question(name, source(variant), train_lengths, test_lengths, computation)

    text = f'variant: "paper", or "code" for the authors\' program. {variants}'
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{about}\n\nArgs:\n    {text}{_OPTIONS}"
    return make


_SHORTER: Final = 'train_lengths "1:40"'
_ZEROS: Final = "the loss counts zeros after the end."

#: The fifteen tasks: first regular, then context-free, then context-sensitive tasks.
CHOMSKY: Final[dict[str, Callable[..., QuestionTask]]] = {
    # Neighbours differ an odd number of times if the first and the last symbol differ.
    "even_pairs": _task(
        "Decide whether the number of neighbours that differ is odd.",
        "even_pairs",
        partial(_uniform, BITS, _ends_differ),
    ),
    "modular_arithmetic": _task_with_variant(
        "Compute digits and operators modulo 5, where * binds more strongly.",
        "modular_arithmetic",
        SimpleArithmetic,
        'An even length has one symbol more in the "paper", one less in the "code".',
    ),
    "parity_check": _task(
        "Decide whether the number of ones is odd.",
        "parity_check",
        partial(Rule, BITS, BITS, parity),
    ),
    "cycle_navigation": _task(
        "Move on a cycle of five places, and output the last place.",
        "cycle_navigation",
        partial(Rule, MOVES, DIGITS, last_place),
    ),
    "modular_arithmetic_brackets": _task(
        "Compute an expression with brackets modulo 5.",
        "modular_arithmetic_brackets",
        BracketArithmetic,
    ),
    "reverse_string": _task(
        "Reverse a string of bits, without feedback.",
        "reverse_string",
        partial(_uniform, BITS, np.fliplr),
    ),
    "solve_equation": _task_with_variant(
        "Find the digit x of an equation with brackets modulo 5.",
        "solve_equation",
        Equation,
        f'The "code" also has sources of one and two zeros, with answer 0 ({_SHORTER}).',
        "3:40",
    ),
    "stack_manipulation": _task_with_variant(
        "Push and pop according to the source, and output the final stack.",
        "stack_manipulation",
        StackManipulation,
        f'In the "code" {_ZEROS}',
    ),
    "duplicate_string": _task(
        "Output a string of bits twice.",
        "duplicate_string",
        partial(_uniform, BITS, partial(np.tile, reps=(1, 2))),
    ),
    "missing_duplicate_string": _task_with_variant(
        "Output the symbol that is hidden in a doubled string.",
        "missing_duplicate_string",
        MissingDuplicate,
        f'The "code" also has the source 1, with answer 1 ({_SHORTER}).',
        "2:40",
    ),
    "odds_first": _task_with_variant(
        "Output the first, third, fifth ... bit, then the other bits.",
        "odds_first",
        _odds_first,
        'The second, fourth ... bit comes first in the "code".',
    ),
    "chomsky_binary_addition": _task_with_variant(
        "Add two binary numbers of any lengths, the lowest bit first.\n\n"
        "The paper names this task binary_addition, but here the stream task of Joulin & Mikolov "
        "has that name.",
        "chomsky_binary_addition",
        partial(BinaryOperation, "+"),
        f'The "code" also has sources of one and two bits ({_SHORTER}), and {_ZEROS}',
        "3:40",
    ),
    "binary_multiplication": _task_with_variant(
        "Multiply two binary numbers, the lowest bit first.",
        "binary_multiplication",
        partial(BinaryOperation, "*"),
        f'The "code" also has sources of one and two bits ({_SHORTER}), and {_ZEROS}',
        "3:40",
    ),
    "compute_sqrt": _task_with_variant(
        "Output the floored square root of a binary number.",
        "compute_sqrt",
        SquareRoot,
        'The lowest bit comes first in the "paper", last in the "code".',
    ),
    "bucket_sort": _task(
        "Sort a string of five symbols.",
        "bucket_sort",
        partial(_uniform, DIGITS, np.sort),
    ),
}
