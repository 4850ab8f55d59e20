"""Draw pairs from a grammar, given their length.

Inside tables hold the probability of each length for each nonterminal. The tables make draws exact:
a draw chooses a rule, then the lengths of the rule's parts. Batches are derived level by level. All
sentences up to a length are listed for verification.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbounded.checks import check_choice
from unbounded.errors import ConfigError
from unbounded.tasks.grammar import Grammar, Rule
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, Words, bounded
from unbounded.tasks.transduction import Pairs, PairSource

FIRST, SECOND, WORDS = 0, 1, 2


@dataclass(frozen=True, eq=False)
class RuleArrays:
    """Rules in the order of their left sides; X nonterminals, R rules, P pairs of children.

    An element of a rule is its first child, its second child or one of its words. Children are
    nonterminals, in the order of the source. Elements have slots: `FIRST`, `SECOND`, and `WORDS`
    for the first word.

    Fields:
        nonterminals: X names.
        first_rule: number of the first rule of each nonterminal, and R at the end, [X + 1].
        probability: float64 [R].
        word_count: number of words of each rule, [R].
        children: nonterminal of the first and second child, -1 for none, [R, 2].
        pair: which of `pairs` the children are, -1 unless there are two, [R].
        pairs: P distinct pairs of nonterminals.
        source_place, target_place: [R, slots, 3]: an element's place is the sum of its row times
            (1, length of the first child, length of the second).
        source_word, target_word: vocabulary index of a word, or of the first word of its class,
            [R, slots].
        choices: number of words to choose from, 1 for a word without a class, [R, slots].
    """

    nonterminals: tuple[str, ...]
    first_rule: Integers
    probability: NDArray[np.float64]
    word_count: Integers
    children: Integers
    pair: Integers
    pairs: tuple[tuple[int, int], ...]
    source_place: Integers
    target_place: Integers
    source_word: Integers
    target_word: Integers
    choices: Integers

    @classmethod
    def of(cls, grammar: Grammar) -> RuleArrays:
        """Convert a grammar."""
        names = grammar.nonterminals
        rules = sorted(grammar.rules, key=lambda rule: names.index(rule.left))
        shapes = [_RuleShape.of(grammar, rule) for rule in rules]
        children = [shape.children for shape in shapes]
        pairs = tuple(dict.fromkeys(pair for pair in children if -1 not in pair))
        slots = WORDS + max(len(shape.words) for shape in shapes)

        def padded(rows: list[list[tuple[int, ...]]], width: int) -> Integers:
            filled = [row + [(0,) * width] * (slots - len(row)) for row in rows]
            return np.array(filled, dtype=np.int64)

        words = padded([[(0, 0, 0)] * WORDS + shape.words for shape in shapes], 3)
        counts = [sum(rule.left == name for rule in rules) for name in names]
        return cls(
            nonterminals=names,
            first_rule=np.concatenate([[0], np.cumsum(counts)]),
            probability=np.array([float(Fraction(rule.probability)) for rule in rules]),
            word_count=np.array([len(shape.words) for shape in shapes]),
            children=np.array(children),
            pair=np.array([pairs.index(p) if p in pairs else -1 for p in children]),
            pairs=pairs,
            source_place=padded([shape.source_places for shape in shapes], 3),
            target_place=padded([shape.target_places for shape in shapes], 3),
            source_word=words[:, :, 0],
            target_word=words[:, :, 1],
            choices=words[:, :, 2],
        )


@dataclass(frozen=True)
class _RuleShape:
    """A rule with its children, its words (source index, target index, choices) and its places."""

    children: tuple[int, int]
    words: list[tuple[int, ...]]
    source_places: list[tuple[int, ...]]
    target_places: list[tuple[int, ...]]

    @classmethod
    def of(cls, grammar: Grammar, rule: Rule) -> _RuleShape:
        source, target = rule.source.split(), rule.target.split()
        names = grammar.nonterminals
        categories = [grammar.category(symbol) for symbol in source]
        growing = [place for place, category in enumerate(categories) if category in names]
        words = [place for place in range(len(source)) if place not in growing]
        # Words without a class are paired in order, as "the" in the source with "das" in the
        # target.
        own = iter([place for place, word in enumerate(target) if grammar.category(word) is None])
        partner = [
            next(own) if category is None else target.index(symbol)
            for symbol, category in zip(source, categories, strict=True)
        ]
        first, second = ([names.index(categories[p] or "") for p in growing] + [-1, -1])[:2]
        slots = growing + [0] * (WORDS - len(growing)) + words
        opposite = [partner[place] for place in growing]
        return cls(
            children=(first, second),
            words=[_word(grammar, source[place], target[partner[place]]) for place in words],
            source_places=[_place(growing, place) for place in slots],
            target_places=[_place(opposite, partner[place]) for place in slots],
        )


def _place(children: list[int], place: int) -> tuple[int, int, int]:
    """What comes before `place`: the number of words, and whether the first and second child do."""
    first, second = ([int(child < place) for child in children] + [0, 0])[:2]
    return place - first - second, first, second


def _word(grammar: Grammar, source: str, target: str) -> tuple[int, int, int]:
    """Vocabulary indices of the (first) source and target word, and the number of words."""
    category = grammar.category(source)
    count = 1
    for word_class in grammar.classes:
        if word_class.name == category:
            source, target = f"{word_class.source}1", f"{word_class.target}1"
            count = word_class.count
    return grammar.source_vocabulary.index(source), grammar.target_vocabulary.index(target), count


LONGEST: Final = 4096

Floats: TypeAlias = NDArray[np.float64]

_BITS: Final = 48
_ONE: Final = np.uint64(1 << _BITS)


class WeightedRows:
    """Many discrete distributions, from which one binary search makes any number of draws.

    Each row holds the cumulative weights of one distribution, as integers of 48 bits. The
    probability of a draw differs from the weight's share by at most 2**-48, and a zero weight is
    never drawn. Sums run from left to right, so draws are the same on all hardware.

    Args:
        cumulative: cumulative weights, one non-decreasing array a row. At most `MOST` rows. A row
            without positive weight must not be drawn.
    """

    MOST: Final = (1 << (64 - _BITS)) - 1

    def __init__(self, cumulative: list[Floats]) -> None:
        self._starts = np.concatenate([[0], np.cumsum([len(row) for row in cumulative])])
        keys = [
            _shares(row) + (np.uint64(number) << np.uint64(_BITS))
            for number, row in enumerate(cumulative)
        ]
        self._keys = np.concatenate([np.zeros(0, dtype=np.uint64), *keys])

    def draw(self, rows: Integers, words: Words) -> Integers:
        """Draw a place in each of `rows` [K], from uniform words uint64 [K]."""
        expected = (rows.astype(np.uint64) << np.uint64(_BITS)) | (words >> np.uint64(64 - _BITS))
        places: Integers = np.searchsorted(self._keys, expected, side="right") - self._starts[rows]
        return places


def _shares(cumulative: Floats) -> NDArray[np.uint64]:
    """Scale cumulative weights to integers up to 2**48, which the last positive weight reaches."""
    if not len(cumulative) or cumulative[-1] <= 0:
        return np.full(len(cumulative), _ONE)
    shares: NDArray[np.uint64] = (cumulative / cumulative[-1] * float(_ONE)).astype(np.uint64)
    return shares


@dataclass(frozen=True, eq=False)
class InsideTable:
    """Probabilities of lengths 0..N for X nonterminals, and the resulting distributions of choices.

    Fields:
        rules: the grammar's rules.
        inside: P(nonterminal derives n symbols), float64 [X, N + 1].
    """

    rules: RuleArrays
    inside: Floats
    _rule_rows: WeightedRows
    _split_rows: WeightedRows

    @property
    def width(self) -> int:
        """N + 1."""
        return int(self.inside.shape[1])

    def choose_rules(self, nonterminals: Integers, lengths: Integers, words: Words) -> Integers:
        """Draw a rule for each node [K], given the length that the node derives."""
        local = self._rule_rows.draw(nonterminals * self.width + lengths, words)
        return self.rules.first_rule[nonterminals] + local

    def choose_splits(self, pairs: Integers, lengths: Integers, words: Words) -> Integers:
        """Draw the length of the first of two children [K], given the length of both."""
        return self._split_rows.draw(pairs * self.width + lengths, words)


@lru_cache(maxsize=4)
def inside_table(grammar: Grammar, longest: int) -> InsideTable:
    """Fill the table of a grammar for lengths up to `longest`; the result is cached.

    P(X, n) = sum over rules r of X of p_r times the probability that r's children have n minus r's
    words: P(child, m) for one child; for two, sum_k P(first, k) P(second, m - k).

    Args:
        grammar: the rules.
        longest: N, 1..4096. Both grammars of the paper stay above 1e-64 there; floats suffice.

    Raises:
        ConfigError: `longest` is out of range.
    """
    if not 1 <= longest <= LONGEST:
        raise ConfigError(
            f"lengths: grammar {grammar.name} is sampled up to length {LONGEST}, got {longest}"
        )
    rules = RuleArrays.of(grammar)
    count = len(rules.nonterminals)
    if max(count, len(rules.pairs)) * (longest + 1) > WeightedRows.MOST:
        raise ConfigError(
            f"lengths: grammar {grammar.name} has too many rules to sample up to {longest}"
        )
    inside = np.zeros((count, longest + 1))
    rule_sums = [[np.zeros(0)] * (longest + 1) for _ in range(count)]
    split_sums = [[np.zeros(0)] * (longest + 1) for _ in rules.pairs]
    order = _unary_order(rules)
    for n in range(longest + 1):
        for pair, (first, second) in enumerate(rules.pairs):
            # Entry k is for a first child of length k. Neither child is empty.
            products = inside[first, : n + 1] * inside[second, n::-1] if n else np.zeros(1)
            split_sums[pair][n] = np.cumsum(products)
        for nonterminal in order:
            own = range(rules.first_rule[nonterminal], rules.first_rule[nonterminal + 1])
            weights = [
                rules.probability[rule] * _children(rules, rule, n, inside, split_sums)
                for rule in own
            ]
            rule_sums[nonterminal][n] = np.cumsum(weights)
            inside[nonterminal, n] = rule_sums[nonterminal][n][-1]
    return InsideTable(
        rules,
        inside,
        WeightedRows([row for rows in rule_sums for row in rows]),
        WeightedRows([row for rows in split_sums for row in rows]),
    )


def _children(
    rules: RuleArrays, rule: int, n: int, inside: Floats, split_sums: list[list[Floats]]
) -> float:
    """The probability that a rule's children derive the part of length n that is left for them."""
    m = n - int(rules.word_count[rule])
    if m < 0:
        return 0.0
    if rules.pair[rule] >= 0:
        return float(split_sums[rules.pair[rule]][m][-1])
    child = rules.children[rule, FIRST]
    return float(inside[child, m]) if child >= 0 else float(m == 0)


