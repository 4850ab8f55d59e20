"""Inversion transduction grammars: rules that derive a source and a target together.

A rule is written as in the paper: `Rule("1/5", "S", "S1 rpi S2 VT3", "S1 rpo S2 VT3")`. A digit
after a nonterminal only says which occurrence of the target is which of the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from unbounded.errors import ConfigError

_DIGITS = "0123456789"


@dataclass(frozen=True)
class Rule:
    """One rule left -> source | target.

    Args:
        probability: among the rules of `left`; exact, as in "1/5".
        left: a nonterminal.
        source: symbols with spaces between them: words, nonterminals and names of word classes.
        target: the same nonterminals and classes, in any order, and as many words.
    """

    probability: str
    left: str
    source: str
    target: str


@dataclass(frozen=True)
class WordClass:
    """The rules name -> source_i | target_i, i = 1..count, with equal probabilities."""

    name: str
    source: str
    target: str
    count: int


@dataclass(frozen=True, eq=False)
class Grammar:
    """Rules and word classes, checked. Compared by identity, so that tables can be kept for it.

    A rule has at most two nonterminals (word classes are not counted: their length is 1), and both
    its sides have the same number of words, so source and target are always equally long.

    Args:
        name: how messages call it.
        root: the nonterminal that derivations begin with.
        rules: in any order.
        classes: the word classes.

    Raises:
        ConfigError: the rules are not such a grammar; all faults together.
    """

    name: str
    root: str
    rules: tuple[Rule, ...]
    classes: tuple[WordClass, ...]

    def __post_init__(self) -> None:
        faults = [f"grammar {self.name}: {fault}" for fault in self._faults()]
        if faults:
            raise ConfigError(faults)

    @property
    def nonterminals(self) -> tuple[str, ...]:
        """Left sides in the order in which they first appear."""
        return tuple(dict.fromkeys(rule.left for rule in self.rules))

    @property
    def source_vocabulary(self) -> tuple[str, ...]:
        """The words of the source: class by class, then the others as the rules bring them."""
        numbered = [f"{c.source}{i}" for c in self.classes for i in range(1, c.count + 1)]
        return self._with_words(numbered, (rule.source for rule in self.rules))

    @property
    def target_vocabulary(self) -> tuple[str, ...]:
        """The words of the target, in the same order."""
        numbered = [f"{c.target}{i}" for c in self.classes for i in range(1, c.count + 1)]
        return self._with_words(numbered, (rule.target for rule in self.rules))

    def category(self, symbol: str) -> str | None:
        """The nonterminal or class that a symbol of a rule's side names, None for a word."""
        bare = symbol.rstrip(_DIGITS)
        classes = {word_class.name for word_class in self.classes}
        return bare if bare in classes or bare in self.nonterminals else None

    def _with_words(self, numbered: list[str], sides: Iterable[str]) -> tuple[str, ...]:
        words = (word for side in sides for word in side.split() if self.category(word) is None)
        return tuple(dict.fromkeys((*numbered, *words)))

    def _faults(self) -> Iterator[str]:
        classes = {word_class.name for word_class in self.classes}
        if self.root not in self.nonterminals:
            yield f"the root {self.root} has no rule"
        for name in self.nonterminals:
            own = [_fraction(rule.probability) for rule in self.rules if rule.left == name]
            known = [probability for probability in own if probability is not None]
            if len(known) == len(own) and sum(known) != 1:
                yield f"the probabilities of {name} sum to {sum(known)}, not 1"
            if name in classes:
                yield f"{name} is both a nonterminal and a word class"
        for word_class in self.classes:
            if word_class.count < 1:
                yield f"class {word_class.name} has {word_class.count} words"
        for rule in self.rules:
            for fault in self._rule_faults(rule, classes):
                yield f"{rule.left} -> {rule.source} | {rule.target}: {fault}"
        yield from self._cycles()

    def _rule_faults(self, rule: Rule, classes: set[str]) -> Iterator[str]:
        probability = _fraction(rule.probability)
        if probability is None:
            yield f"expected a probability such as 1/5, got {rule.probability!r}"
        elif probability <= 0:
            yield f"probability {rule.probability} is not positive"
        source, target = rule.source.split(), rule.target.split()
        if not source:
            yield "a side is empty"
        if len(source) != len(target):
            yield "the sides differ in length"
        linked = [symbol for symbol in source if self.category(symbol) is not None]
        if Counter(linked) != Counter(s for s in target if self.category(s) is not None):
            yield "the sides differ in their nonterminals"
        if len(set(linked)) != len(linked):
            yield "a nonterminal occurs twice with the same number"
        if sum(self.category(symbol) not in classes for symbol in linked) > 2:
            yield "more than two nonterminals; write it as two rules"

    def _cycles(self) -> Iterator[str]:
        """A nonterminal that rewrites to itself alone would have infinitely many derivations."""
        alone: dict[str, set[str]] = {name: set() for name in self.nonterminals}
        for rule in self.rules:
            category = self.category(rule.source) if len(rule.source.split()) == 1 else None
            if category in alone:
                alone[rule.left].add(category)
        while leaves := [name for name, next_ones in alone.items() if not next_ones & set(alone)]:
            for name in leaves:
                del alone[name]
        if alone:
            yield f"a cycle of rules with one nonterminal and nothing else: {', '.join(alone)}"


def _fraction(text: str) -> Fraction | None:
    """The number that a rule's probability says; None where it says none."""
    try:
        return Fraction(text)
    except (ArithmeticError, TypeError, ValueError):
        return None
