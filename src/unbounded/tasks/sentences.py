"""All sentences of a grammar up to a length, with few words of each class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np

from unbounded.tasks.grammar import Grammar, Rule
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream
from unbounded.tasks.transduction import Pairs, PairSource

#: Most listed sentences of one nonterminal and length.
MOST_LISTED: Final = 100_000

#: Words of the source and of the target, by their numbers in the two vocabularies.
Sentence = tuple[tuple[int, ...], tuple[int, ...]]


class Sentences:
    """The distinct sentences of a grammar, length by length.

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
        """All sentences of one length in alphabetical order; None where there are too many."""
        while self._listed < length and not self._is_full:
            self._list(self._listed + 1)
        if length > self._listed:
            return None
        return sorted(self._of.get((self._grammar.root, length), ()))

    def _list(self, length: int) -> None:
        """List each nonterminal's sentences of one length, from the shorter ones."""
        # A nonterminal that rewrites to another alone has its sentences of the same length. Such
        # rules have no cycle, so as many rounds as there are nonterminals suffice.
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
        # A single part without words may be as long as the whole.
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
    """Sentences of one length as pairs."""
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
        """See `PairSource.draw`."""
        drawn = self._pairs.draw(stream, start, size, lengths)
        source: Integers = self._source[drawn.source]
        target: Integers = self._target[drawn.target]
        return drawn._replace(source=source, target=target)
