"""Inversion transduction grammars: rules that derive a source and a target together.

A rule is written as in the paper: `Rule("1/5", "S", "S1 rpi S2 VT3", "S1 rpo S2 VT3")`. A digit
after a nonterminal links its occurrences in source and target. `SVO_SOV` and `GENDER` are the two
grammars of Grefenstette et al. 2015, arXiv:1506.02516, appendix C, Table 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from unbounded.errors import ConfigError

_DIGITS = "0123456789"


@dataclass(frozen=True)
class Rule:
    """One rule left -> source | target.

    Args:
        probability: among the rules of `left`; exact, as in "1/5".
        left: a nonterminal.
        source: symbols separated by spaces: words, nonterminals and names of word classes.
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
    """Checked rules and word classes of a grammar.

    Grammars are compared by identity, so that tables can be cached.

    A rule has at most two nonterminals (word classes do not count: their length is 1). Both sides
    of a rule have the same number of words, so source and target have equal lengths.

    Args:
        name: the name in messages.
        root: the start symbol.
        rules: in any order.
        classes: the word classes.

    Raises:
        ConfigError: the rules are not such a grammar; all errors together.
    """

    name: str
    root: str
    rules: tuple[Rule, ...]
    classes: tuple[WordClass, ...]

    def __post_init__(self) -> None:
        errors = [f"grammar {self.name}: {error}" for error in self._errors()]
        if errors:
            raise ConfigError(errors)

    @property
    def nonterminals(self) -> tuple[str, ...]:
        """Left sides in the order in which they first appear."""
        return tuple(dict.fromkeys(rule.left for rule in self.rules))

    @property
    def source_vocabulary(self) -> tuple[str, ...]:
        """The source words: first class by class, then other words in the order of the rules."""
        numbered = [f"{c.source}{i}" for c in self.classes for i in range(1, c.count + 1)]
        return self._with_words(numbered, (rule.source for rule in self.rules))

    @property
    def target_vocabulary(self) -> tuple[str, ...]:
        """The target words, in the same order as the source words."""
        numbered = [f"{c.target}{i}" for c in self.classes for i in range(1, c.count + 1)]
        return self._with_words(numbered, (rule.target for rule in self.rules))

    def category(self, symbol: str) -> str | None:
        """The nonterminal or class of a symbol on a rule's side; None for a word."""
        bare = symbol.rstrip(_DIGITS)
        classes = {word_class.name for word_class in self.classes}
        return bare if bare in classes or bare in self.nonterminals else None

    def _with_words(self, numbered: list[str], sides: Iterable[str]) -> tuple[str, ...]:
        words = (word for side in sides for word in side.split() if self.category(word) is None)
        return tuple(dict.fromkeys((*numbered, *words)))

    def _errors(self) -> Iterator[str]:
        classes = {word_class.name for word_class in self.classes}
        if self.root not in self.nonterminals:
            yield f"the root {self.root} has no rule"
        for name in self.nonterminals:
            probabilities = [
                _fraction(rule.probability) for rule in self.rules if rule.left == name
            ]
            known = [probability for probability in probabilities if probability is not None]
            if len(known) == len(probabilities) and sum(known) != 1:
                yield f"the probabilities of {name} sum to {sum(known)}, not 1"
            if name in classes:
                yield f"{name} is both a nonterminal and a word class"
        for word_class in self.classes:
            if word_class.count < 1:
                yield f"class {word_class.name} has {word_class.count} words"
        for rule in self.rules:
            for error in self._rule_errors(rule, classes):
                yield f"{rule.left} -> {rule.source} | {rule.target}: {error}"
        yield from self._cycles()

    def _rule_errors(self, rule: Rule, classes: set[str]) -> Iterator[str]:
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
        """A nonterminal that can rewrite to just itself has infinitely many derivations."""
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
    """A rule's probability as a number; None if it is not a number."""
    try:
        return Fraction(text)
    except (ArithmeticError, TypeError, ValueError):
        return None


# Table 1(a): subject-verb-object to subject-object-verb. Each side has 3 x 33 words and a relative
# pronoun. The verb of a relative clause is last on both sides. Only the verb of the main clause
# moves.
SVO_SOV: Final = Grammar(
    name="svo_sov",
    root="A",
    rules=(
        Rule("1", "A", "S1 VT2 O3", "S1 O3 VT2"),
        Rule("1/5", "S", "S1 S2", "S1 S2"),
        Rule("1/5", "S", "S1 rpi S2 VT3", "S1 rpo S2 VT3"),
        Rule("3/5", "S", "ST1", "ST1"),
        Rule("1/5", "O", "O1 O2", "O1 O2"),
        Rule("1/5", "O", "S1 rpi S2 VT3", "S1 rpo S2 VT3"),
        Rule("3/5", "O", "OT1", "OT1"),
    ),
    classes=(
        WordClass("ST", "si", "so", 33),
        WordClass("OT", "oi", "oo", 33),
        WordClass("VT", "vi", "vo", 33),
    ),
)

# Table 1(b): English to German, where the article shows the noun's gender. Each side has 4 x 25
# words; the source has 4 others, and the target has 7.
GENDER: Final = Grammar(
    name="gender",
    root="A",
    rules=(
        Rule("1", "A", "B1", "B1"),
        Rule("1/4", "B", "B1 or B2", "B1 oder B2"),
        Rule("1/4", "B", "S1 and S2", "S1 und S2"),
        Rule("1/2", "B", "B1 V1", "B1 V1"),
        Rule("3/4", "V", "W1 B2", "W1 B2"),
        Rule("1/4", "V", "W1", "W1"),
        Rule("1/6", "S", "the M1", "der M1"),
        Rule("1/6", "S", "the F1", "die F1"),
        Rule("1/6", "S", "the N1", "das N1"),
        Rule("1/6", "S", "a M1", "ein M1"),
        Rule("1/6", "S", "a F1", "eine F1"),
        Rule("1/6", "S", "a N1", "ein N1"),
    ),
    classes=(
        WordClass("W", "we", "wg", 25),
        WordClass("M", "me", "mg", 25),
        WordClass("F", "fe", "fg", 25),
        WordClass("N", "ne", "ng", 25),
    ),
)
