"""Pairs drawn from a grammar, given their length: batches of derivations, level by level."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks.grammar import Grammar
from unbounded.tasks.inside import LONGEST, InsideTable, WeightedRows, inside_table
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded
from unbounded.tasks.rule_arrays import FIRST, SECOND, WORDS, RuleArrays
from unbounded.tasks.sentences import Renumbered, pairs_of, sentences_of, with_few_words
from unbounded.tasks.transduction import Pairs, PairSource

LENGTH_DISTRIBUTIONS: Final = ("grammar", "uniform")

_CHUNK: Final = 256
_LEVEL_BITS: Final = 16


class Nodes(NamedTuple):
    """Nodes of derivations, with their rules and the lengths of their children: int64 [K]."""

    row: Integers
    rule: Integers
    source_start: Integers
    target_start: Integers
    first_length: Integers
    second_length: Integers

    def source_place(self, rules: RuleArrays, slot: int) -> Integers:
        """Start of the element in `slot` of each node's rule on the source side."""
        return self.source_start + self._offset(rules.source_place[self.rule, slot])

    def target_place(self, rules: RuleArrays, slot: int) -> Integers:
        """Start of the element in `slot` of each node's rule on the target side."""
        return self.target_start + self._offset(rules.target_place[self.rule, slot])

    def _offset(self, place: Integers) -> Integers:
        words, after_first, after_second = place.T
        offset: Integers = (
            words + after_first * self.first_length + after_second * self.second_length
        )
        return offset

    def take(self, places: Integers) -> Nodes:
        """The nodes at `places`."""
        return Nodes(*(field[places] for field in self))