def _unary_order(rules: RuleArrays) -> list[int]:
    """The nonterminals in an order in which those that it can rewrite to alone precede each one."""
    needs: dict[int, set[int]] = {number: set() for number in range(len(rules.nonterminals))}
    for number in needs:
        for rule in range(rules.first_rule[number], rules.first_rule[number + 1]):
            if not rules.word_count[rule] and rules.children[rule, SECOND] < 0:
                needs[number].add(int(rules.children[rule, FIRST]))
    order: list[int] = []
    while len(order) < len(needs):
        order += [number for number in needs if number not in order and needs[number] <= {*order}]
    return order


#: Greatest number of listed sentences for one nonterminal and length.
MOST_LISTED: Final = 100_000

#: The words of source and target, as numbers in the two vocabularies.
Sentence = tuple[tuple[int, ...], tuple[int, ...]]


class Sentences:
    """The distinct sentences of a grammar, listed by length.

    Args:
        grammar: the rules.
        symbols: number of words of each class that may occur, the first ones.
    """

    def __init__(self, grammar: Grammar, symbols: int) -> None:
        self._grammar = grammar
        sides = (grammar.source_vocabulary, grammar.target_vocabulary)
        self._numbers = [{word: place for place, word in enumerate(side)} for side in sides]
        self._of: dict[tuple[str, int], set[Sentence]] = {
            (word_class.name, 1): {
                (
                    (self._numbers[0][f"{word_class.source}{i}"],),
                    (self._numbers[1][f"{word_class.target}{i}"],),
                )
                for i in range(1, min(symbols, word_class.count) + 1)
            }
            for word_class in grammar.classes
        }
        self._listed = 0
        self._is_full = False

    def of(self, length: int) -> list[Sentence] | None:
        """All sentences of one length in alphabetical order; None if their number is too large."""
        while self._listed < length and not self._is_full:
            self._list(self._listed + 1)
        if length > self._listed:
            return None
        return sorted(self._of.get((self._grammar.root, length), ()))

    def _list(self, length: int) -> None:
        """List each nonterminal's sentences of one length, composed of shorter sentences."""
        # A nonterminal that rewrites to only one other has that one's sentences of the same length.
        # Rules of this kind have no cycle, so as many rounds as there are nonterminals suffice.
        for _ in self._grammar.nonterminals:
            for rule in self._grammar.rules:
                sentences = self._of.setdefault((rule.left, length), set())
                for sentence in self._derived(rule, length):
                    sentences.add(sentence)
                    if len(sentences) > MOST_LISTED:
                        self._is_full = True
                        return
        self._listed = length

    def _derived(self, rule: Rule, length: int) -> Iterator[Sentence]:
        """The sentences of a rule at one length."""
        source, target = rule.source.split(), rule.target.split()
        linked = [symbol for symbol in source if self._grammar.category(symbol) is not None]
        remaining = length - (len(source) - len(linked))
        # A single part without words may be as long as the sentence.
        longest = remaining - len(linked) + 1
        for lengths in product(range(1, longest + 1), repeat=len(linked)):
            if sum(lengths) != remaining:
                continue
            parts = [
                self._of.get((self._grammar.category(symbol) or "", part_length), set())
                for symbol, part_length in zip(linked, lengths, strict=True)
            ]
            for chosen in product(*map(list, parts)):
                sentence_of_symbol = dict(zip(linked, chosen, strict=True))
                yield (
                    self._side(source, sentence_of_symbol, 0),
                    self._side(target, sentence_of_symbol, 1),
                )

    def _side(self, symbols: list[str], parts: dict[str, Sentence], side: int) -> tuple[int, ...]:
        words: list[int] = []
        for symbol in symbols:
            if symbol in parts:
                words += parts[symbol][side]
            else:
                words.append(self._numbers[side][symbol])
        return tuple(words)


