"""The eighteen languages of FLaRe, with recognisers, next symbols, and uniform strings.

Each language is a deterministic automaton whose states may be as large as the string. A state is
None if no string of the language begins with the symbols read so far. So the symbols that may come
next are the symbols with a next state. Strings of one length are drawn uniformly with exact
integers, from a formula or from the number of strings that each state accepts.

Source: Butoi et al. 2025, arXiv:2411.07107, section 4.1 and appendix.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import accumulate
from math import isqrt
from typing import Any, Final

from unbounded.tasks.chomsky import bits_of

#: A function that draws a uniform integer in 0 .. count - 1.
Below = Callable[[int], int]


class Language(ABC):
    """A language as an automaton, with uniform strings of one length.

    Attributes:
        alphabet: the symbols; strings are sequences of their numbers.
        start: the state before the first symbol.
    """

    alphabet: tuple[str, ...]
    start: Hashable

    @abstractmethod
    def step(self, state: Any, symbol: int) -> Any:
        """The state after a symbol; None if no string of the language begins in this way."""

    @abstractmethod
    def ends(self, state: Any) -> bool:
        """Whether the string read so far is in the language."""

    @abstractmethod
    def has(self, length: int) -> bool:
        """Whether the language has strings of a length."""

    @abstractmethod
    def draw(self, length: int, below: Below) -> list[int]:
        """A uniform string of a length that the language has.

        Args:
            length: of the string.
            below: draws integers.
        """

    def count(self, length: int) -> int | None:
        """The number of strings of a length; None if no formula is known."""
        return None

    def accepts(self, string: Iterable[int]) -> bool:
        """Whether a string is in the language."""
        state = self.start
        for symbol in string:
            state = self.step(state, symbol)
            if state is None:
                return False
        return self.ends(state)

    def next_symbols(self, string: Sequence[int]) -> list[tuple[list[int], bool]]:
        """Return what may follow each prefix of a string of the language.

        Args:
            string: L symbols.
        Returns:
            L + 1 pairs: the possible next symbols, and whether the string may end.
        """
        state, sets = self.start, []
        for place in range(len(string) + 1):
            symbols = range(len(self.alphabet))
            possible = [symbol for symbol in symbols if self.step(state, symbol) is not None]
            sets.append((possible, self.ends(state)))
            if place < len(string):
                state = self.step(state, string[place])
        return sets


class Counted(Language):
    """A language whose automaton has few states for each length, which are used for counting."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Hashable, int], int] = {}
        self._sums: dict[tuple[Hashable, int], list[int]] = {}

    def has(self, length: int) -> bool:
        return self.count(length) > 0

    def count(self, length: int) -> int:
        return self._number(self.start, length)

    def draw(self, length: int, below: Below) -> list[int]:
        """See `Language.draw`. The string has a uniform rank in alphabetical order."""
        rank, state, string = below(self.count(length)), self.start, []
        for left in range(length - 1, -1, -1):
            sums = self._sums_of(state, left)
            symbol = bisect_right(sums, rank) - 1
            string.append(symbol)
            rank -= sums[symbol]
            state = self.step(state, symbol)
        return string

    def _sums_of(self, state: Hashable, left: int) -> list[int]:
        """For each symbol, the number of strings with lower symbols, if `left` more follow."""
        key = state, left
        if key not in self._sums:
            states = [self.step(state, symbol) for symbol in range(len(self.alphabet) - 1)]
            numbers = [0 if after is None else self._number(after, left) for after in states]
            self._sums[key] = list(accumulate(numbers, initial=0))
        return self._sums[key]

    def _number(self, state: Hashable, length: int) -> int:
        """The number of strings of a length that lead from a state to an accepting state."""
        numbers, waiting = self._numbers, [(state, length)]
        while waiting:
            key = waiting[-1]
            now, left = key
            if key in numbers:
                waiting.pop()
            elif left == 0:
                numbers[key] = int(self.ends(now))
            else:
                states = (self.step(now, symbol) for symbol in range(len(self.alphabet)))
                keys = [(after, left - 1) for after in states if after is not None]
                missing = [after for after in keys if after not in numbers]
                waiting += missing
                if not missing:
                    numbers[key] = sum(numbers[after] for after in keys)
        return numbers[state, length]


class EvenPairs(Counted):
    """Strings in which first and last symbol are equal, or with at most one symbol."""

    alphabet = ("0", "1")
    start = (-1, -1)

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state consists of the first and the last symbol."""
        return (symbol if state[0] < 0 else state[0], symbol)

    def ends(self, state: Any) -> bool:
        return bool(state[0] == state[1])


class Repeat01(Counted):
    """0 1 0 1 ... 0 1."""

    alphabet = ("0", "1")
    start = 0

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state is the only possible next symbol."""
        return 1 - state if symbol == state else None

    def ends(self, state: Any) -> bool:
        return bool(state == 0)


