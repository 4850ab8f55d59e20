"""A grammar's rules as arrays, so that one lookup applies many rules."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unbounded.tasks.grammar import Grammar, Rule
from unbounded.tasks.randomness import Integers

FIRST, SECOND, WORDS = 0, 1, 2


@dataclass(frozen=True, eq=False)
class RuleArrays:
    """Rules in the order of their left sides; X nonterminals, R rules, P pairs of children.

    An element of a rule is its first or second child (a nonterminal; first and second as in the
    source) or one of its words. Elements are in slots: `FIRST`, `SECOND`, then `WORDS` and on.

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
    """One rule: its children, its words (source index, target index, choices), its places."""

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
        # Words without a class pair up in order: "the" in the source with "das" in the target.
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
    """The elements before `place`: number of words, whether the first, whether the second child."""
    first, second = ([int(child < place) for child in children] + [0, 0])[:2]
    return place - first - second, first, second


def _word(grammar: Grammar, source: str, target: str) -> tuple[int, int, int]:
    """Vocabulary index of (the first) source and target word, and their number."""
    category = grammar.category(source)
    count = 1
    for word_class in grammar.classes:
        if word_class.name == category:
            source, target = f"{word_class.source}1", f"{word_class.target}1"
            count = word_class.count
    return grammar.source_vocabulary.index(source), grammar.target_vocabulary.index(target), count