@lru_cache(maxsize=8)
def sentences_of(grammar: Grammar, symbols: int) -> Sentences:
    """The sentences of a grammar; the result is cached."""
    return Sentences(grammar, symbols)


def pairs_of(sentences: list[Sentence]) -> Pairs:
    """The sentences of one length, as pairs."""
    source, target = (np.array(side, dtype=np.int64) for side in zip(*sentences, strict=True))
    lengths = np.full(len(sentences), source.shape[1])
    return Pairs(source, lengths, target, lengths)


def with_few_words(grammar: Grammar, symbols: int) -> Grammar:
    """The same grammar with the first `symbols` words of each class."""
    classes = tuple(
        replace(word_class, count=min(symbols, word_class.count)) for word_class in grammar.classes
    )
    return replace(grammar, classes=classes)


class Renumbered(PairSource):
    """Pairs of a small vocabulary, with the numbers of their words in a larger one.

    Args:
        pairs: pairs over words of the larger vocabularies.
        source_vocabulary, target_vocabulary: the larger ones.
    """

    def __init__(
        self,
        pairs: PairSource,
        source_vocabulary: tuple[str, ...],
        target_vocabulary: tuple[str, ...],
    ) -> None:
        self._pairs = pairs
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self._source, self._target = (
            np.array([larger.index(word) for word in own])
            for larger, own in (
                (source_vocabulary, pairs.source_vocabulary),
                (target_vocabulary, pairs.target_vocabulary),
            )
        )

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        drawn = self._pairs.draw(stream, start, size, lengths)
        source: Integers = self._source[drawn.source]
        target: Integers = self._target[drawn.target]
        return drawn._replace(source=source, target=target)


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

    The paper draws from the grammar and rejects lengths out of range. The distribution "grammar"
    has the same effect: P(length) and P(pair | length) are as in the grammar, so short pairs
    dominate. With "uniform", all lengths in the range that the grammar has are equally probable.

    Args:
        grammar: the rules.
        length_distribution: "grammar" or "uniform".

    Raises:
        ChoiceError: there is no such distribution.
    """

    def __init__(self, grammar: Grammar, length_distribution: str = "grammar") -> None:
        check_choice("length distribution", length_distribution, LENGTH_DISTRIBUTIONS)
        self.grammar = grammar
        self.length_distribution = length_distribution
        self.source_vocabulary = grammar.source_vocabulary
        self.target_vocabulary = grammar.target_vocabulary

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`.

        Small requests use cached chunks of 256 examples, because a level takes nearly the same time
        for 10 derivations as for 256.
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
        if lengths.maximum <= LONGEST:
            return []
        return [f"length range: expected sentences of at most {LONGEST} words, got {lengths}"]

    @property
    def most_symbols(self) -> int:
        """See `PairSource.most_symbols`. The result is the number of words of the largest class."""
        return max((word_class.count for word_class in self.grammar.classes), default=1)

    def count_of(self, length: int, symbols: int) -> int | None:
        """See `PairSource.count_of`.

        The result counts sentences with the first `symbols` words of each class.
        """
        sentences = sentences_of(self.grammar, symbols).of(length)
        return None if sentences is None else len(sentences)

    def every(self, length: int, symbols: int) -> Pairs:
        sentences = sentences_of(self.grammar, symbols).of(length)
        if not sentences:
            return super().every(length, symbols)
        return pairs_of(sentences)

    def alphabet(self, symbols: int) -> tuple[str, ...]:
        return with_few_words(self.grammar, symbols).source_vocabulary

    def over(self, symbols: int) -> PairSource:
        """See `PairSource.over`. Words keep the numbers that they have in the full grammar."""
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

    The width of the arrays is the range's maximum.
    """
    # The sizes of tables are powers of two, so that a sweep over many ranges fills few tables.
    longest = min(LONGEST, max(128, 1 << (lengths.maximum - 1).bit_length()))
    table = inside_table(grammar, max(longest, lengths.maximum))
    rules = table.rules
    root = rules.nonterminals.index(grammar.root)
    weights = table.inside[root, lengths.minimum : lengths.maximum + 1]
    if not weights.any():
        raise ConfigError(
            f"lengths: grammar {grammar.name} derives no sentence of length {lengths}"
        )
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
        # Blocks below 2**16 are for the words, according to place. Block 0 is for the length.
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

    A node's random words depend on its example, its level and its place in the source. No two nodes
    share all three.
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
