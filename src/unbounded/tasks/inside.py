"""Inside tables: the probability of each length for each nonterminal, and draws given a length.

The table makes sampling from a grammar *given the length* exact: choose a rule, then the lengths of
its two children, each with its probability among derivations of that length. No draw is rejected,
so a grammar whose derivations rarely end costs no more than another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbounded.errors import ConfigError
from unbounded.tasks.grammar import Grammar
from unbounded.tasks.randomness import Integers, Words
from unbounded.tasks.rule_arrays import FIRST, SECOND, RuleArrays

LONGEST: Final = 4096

Floats: TypeAlias = NDArray[np.float64]

_BITS: Final = 48
_ONE: Final = np.uint64(1 << _BITS)


class WeightedRows:
    """Many discrete distributions; one binary search draws from any number of them.

    Each row holds cumulative weights as integers of 48 bits. The probability of a draw is within
    2**-48 of the weight's share, and a zero weight is never drawn. Sums run from left to right, so
    draws are the same on all hardware.

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
        """A place in each of `rows` [K], from uniform words uint64 [K]."""
        expected = (rows.astype(np.uint64) << np.uint64(_BITS)) | (words >> np.uint64(64 - _BITS))
        places: Integers = np.searchsorted(self._keys, expected, side="right") - self._starts[rows]
        return places


def _shares(cumulative: Floats) -> NDArray[np.uint64]:
    """Cumulative weights as integers up to 2**48, reached at the last positive weight."""
    if not len(cumulative) or cumulative[-1] <= 0:
        return np.full(len(cumulative), _ONE)
    shares: NDArray[np.uint64] = (cumulative / cumulative[-1] * float(_ONE)).astype(np.uint64)
    return shares


@dataclass(frozen=True, eq=False)
class InsideTable:
    """Probabilities of lengths 0..N for X nonterminals, and the choices that they imply.

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
        """A rule for each node [K], given the length it derives."""
        local = self._rule_rows.draw(nonterminals * self.width + lengths, words)
        return self.rules.first_rule[nonterminals] + local

    def choose_splits(self, pairs: Integers, lengths: Integers, words: Words) -> Integers:
        """The length of the first of two children [K], given the length of both."""
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
            [f"lengths: grammar {grammar.name} is sampled up to {LONGEST}, got {longest}"]
        )
    rules = RuleArrays.of(grammar)
    count = len(rules.nonterminals)
    if max(count, len(rules.pairs)) * (longest + 1) > WeightedRows.MOST:
        raise ConfigError(
            [f"lengths: grammar {grammar.name} has too many rules to sample up to {longest}"]
        )
    inside = np.zeros((count, longest + 1))
    rule_sums = [[np.zeros(0)] * (longest + 1) for _ in range(count)]
    split_sums = [[np.zeros(0)] * (longest + 1) for _ in rules.pairs]
    order = _unary_order(rules)
    for n in range(longest + 1):
        for pair, (first, second) in enumerate(rules.pairs):
            # Entry k is for a first child of length k; neither child is empty.
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
    """The probability that a rule's children derive the rest of length n."""
    m = n - int(rules.word_count[rule])
    if m < 0:
        return 0.0
    if rules.pair[rule] >= 0:
        return float(split_sums[rules.pair[rule]][m][-1])
    child = rules.children[rule, FIRST]
    return float(inside[child, m]) if child >= 0 else float(m == 0)


def _unary_order(rules: RuleArrays) -> list[int]:
    """Nonterminals, each after those it can rewrite to alone, at equal length."""
    needs: dict[int, set[int]] = {number: set() for number in range(len(rules.nonterminals))}
    for number in needs:
        for rule in range(rules.first_rule[number], rules.first_rule[number + 1]):
            if not rules.word_count[rule] and rules.children[rule, SECOND] < 0:
                needs[number].add(int(rules.children[rule, FIRST]))
    order: list[int] = []
    while len(order) < len(needs):
        order += [number for number in needs if number not in order and needs[number] <= {*order}]
    return order