class Parity(Counted):
    """Strings with an odd number of ones."""

    alphabet = ("0", "1")
    start = 0

    def step(self, state: Any, symbol: int) -> Any:
        return state ^ symbol

    def ends(self, state: Any) -> bool:
        return bool(state)


class First(Counted):
    """The strings that begin with the symbol 1."""

    alphabet = ("0", "1")
    start = 0

    def step(self, state: Any, symbol: int) -> Any:
        return 1 if state or symbol else None

    def ends(self, state: Any) -> bool:
        return bool(state)


class CycleNavigation(Counted):
    """Moves to the right and to the left, then the last place on a cycle of five."""

    alphabet = ("<", "=", ">", "0", "1", "2", "3", "4")
    start = 0
    _DONE = 5

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. The state is the place on the cycle."""
        if state == self._DONE:
            return None
        if symbol < 3:
            return (state + symbol - 1) % 5
        return self._DONE if symbol - 3 == state else None

    def ends(self, state: Any) -> bool:
        return bool(state == self._DONE)


class ModularArithmetic(Counted):
    """Digits and operators in turn, evaluated from left to right modulo 5, "=" and the value."""

    alphabet = ("0", "1", "2", "3", "4", "+", "-", "*", "=")
    start = ("operator", 0, 5)
    _OPERATORS: Final = (operator.add, operator.sub, operator.mul)

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state holds the last symbol's kind, the value and the operator."""
        kind, value, pending = state
        if kind == "operator" and symbol < 5:
            return ("digit", self._OPERATORS[pending - 5](value, symbol) % 5, 0)
        if kind == "digit" and symbol > 4:
            return ("equals" if symbol == 8 else "operator", value, symbol)
        if kind == "equals" and symbol == value:
            return ("end", 0, 0)
        return None

    def ends(self, state: Any) -> bool:
        return bool(state[0] == "end")


class BoundedDyck(Counted):
    """Balanced brackets of two kinds, at most three open at once."""

    alphabet = ("(0", "(1", ")0", ")1")
    start = ()
    _DEPTH = 3

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state is the sequence of open brackets."""
        if symbol < 2:
            return (*state, symbol) if len(state) < self._DEPTH else None
        return state[:-1] if state and state[-1] == symbol - 2 else None

    def ends(self, state: Any) -> bool:
        return not state


class Majority(Counted):
    """Strings with more ones than zeros."""

    alphabet = ("0", "1")
    start = 0

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state is the number of ones minus the number of zeros."""
        return state + 2 * symbol - 1

    def ends(self, state: Any) -> bool:
        return bool(state > 0)


