"""State tracking: products in finite groups, and three regular tasks as next-token prediction.

Source: Merrill, Petty & Sabharwal 2024, arXiv:2404.08819 (word problems); Beck et al. 2024,
arXiv:2405.04517, and Grazzi et al. 2024, arXiv:2411.12537 (next tokens).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import permutations, product
from typing import Final

import numpy as np

from unbounded.checks import check_choice
from unbounded.errors import collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.chomsky import (
    BITS,
    DIGITS,
    MOVES,
    Rule,
    SimpleArithmetic,
    last_place,
    parity,
)
from unbounded.tasks.lengths import LengthRange, Lengths, named_ranges
from unbounded.tasks.questions import QuestionSource, QuestionTask, question
from unbounded.tasks.randomness import (
    Integers,
    Words,
    bounded,
)
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.task import Example, Task, labelled_examples

#: The groups, as products. A factor is a symmetric, alternating or cyclic group of this size.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "S3": ("S3",),
    "S5": ("S5",),
    "A5": ("A5",),
    "Z60": ("Z60",),
    "A4xZ5": ("A4", "Z5"),
}


@functools.cache
def group(name: str) -> tuple[tuple[str, ...], Integers]:
    """The names of the elements of a group, and its multiplication table.

    A permutation is named by the images of 1, 2, ...: 213 swaps 1 and 2. An element of a cyclic
    group is a number. The identity comes first.

    Args:
        name: one of GROUPS.
    Returns:
        the names, and int64 [n, n]: the number of the product, which applies the row's element
        first.
    Raises:
        ChoiceError: there is no such group.
    """
    check_choice("group", name, GROUPS)
    factors = [_factor(part) for part in GROUPS[name]]
    names = tuple("_".join(parts) for parts in product(*(part[0] for part in factors)))
    table = np.zeros((1, 1), dtype=np.int64)
    for part in factors:
        size, own = len(part[0]), part[1]
        table = np.kron(table * size, np.ones_like(own)) + np.tile(own, table.shape)
    return names, table


def _factor(name: str) -> tuple[tuple[str, ...], Integers]:
    kind, size = name[0], int(name[1:])
    if kind == "Z":
        numbers = np.arange(size)
        return tuple(map(str, range(size))), (numbers[:, None] + numbers) % size
    elements = [each for each in permutations(range(size)) if kind == "S" or _is_even(each)]
    places = {element: place for place, element in enumerate(elements)}
    table = [
        [places[tuple(second[image] for image in first)] for second in elements]
        for first in elements
    ]
    names = tuple("".join(str(image + 1) for image in element) for element in elements)
    return names, np.array(table, dtype=np.int64)


def _is_even(element: Sequence[int]) -> bool:
    pairs = ((i, j) for j in range(len(element)) for i in range(j))
    return sum(element[i] > element[j] for i, j in pairs) % 2 == 0


class WordProblem(Task):
    """Output the product of each prefix of a string of group elements.

    Elements are independent and uniform. The step that reads g_k has the target g_1 g_2 ... g_k,
    where g_1 is applied first.

    Args:
        group_name: one of GROUPS.
        train_lengths, test_lengths: numbers of elements of the splits.
    Attributes:
        chance: the share of correct symbols of a guess.
    Raises:
        ChoiceError: there is no such group.
    Source: Merrill, Petty & Sabharwal 2024, arXiv:2404.08819, section 5.
    """

    layout = "labels"
    metric_set = "by_length"
    name = "word_problem"

    def __init__(
        self, group_name: str, train_lengths: LengthRange, test_lengths: LengthRange
    ) -> None:
        names, self.table = group(group_name)
        self.input_vocabulary = self.output_vocabulary = names
        self.chance = 1 / len(names)
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`. The number of steps T is the length of the longest string."""
        return self._lay_out(*self._draw(seed, split, start, size, lengths))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The target has a symbol for each prefix."""
        batch = self.batch(seed, split, start, size, lengths)
        return labelled_examples(batch, self.input_vocabulary, self.output_vocabulary)

    def count_of(self, length: int, symbols: int) -> int:
        """See `Task.count_of`. The result counts strings over all elements."""
        return int(len(self.input_vocabulary) ** length) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Batch:
        strings = all_strings(len(self.input_vocabulary), length)
        return self._lay_out(strings, np.full(len(strings), length))

    def _lay_out(self, strings: Integers, lengths: Integers) -> Batch:
        mask = np.arange(strings.shape[1]) < lengths[:, None]
        inputs = np.where(mask, strings, 0)
        targets = inputs.copy()
        for place in range(1, inputs.shape[1]):
            targets[:, place] = self.table[targets[:, place - 1], inputs[:, place]]
        return batch_of(inputs, targets * mask, mask, lengths)

    def _draw(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers]:
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        length_words, words = stream.sequence_words(start + np.arange(size), chosen.maximum)
        counts = chosen.minimum + bounded(length_words, len(chosen))
        return bounded(words[:, : int(counts.max())], len(self.input_vocabulary)), counts


def word_problem(
    group: str = "S5", train_lengths: Lengths = "1:32", test_lengths: Lengths = "33:512"
) -> WordProblem:
    """Output the product of each prefix of a string of group elements.

    Args:
        group: S3, S5, A5, Z60 or A4xZ5.
        train_lengths: numbers of elements of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Merrill, Petty & Sabharwal 2024, arXiv:2404.08819; lengths: Grazzi et al. 2024,
        arXiv:2411.12537.
    """
    errors: list[str] = []
    with collected(errors):
        check_choice("group", group, GROUPS)
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return WordProblem(group, train, test)


class NextToken(QuestionSource):
    """A question whose answer is an input token. Missing tokens are added to the input vocabulary.

    Args:
        source: the question; its answers have one symbol.
    """

    def __init__(self, source: QuestionSource) -> None:
        self._source, self.shortest, self.chance = source, source.shortest, source.chance
        symbols = dict.fromkeys((*source.source_vocabulary, *source.target_vocabulary))
        self.source_vocabulary = self.target_vocabulary = tuple(symbols)
        self._tokens = np.array([list(symbols).index(name) for name in source.target_vocabulary])

    def words_of(self, length: int) -> int:
        return self._source.words_of(length)

    def sources(self, words: Words, length: int) -> Integers:
        return self._source.sources(words, length)

    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        answers, counts = self._source.answers(sources)
        return self._tokens[answers], counts

    def count(self, length: int) -> int | None:
        return self._source.count(length)

    def listed(self, length: int) -> Integers:
        return self._source.listed(length)

    def source_error(self, source: Sequence[int]) -> str:
        if any(symbol >= len(self._source.source_vocabulary) for symbol in source):
            return "it has a symbol that occurs only in answers"
        return self._source.source_error(source)


#: Lengths of xLSTM's formal languages.
_TRAIN: Final = "3:40"
_TEST: Final = "40:256"


def next_parity(train_lengths: Lengths = _TRAIN, test_lengths: Lengths = _TEST) -> QuestionTask:
    """Predict the token after a string of bits, which is the parity of the string.

    Args:
        train_lengths: source lengths of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Beck et al. 2024, arXiv:2405.04517, section 4.1; Grazzi et al. 2024, arXiv:2411.12537.
    """
    source = Rule(BITS, BITS, parity)
    return question("next_parity", NextToken(source), train_lengths, test_lengths)


def next_cycle_navigation(
    train_lengths: Lengths = _TRAIN, test_lengths: Lengths = _TEST
) -> QuestionTask:
    """Predict the token after moves on a cycle of five places, which is the last place.

    Args, errors and source as for `next_parity`.
    """
    source = Rule(MOVES, DIGITS, last_place)
    return question("next_cycle_navigation", NextToken(source), train_lengths, test_lengths)


def next_modular_arithmetic(
    train_lengths: Lengths = _TRAIN, test_lengths: Lengths = _TEST
) -> QuestionTask:
    """Predict the token after digits and operators, which is the value modulo 5.

    Args, errors and source as for `next_parity`; * binds more strongly than + and -.
    """
    return question(
        "next_modular_arithmetic",
        NextToken(SimpleArithmetic()),
        train_lengths,
        test_lengths,
    )
