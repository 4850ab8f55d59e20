"""Language modelling on the languages of DuSell & Chiang, with exact probabilities.

Source: DuSell & Chiang 2020, arXiv:2010.04674 (the five context-free languages); 2023,
arXiv:2210.01343 (the seven others, and the capacity test).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from unbounded.checks import check_choice
from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, errors_of_ranges, named_ranges
from unbounded.tasks.pcfg import Floats, Production, WeightedGrammar
from unbounded.tasks.randomness import (
    Integers,
    Stream,
    bounded,
    unit_floats,
    whole_number,
)
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.task import Example, Task

BEGIN, END = "<s>", "</s>"
#: Greatest number of kinds of symbols. The authors' capacity test has 200.
MOST_SYMBOLS: Final = 1000
# Number of strings whose probabilities are computed at once.
_AT_ONCE = 64


class StringSource(ABC):
    """Random strings with exact probabilities, given their length.

    Attributes:
        alphabet: the symbols.
    """

    alphabet: tuple[str, ...]

    @abstractmethod
    def has(self, length: int) -> bool:
        """Whether there are strings of a length, at least 1."""

    @abstractmethod
    def draw(self, stream: Stream, index: int, length: int) -> list[int]:
        """The string of an example, for a length that the language has."""

    @abstractmethod
    def log_probabilities(self, strings: Integers) -> Floats:
        """The logarithm of the probability of strings [B, L], given their length, float64 [B]."""

    def count(self, length: int) -> int | None:
        """The number of strings of a length; None if they cannot be listed."""
        return None

    def listed(self, length: int) -> list[list[int]]:
        """All strings of a length; call `count` first."""
        return []

    def open_symbols(self, length: int) -> int | None:
        """The number of symbols of a string after which all that follows is determined.

        None if that number is unknown, or is the length.
        """
        return None


class Images(StringSource):
    """Strings w f(w), where w is a uniform string.

    Args:
        alphabet: the symbols; w has the first `symbols` of them.
        symbols: number of symbols of w.
        sections: symbols of a string for each symbol of w.
        marks: further symbols of a string.
        image: maps w to the string.
    """

    def __init__(
        self,
        alphabet: tuple[str, ...],
        symbols: int,
        sections: int,
        marks: int,
        image: Callable[[list[int]], list[int]],
    ) -> None:
        self.alphabet = alphabet
        self._symbols, self._sections, self._marks, self._image = symbols, sections, marks, image

    def has(self, length: int) -> bool:
        return length >= self._marks and (length - self._marks) % self._sections == 0

    def draw(self, stream: Stream, index: int, length: int) -> list[int]:
        size = self._size(length)
        _, words = stream.sequence_words(np.array([index]), size)
        return self._image(bounded(words[0], self._symbols).tolist())

    def log_probabilities(self, strings: Integers) -> Floats:
        size = self._size(strings.shape[1])
        return np.full(len(strings), -size * math.log(self._symbols))

    def count(self, length: int) -> int:
        """See `StringSource.count`. The result counts the strings w."""
        return int(self._symbols ** self._size(length)) if self.has(length) else 0

    def listed(self, length: int) -> list[list[int]]:
        return [self._image(w) for w in all_strings(self._symbols, self._size(length)).tolist()]

    def open_symbols(self, length: int) -> int | None:
        """See `StringSource.open_symbols`. A symbol that is not in w ends it."""
        return self._size(length) + 1 if len(self.alphabet) > self._symbols else None

    def _size(self, length: int) -> int:
        """The number of symbols of w."""
        return (length - self._marks) // self._sections


class Derived(StringSource):
    """Strings of a grammar. Pairs of brackets may have kinds, which are uniform.

    Args:
        alphabet: the symbols: those of the grammar, or with kinds each of them in each kind.
        grammar: derives the strings.
        kinds: kinds of brackets; symbols 2k and 2k + 1 are those of kind k. None for no brackets.
    """

    def __init__(
        self, alphabet: tuple[str, ...], grammar: WeightedGrammar, kinds: int | None = None
    ) -> None:
        self.alphabet, self._grammar, self._kinds = alphabet, grammar, kinds
        self._there: dict[int, bool] = {}

    def has(self, length: int) -> bool:
        if length not in self._there:
            self._there[length] = self._grammar.weight_of(length) > 0
        return self._there[length]

    def draw(self, stream: Stream, index: int, length: int) -> list[int]:
        # A derivation has at most this many steps, because chains of empty rules are short.
        _, words = stream.sequence_words(np.array([index]), 40 * length + 100)
        kinds, numbers = words[0, :length], iter(unit_floats(words[0, length:]).tolist())
        string = self._grammar.draw(length, numbers)
        if self._kinds is None:
            return string
        opened: list[int] = []
        drawn = bounded(kinds, self._kinds).tolist()
        for place, bracket in enumerate(string):
            if bracket == 0:
                opened.append(2 * drawn[place])
                string[place] = opened[-1]
            else:
                string[place] = opened.pop() + 1
        return string

    def log_probabilities(self, strings: Integers) -> Floats:
        if self._kinds is None:
            return self._grammar.log_probabilities(strings)
        logs = self._grammar.log_probabilities(strings % 2)
        logs -= strings.shape[1] // 2 * math.log(self._kinds)
        return logs


class LanguageModel(Task):
    """Predict each symbol of a string, and its end.

    Lengths are uniform over the lengths in the range that the language has. Given its length, a
    string is drawn with its probability in the language. Inputs are <s> and the string. Targets are
    the string and </s>.

    In some languages a mark, or a symbol of another alphabet, ends a random string w. After it all
    symbols and the end are determined, and only they are verified.

    Args:
        language: name of the language, one of LANGUAGES.
        symbols: kinds of symbols, or of brackets.
        train_lengths, test_lengths: numbers of symbols of the splits.
    Raises:
        ConfigError: the language has no string of a range, or no kinds; all errors together.
    Source: DuSell & Chiang 2020, arXiv:2010.04674, section 4.
    """

    layout = "labels"
    metric_set = "above_bound"
    name = "stack_language"
    start_symbol = BEGIN

    def __init__(
        self, language: str, symbols: int, train_lengths: LengthRange, test_lengths: LengthRange
    ) -> None:
        self.language, self.symbols = language, symbols
        self.source = LANGUAGES[language](whole_number("symbols", symbols, 1, MOST_SYMBOLS))
        self.input_vocabulary = (BEGIN, *self.source.alphabet)
        self.output_vocabulary = (END, *self.source.alphabet)
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        self.is_determined = self.source.open_symbols(train_lengths.maximum) is not None
        errors = errors_of_ranges(
            self._range_errors, train_lengths=train_lengths, test_lengths=test_lengths
        )
        if symbols != 2 and language in _WITHOUT_KINDS:
            errors.append(f"symbols: has no effect on the language {language}; leave it at 2")
        if errors:
            raise ConfigError(errors)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the arguments; most sources have functions that pickle refuses."""
        ranges = (self.train_lengths, self.test_lengths)
        return type(self), (self.language, self.symbols, *ranges)

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`.

        The number of steps T is the number of symbols of the longest string, plus 1.
        """
        return self._lay_out(self._strings(seed, split, start, size, lengths))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The targets are empty, because each symbol is predicted."""
        strings = self._strings(seed, split, start, size, lengths)
        return [Example(tuple(self.source.alphabet[s] for s in string), ()) for string in strings]

    def shortest_in(self, lengths: LengthRange) -> int:
        return min(self._lengths_in(lengths), default=lengths.minimum)

    def count_of(self, length: int, symbols: int) -> int | None:
        """See `Task.count_of`. The result counts all strings of the language."""
        return self.source.count(length) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Batch:
        return self._lay_out(self.source.listed(length))

    def determined(self, batch: Batch) -> Batch:
        opened = [self.source.open_symbols(length - 1) or 0 for length in batch.lengths.tolist()]
        place = torch.arange(batch.mask.shape[1])
        return batch._replace(mask=batch.mask & (place >= torch.tensor(opened).unsqueeze(1)))

    def log_probabilities(self, batch: Batch, lengths: LengthRange) -> Floats:
        """The logarithm of the probability of each string in a batch, including its length.

        Args:
            batch: strings of this task.
            lengths: the range that they were drawn from.
        Returns:
            float64 [B], in nats.
        """
        logs = np.zeros(len(batch.lengths))
        sizes = batch.lengths.numpy() - 1
        strings = batch.inputs.numpy()[:, 1:] - 1
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            for start in range(0, len(rows), _AT_ONCE):
                part = rows[start : start + _AT_ONCE]
                logs[part] = self.source.log_probabilities(strings[part, :size])
        logs -= math.log(len(self._lengths_in(lengths)))
        return logs

    def _lay_out(self, strings: Sequence[Sequence[int]]) -> Batch:
        steps = np.array([len(string) + 1 for string in strings])
        inputs = np.zeros((len(strings), int(steps.max())), dtype=np.int64)
        targets = np.zeros_like(inputs)
        for row, string in enumerate(strings):
            inputs[row, 1 : steps[row]] = targets[row, : steps[row] - 1] = np.add(string, 1)
        mask = np.arange(inputs.shape[1]) < steps[:, None]
        return batch_of(inputs, targets, mask, steps)

    def _strings(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> list[list[int]]:
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        there = self._lengths_in(chosen)
        indices = start + np.arange(size)
        places = bounded(stream.length_words(indices), len(there)).tolist()
        return [
            self.source.draw(stream, start + row, there[place]) for row, place in enumerate(places)
        ]

    def _lengths_in(self, lengths: LengthRange) -> list[int]:
        return [length for length in lengths if self.source.has(length)]

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        if any(self.source.has(length) for length in lengths):
            return []
        return [f"length range: the language has no string of {lengths}"]


def _goes_on(mean: float) -> float:
    """The probability of one more symbol with which the mean number of symbols is `mean`."""
    return mean / (mean + 1)


def _numbers(symbols: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(symbols))


def _marked(symbols: int, sections: int, image: Callable[[list[int]], Sequence[int]]) -> Images:
    """A language of sections that are separated by #."""
    return Images(
        (*_numbers(symbols), "#"), symbols, sections, sections - 1, lambda word: [*image(word)]
    )


def _unmarked(symbols: int, sections: int, image: Callable[[list[int]], Sequence[int]]) -> Images:
    return Images(_numbers(symbols), symbols, sections, 0, lambda word: [*image(word)])


def _padded_reversal(symbols: int) -> Derived:
    """A string, many copies of one symbol, and the reversed string.

    On average, the string has 60 symbols, and the padding has 30.
    """
    nest, pad = _goes_on(60), _goes_on(30)
    rules = []
    for symbol in range(symbols):
        rules += [
            Production("S", (symbol, "S", symbol), nest / symbols),
            Production("S", (f"T{symbol}",), (1 - nest) / symbols),
            Production(f"T{symbol}", (symbol, f"T{symbol}"), pad),
            Production(f"T{symbol}", (), 1 - pad),
        ]
    return Derived(_numbers(symbols), WeightedGrammar("S", rules))


def _dyck(kinds: int) -> Derived:
    """Balanced brackets, with one split and a depth of 40 on average."""
    split, nest = _goes_on(1), _goes_on(39)
    rules = [
        Production("S", ("S", "T"), split),
        Production("S", ("T",), 1 - split),
        Production("T", (0, "S", 1), nest),
        Production("T", (0, 1), 1 - nest),
    ]
    names = ("(", ")", "[", "]") if kinds == 2 else ()
    numbered = tuple(f"{bracket}{kind}" for kind in range(kinds) for bracket in "()")
    return Derived(names or numbered, WeightedGrammar("S", rules), kinds)


def _hardest_cfl(symbols: int) -> Derived:
    """Greibach's hardest context-free language: brackets among decoys."""
    left, right, left_square, right_square, comma, semicolon, dollar = range(7)
    commas, short, long = _goes_on(0.5), _goes_on(0.5), _goes_on(1)
    semicolons, split, nest = 0.25, _goes_on(1), _goes_on(40)
    rules = [
        Production("S'", ("R", dollar, "Q", "S", "L", semicolon)),
        Production("L", ("L'", comma, "U")),
        Production("L'", (comma, "V", "L'"), commas),
        Production("L'", (), 1 - commas),
        Production("R", ("U", comma, "R'")),
        Production("R'", ("R'", "V", comma), commas),
        Production("R'", (), 1 - commas),
        Production("U", ("W", "U"), short),
        Production("U", (), 1 - short),
        Production("V", ("W", "V"), long),
        Production("V", ("W",), 1 - long),
        *(
            Production("W", (symbol,))
            for symbol in (left, right, left_square, right_square, dollar)
        ),
        Production("Q", ("L", semicolon, "R"), semicolons),
        Production("Q", (), 1 - semicolons),
        Production("S", ("S", "Q", "T"), split),
        Production("S", ("T",), 1 - split),
    ]
    for opening, closing in ((left, right), (left_square, right_square)):
        rules += [
            Production("T", (opening, "Q", "S", "Q", closing), nest / 2),
            Production("T", (opening, "Q", closing), (1 - nest) / 2),
        ]
    return Derived(("(", ")", "[", "]", ",", ";", "$"), WeightedGrammar("S'", rules))


#: The languages by name. The first five are context-free.
LANGUAGES: Final[dict[str, Callable[[int], StringSource]]] = {
    "marked_reversal": lambda k: _marked(k, 2, lambda w: [*w, k, *w[::-1]]),
    "unmarked_reversal": lambda k: _unmarked(k, 2, lambda w: w + w[::-1]),
    "padded_reversal": _padded_reversal,
    "dyck": _dyck,
    "hardest_cfl": _hardest_cfl,
    "count_3": lambda k: Images(
        ("a", "b", "c"), 1, 3, 0, lambda w: [0] * len(w) + [1] * len(w) + [2] * len(w)
    ),
    "marked_reverse_and_copy": lambda k: _marked(k, 3, lambda w: [*w, k, *w[::-1], k, *w]),
    "count_and_copy": lambda k: Images(
        (*_numbers(k), "#"), k, 3, 0, lambda w: [*w, *[k] * len(w), *w]
    ),
    "marked_copy": lambda k: _marked(k, 2, lambda w: [*w, k, *w]),
    "unmarked_copy_different_alphabets": lambda k: Images(
        _numbers(2 * k), k, 2, 0, lambda w: [*w, *(symbol + k for symbol in w)]
    ),
    "unmarked_reverse_and_copy": lambda k: _unmarked(k, 3, lambda w: w + w[::-1] + w),
    "unmarked_copy": lambda k: _unmarked(k, 2, lambda w: w + w),
}
_WITHOUT_KINDS: Final = ("hardest_cfl", "count_3")


def stack_language(
    language: str = "marked_reversal",
    symbols: int = 2,
    train_lengths: Lengths = "40:80",
    test_lengths: Lengths = "40:100",
) -> LanguageModel:
    """Predict the strings of a language that needs a stack, or more.

    Args:
        language: marked_reversal, unmarked_reversal, padded_reversal, dyck or hardest_cfl, which
            are context-free; or count_3, marked_reverse_and_copy, count_and_copy, marked_copy,
            unmarked_copy_different_alphabets, unmarked_reverse_and_copy or unmarked_copy.
        symbols: kinds of symbols, or of brackets; more than 2 test a stack's capacity.
        train_lengths: numbers of symbols of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: DuSell & Chiang 2020, arXiv:2010.04674; 2023, arXiv:2210.01343.
    """
    errors: list[str] = []
    with collected(errors):
        check_choice("language", language, LANGUAGES)
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return LanguageModel(language, symbols, train, test)