class Marked(Language):
    """w # f(w).

    Args:
        symbols: the symbols of w.
        image: f, of tuples.
    """

    start = ()

    def __init__(
        self, symbols: tuple[str, ...], image: Callable[[tuple[int, ...]], Sequence[int]]
    ) -> None:
        self.alphabet = (*symbols, "#")
        self._image = image

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state is w; after #, it is the image of w and the place in it."""
        if state and isinstance(state[0], tuple):
            image, place = state
            return (image, place + 1) if image[place : place + 1] == (symbol,) else None
        if symbol == len(self.alphabet) - 1:
            return (tuple(self._image(state)), 0)
        return (*state, symbol)

    def ends(self, state: Any) -> bool:
        return bool(state) and isinstance(state[0], tuple) and state[1] == len(state[0])

    def has(self, length: int) -> bool:
        return length % 2 == 1

    def count(self, length: int) -> int:
        return int((len(self.alphabet) - 1) ** (length // 2)) if self.has(length) else 0

    def draw(self, length: int, below: Below) -> list[int]:
        word = tuple(_digits(below(self.count(length)), len(self.alphabet) - 1, length // 2))
        return [*word, len(self.alphabet) - 1, *self._image(word)]


class UnmarkedReversal(Language):
    """Strings that consist of w and its reverse."""

    alphabet = ("0", "1")
    start = ()

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`; a state is the string."""
        return (*state, symbol)

    def ends(self, state: Any) -> bool:
        return len(state) % 2 == 0 and state == state[::-1]

    def has(self, length: int) -> bool:
        return length % 2 == 0

    def count(self, length: int) -> int:
        return int(2 ** (length // 2)) if self.has(length) else 0

    def draw(self, length: int, below: Below) -> list[int]:
        word = _digits(below(self.count(length)), 2, length // 2)
        return [*word, *word[::-1]]


class MissingDuplicate(Language):
    """Strings w w in which one 1 is replaced by _."""

    alphabet = ("0", "1", "_")
    start = ()

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`; a state is the string."""
        return None if symbol == 2 and 2 in state else (*state, symbol)

    def ends(self, state: Any) -> bool:
        half = len(state) // 2
        if len(state) % 2 or state.count(2) != 1:
            return False
        whole = tuple(min(symbol, 1) for symbol in state)
        return bool(whole[:half] == whole[half:])

    def has(self, length: int) -> bool:
        return length > 0 and length % 2 == 0

    def count(self, length: int) -> int:
        """See `Language.count`.

        The result is the number of places of _ times the choices of other symbols.
        """
        return int(length * 2 ** (length // 2 - 1)) if self.has(length) else 0

    def draw(self, length: int, below: Below) -> list[int]:
        half = length // 2
        place, rank = divmod(below(self.count(length)), 2 ** (half - 1))
        word = _digits(rank, 2, half - 1)
        word.insert(place % half, 1)
        string = [*word, *word]
        string[place] = 2
        return string


class StackManipulation(Language):
    """A stack from bottom to top, PUSH b and POP, "#", and the final stack, top first.

    No string has a POP from an empty stack. With h symbols, p pushes and any number of pops a
    string has 2h + 3p + 1 symbols.
    """

    alphabet = ("0", "1", "PUSH", "POP", "#")
    start = ("stack", ())

    def __init__(self) -> None:
        # Number of sequences of pushes and pops, by number of later pushes and height.
        self._paths: list[list[int]] = []

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state consists of the last symbol's kind and the stack."""
        kind, stack = state
        if kind == "push":
            return ("action", (*stack, symbol)) if symbol < 2 else None
        if kind == "out":
            return ("out", stack[:-1]) if stack and stack[-1] == symbol else None
        if symbol < 2:
            return ("stack", (*stack, symbol)) if kind == "stack" else None
        if symbol == 2:
            return ("push", stack)
        if symbol == 3:
            return ("action", stack[:-1]) if stack else None
        return ("out", stack)

    def ends(self, state: Any) -> bool:
        return bool(state[0] == "out" and not state[1])

    def has(self, length: int) -> bool:
        return length > 0 and length != 2

    def count(self, length: int) -> int:
        return sum(weight for _, _, weight in self._shapes(length))

    def draw(self, length: int, below: Below) -> list[int]:
        shapes = self._shapes(length)
        weights = [weight for _, _, weight in shapes]
        place, rank = _chosen(weights, below(sum(weights)))
        height, pushes, _ = shapes[place]
        rank, bits_rank = divmod(rank, 2 ** (height + pushes))
        bits = _digits(bits_rank, 2, height + pushes)
        stack = bits[:height]
        string = list(stack)
        for number, bit in enumerate(bits[height:]):
            # Draw the stack's height before the next push, according to the number of paths from
            # it.
            left = pushes - number - 1
            top = len(stack)
            while rank >= (paths := self._paths_from(top + 1, left)):
                rank -= paths
                top -= 1
            string += [3] * (len(stack) - top) + [2, bit]
            stack = [*stack[:top], bit]
        string += [3] * rank
        stack = stack[: len(stack) - rank]
        return [*string, 4, *reversed(stack)]

    def _shapes(self, length: int) -> list[tuple[int, int, int]]:
        """Height, number of pushes and number of strings, for each shape of strings of a length."""
        shapes = []
        for pushes in range((length - 1) // 3 + 1):
            if (length - 1 - 3 * pushes) % 2 == 0:
                height = (length - 1 - 3 * pushes) // 2
                weight = 2 ** (height + pushes) * self._paths_from(height, pushes)
                shapes.append((height, pushes, weight))
        return shapes

    def _paths_from(self, height: int, pushes: int) -> int:
        """Number of sequences of `pushes` pushes and any pops that never pop an empty stack.

        Without further pushes there are height + 1 sequences, one for each number of pops.
        Otherwise, a pop leads to height - 1, and a push to height + 1 with one push fewer.
        """
        while len(self._paths) <= pushes:
            self._paths.append([])
        # The table is filled up to the height that the smaller numbers of pushes need.
        for number in range(pushes + 1):
            row, most = self._paths[number], height + pushes - number
            for top in range(len(row), most + 1):
                if number == 0:
                    row.append(top + 1)
                else:
                    row.append((row[top - 1] if top else 0) + self._paths[number - 1][top + 1])
        return self._paths[pushes][height]


class Binary(Language):
    """Numbers with the least significant bit first. Any number may end with zeros.

    Args:
        signs: the alphabet after 0 and 1: the operator, if there are two numbers, and "=".
        result: maps the numbers to the result.
    """

    def __init__(self, signs: tuple[str, ...], result: Callable[..., int]) -> None:
        self.alphabet = ("0", "1", *signs)
        self._operands, self._result = len(signs), result
        self.start = ((), 0, 0)
        self._kept: dict[int, Any] = {}

    def step(self, state: Any, symbol: int) -> Any:
        """See `Language.step`. A state holds earlier numbers, and value and length of this one."""
        numbers, value, length = state
        if len(numbers) > self._operands:
            fits = symbol < 2 and (value >> length) & 1 == symbol
            return (numbers, value, length + 1) if fits else None
        if symbol < 2:
            return (numbers, value | symbol << length, length + 1)
        if length == 0 or symbol != 2 + len(numbers):
            return None
        numbers = (*numbers, value)
        if len(numbers) < self._operands:
            return (numbers, 0, 0)
        return ((*numbers, 0), self._result(*numbers), 0)

    def ends(self, state: Any) -> bool:
        numbers, value, length = state
        return len(numbers) > self._operands and length > 0 and value >> length == 0

    def has(self, length: int) -> bool:
        return length > 2 * self._operands

    def _written(self, numbers: Sequence[tuple[int, int]], size: int) -> list[int]:
        """The string of numbers of given lengths, and of their result with `size` digits."""
        string: list[int] = []
        for place, (number, length) in enumerate(numbers):
            string += [*bits_of(number, length), 2 + place]
        return [*string, *bits_of(self._result(*(number for number, _ in numbers)), size)]

    def _kept_for(self, length: int, make: Callable[[int], Any]) -> Any:
        """Return the table of a length, which is built once."""
        if length not in self._kept:
            self._kept[length] = make(length)
        return self._kept[length]


class BinaryAddition(Binary):
    """u + v = s."""

    def __init__(self) -> None:
        super().__init__(("+", "="), operator.add)

    def count(self, length: int) -> int:
        return int(self._kept_for(length, self._sums)[-1]) if self.has(length) else 0

    def draw(self, length: int, below: Below) -> list[int]:
        sums = self._kept_for(length, self._sums)
        rank = below(sums[-1])
        size = bisect_right(sums, rank)
        rank -= sums[size - 1]
        digits = length - 2 - size
        numbers = [_sums_below(first, digits - first, size) for first in range(1, digits)]
        place, rank = _chosen(numbers, rank)
        first = place + 1
        left, right = _pair_below(first, digits - first, size, rank)
        return self._written([(left, first), (right, digits - first)], size)

    @staticmethod
    def _sums(length: int) -> list[int]:
        """The number of strings whose sum has at most 0, 1, 2, ... digits."""
        numbers = [0]
        for size in range(1, length - 3):
            digits = length - 2 - size
            numbers.append(
                sum(_sums_below(first, digits - first, size) for first in range(1, digits))
            )
        return list(accumulate(numbers))


def _sums_below(first: int, second: int, size: int) -> int:
    """The number of pairs u < 2^first, v < 2^second with u + v < 2^size."""
    low, high = min(first, second), max(first, second)
    if size > high:
        return 1 << (first + second)
    return _pairs_up_to(1 << min(low, size), 1 << size)


def _pairs_up_to(most: int, bound: int) -> int:
    """The number of pairs u < most, v with u + v < bound, for most <= bound."""
    return most * bound - most * (most - 1) // 2


def _pair_below(first: int, second: int, size: int, rank: int) -> tuple[int, int]:
    """The pair of a given rank among the pairs that `_sums_below` counts."""
    if size > max(first, second):
        return rank >> second, rank & ((1 << second) - 1)
    if first > second:
        right, left = _pair_below(second, first, size, rank)
        return left, right
    # Find the greatest u with at most `rank` pairs before it.
    low, high = 0, (1 << min(first, size)) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _pairs_up_to(middle, 1 << size) <= rank:
            low = middle
        else:
            high = middle - 1
    return low, rank - _pairs_up_to(low, 1 << size)


class BinaryMultiplication(Binary):
    """u × v = p.

    No formula is known for the number of strings. Strings are drawn with all pairs of bit lengths
    whose product may fit, and drawn again if the product does not fit. At most 61 % of the pairs of
    two lengths do not fit.
    """

    def __init__(self) -> None:
        super().__init__(("×", "="), operator.mul)

    def draw(self, length: int, below: Below) -> list[int]:
        shapes, sums = self._kept_for(length, self._shapes)
        while True:
            size, bits = shapes[bisect_right(sums, below(sums[-1]))]
            digits = length - 2 - size
            numbers = self._with_zero(digits, below) if bits == 0 else _of_bits(bits, digits, below)
            if self._result(*(number for number, _ in numbers)) >> size == 0:
                return self._written(numbers, size)

    @staticmethod
    def _with_zero(digits: int, below: Below) -> list[tuple[int, int]]:
        """Two numbers with `digits` digits together, of which at least one is 0."""
        # There are 2^second pairs with u = 0 and any v, and 2^first - 1 pairs with u > 0 and v = 0.
        numbers = [2**first + 2 ** (digits - first) - 1 for first in range(1, digits)]
        place, rank = _chosen(numbers, below(sum(numbers)))
        first, second = place + 1, digits - place - 1
        if rank < 2**second:
            return [(0, first), (rank, second)]
        return [(rank - 2**second + 1, first), (0, second)]

    @staticmethod
    def _shapes(length: int) -> tuple[list[tuple[int, int]], list[int]]:
        """Pairs of the product's digits and the sum of bit lengths, with running sums of weights.

        A sum of 0 represents a product of 0.
        """
        shapes, weights = [], []
        for size in range(1, length - 3):
            digits = length - 2 - size
            shapes.append((size, 0))
            weights.append(sum(2 * 2**first - 1 for first in range(1, digits)))
            # Numbers of i and j bits have a product of i + j - 1 or i + j bits.
            for bits in range(2, min(size + 1, digits) + 1):
                shapes.append((size, bits))
                weights.append(2 ** (bits - 2) * (bits - 1) * (digits - bits + 1))
        return shapes, list(accumulate(weights))


def _of_bits(bits: int, digits: int, below: Below) -> list[tuple[int, int]]:
    """Two numbers above 0 with `bits` bits together, with zeros added up to `digits` digits."""
    first = 1 + below(bits - 1)
    zeros = below(digits - bits + 1)
    left = 2 ** (first - 1) + below(2 ** (first - 1))
    second = bits - first
    right = 2 ** (second - 1) + below(2 ** (second - 1))
    return [(left, first + zeros), (right, digits - first - zeros)]


class SquareRoot(Binary):
    """x = z, where z is the exact floored square root of x."""

    def __init__(self) -> None:
        super().__init__(("=",), isqrt)

    def count(self, length: int) -> int:
        """See `Language.count`. Numbers below 4^c have roots of at most c digits."""
        return sum(_roots(length)) if self.has(length) else 0

    def draw(self, length: int, below: Below) -> list[int]:
        place, number = _chosen(_roots(length), below(self.count(length)))
        return self._written([(number, length - 2 - place)], place + 1)


def _roots(length: int) -> list[int]:
    """The numbers of strings whose root has 1, 2, ... digits."""
    return [2 ** min(length - 1 - size, 2 * size) for size in range(1, length - 1)]


def _chosen(numbers: Sequence[int], rank: int) -> tuple[int, int]:
    """The place at which the running sum of numbers exceeds a rank, and the rank within it."""
    sums = list(accumulate(numbers))
    place = bisect_right(sums, rank)
    return place, rank - (sums[place - 1] if place else 0)


def _digits(number: int, base: int, length: int) -> list[int]:
    """The digits of a number, the highest first."""
    digits = []
    for _ in range(length):
        number, digit = divmod(number, base)
        digits.append(digit)
    return digits[::-1]


def _odds_first(word: tuple[int, ...]) -> tuple[int, ...]:
    return (*word[0::2], *word[1::2])


_BITS: Final = ("0", "1")
#: The languages: first regular, then context-free, then context-sensitive languages.
LANGUAGES: Final[dict[str, Callable[[], Language]]] = {
    "even_pairs": EvenPairs,
    "repeat_01": Repeat01,
    "parity": Parity,
    "cycle_navigation": CycleNavigation,
    "modular_arithmetic_simple": ModularArithmetic,
    "dyck_2_3": BoundedDyck,
    "first": First,
    "majority": Majority,
    "stack_manipulation": StackManipulation,
    "marked_reversal": lambda: Marked(_BITS, lambda word: word[::-1]),
    "unmarked_reversal": UnmarkedReversal,
    "marked_copy": lambda: Marked(_BITS, lambda word: word),
    "missing_duplicate_string": MissingDuplicate,
    "odds_first": lambda: Marked(_BITS, _odds_first),
    "binary_addition": BinaryAddition,
    "binary_multiplication": BinaryMultiplication,
    "compute_sqrt": SquareRoot,
    "bucket_sort": lambda: Marked(("1", "2", "3", "4", "5"), sorted),
}