class GrammarPairs(PairSource):
    """Pairs derived by a grammar, sampled exactly given that their length is in range.

    The paper draws from the grammar and rejects lengths out of range. That is the distribution
    "grammar" here: P(length) as in the grammar, and P(pair | length); short pairs dominate.
    "uniform" gives every length of the range that the grammar has the same probability.

    Args:
        grammar: the rules.
        length_distribution: "grammar" or "uniform".

    Raises:
        ChoiceError: there is no such distribution.
    """

    def __init__(self, grammar: Grammar, length_distribution: str = "grammar") -> None:
        if length_distribution not in LENGTH_DISTRIBUTIONS:
            raise ChoiceError("length distribution", length_distribution, LENGTH_DISTRIBUTIONS)
        self.grammar = grammar
        self.length_distribution = length_distribution
        self.source_vocabulary = grammar.source_vocabulary
        self.target_vocabulary = grammar.target_vocabulary

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`.

        Small requests are served from cached chunks of 256 examples: a level costs nearly the same
        for 10 derivations and for 256.
        """
        if size >= _CHUNK:
            return _derived(self.grammar, self.length_distribution, stream, start, size, lengths)
        first, last = start // _CHUNK, (start + size - 1) // _CHUNK
        chunks = [
            _chunk(self.grammar, self.length_distribution, stream, number * _CHUNK, lengths)
            for number in range(first, last + 1)
        ]
        selected = slice(start - first * _CHUNK, start - first * _CHUNK + size)
        fields = (np.concatenate(field)[selected] for field in zip(*chunks, strict=True))
        return Pairs(*fields)

    def range_errors(self, lengths: LengthRange) -> list[str]:
        """See `PairSource.range_errors`."""
        if lengths.maximum <= LONGEST:
            return []
        return [f"length range: expected sentences of at most {LONGEST} words, got {lengths}"]

    @property
    def most_symbols(self) -> int:
        """See `PairSource.most_symbols`: number of words of the largest class."""
        return max((word_class.count for word_class in self.grammar.classes), default=1)

    def count_of(self, length: int, symbols: int) -> int | None:
        """See `PairSource.count_of`: sentences with the first `symbols` words of each class."""
        sentences = sentences_of(self.grammar, symbols).of(length)
        return None if sentences is None else len(sentences)

    def every(self, length: int, symbols: int) -> Pairs:
        """See `PairSource.every`."""
        sentences = sentences_of(self.grammar, symbols).of(length)
        if not sentences:
            return super().every(length, symbols)
        return pairs_of(sentences)

    def alphabet(self, symbols: int) -> tuple[str, ...]:
        """See `PairSource.alphabet`."""
        return with_few_words(self.grammar, symbols).source_vocabulary

    def over(self, symbols: int) -> PairSource:
        """See `PairSource.over`: words keep their numbers in the whole grammar."""
        few = GrammarPairs(with_few_words(self.grammar, symbols), self.length_distribution)
        return Renumbered(few, self.source_vocabulary, self.target_vocabulary)


def _derived(
    grammar: Grammar,
    length_distribution: str,
    stream: Stream,
    start: int,
    size: int,
    lengths: LengthRange,
) -> Pairs:
    """Draw a length for each example, then a derivation given the length.

    The arrays are as wide as the range's maximum.
    """
    # Tables have sizes of powers of two, so that a sweep over many ranges fills few of them.
    longest = min(LONGEST, max(128, 1 << (lengths.maximum - 1).bit_length()))
    table = inside_table(grammar, max(longest, lengths.maximum))
    rules = table.rules
    root = rules.nonterminals.index(grammar.root)
    weights = table.inside[root, lengths.minimum : lengths.maximum + 1]
    if not weights.any():
        raise ConfigError([f"lengths: grammar {grammar.name} derives nothing of length {lengths}"])
    if length_distribution == "uniform":
        weights = (weights > 0).astype(np.float64)
    indices = start + np.arange(size)
    rows = np.zeros(size, dtype=np.int64)
    places = WeightedRows([np.cumsum(weights)]).draw(rows, stream.length_words(indices))
    chosen = lengths.minimum + places
    nodes = _expand(table, root, stream, indices, chosen)
    source, target = np.zeros((2, size, lengths.maximum), dtype=np.int64)
    for slot in range(WORDS, rules.choices.shape[1]):
        selected = nodes.take(np.flatnonzero(rules.choices[nodes.rule, slot]))
        source_place = selected.source_place(rules, slot)
        # Blocks below 2**16 are for the words, by place; block 0 is for the length.
        word = bounded(
            stream.words(indices[selected.row], 1 + source_place)[0],
            rules.choices[selected.rule, slot],
        )
        source[selected.row, source_place] = rules.source_word[selected.rule, slot] + word
        target[selected.row, selected.target_place(rules, slot)] = (
            rules.target_word[selected.rule, slot] + word
        )
    return Pairs(source, chosen, target, chosen)


@lru_cache(maxsize=8)
def _chunk(
    grammar: Grammar, length_distribution: str, stream: Stream, start: int, lengths: LengthRange
) -> Pairs:
    return _derived(grammar, length_distribution, stream, start, _CHUNK, lengths)


def _expand(
    table: InsideTable, root: int, stream: Stream, indices: Integers, lengths: Integers
) -> Nodes:
    """Derive all examples at once, one level of all trees at a time.

    A node's random words depend on its example, level and place in the source, which are unique.
    """
    rules = table.rules
    row: Integers = np.arange(len(indices))
    symbol = np.full(len(indices), root)
    length = lengths
    source_start = target_start = np.zeros(len(indices), dtype=np.int64)
    levels: list[Nodes] = []
    while len(row):
        block = ((len(levels) + 1) << _LEVEL_BITS) + source_start
        rule_words, split_words = stream.words(indices[row], block)
        rule = table.choose_rules(symbol, length, rule_words)
        remaining = length - rules.word_count[rule]
        first_length = remaining.copy()
        two = np.flatnonzero(rules.pair[rule] >= 0)
        first_length[two] = table.choose_splits(
            rules.pair[rule[two]], remaining[two], split_words[two]
        )
        nodes = Nodes(row, rule, source_start, target_start, first_length, remaining - first_length)
        levels.append(nodes)
        one = np.flatnonzero(rules.children[rule, FIRST] >= 0)
        firsts, seconds = nodes.take(one), nodes.take(two)
        row = np.concatenate([firsts.row, seconds.row])
        symbol = np.concatenate(
            [rules.children[firsts.rule, FIRST], rules.children[seconds.rule, SECOND]]
        )
        length = np.concatenate([firsts.first_length, seconds.second_length])
        source_start = np.concatenate(
            [firsts.source_place(rules, FIRST), seconds.source_place(rules, SECOND)]
        )
        target_start = np.concatenate(
            [firsts.target_place(rules, FIRST), seconds.target_place(rules, SECOND)]
        )
    return Nodes(*(np.concatenate(field) for field in zip(*levels, strict=True)))
