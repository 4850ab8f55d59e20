from fractions import Fraction

import pytest

from unbounded.errors import ConfigError
from unbounded.tasks import GENDER, SVO_SOV, Grammar, LengthRange, Rule, Stream, WordClass
from unbounded.tasks.derivation import GrammarPairs


def test_vocabularies_of_the_paper():
    assert len(SVO_SOV.source_vocabulary) == len(SVO_SOV.target_vocabulary) == 100
    assert len(GENDER.source_vocabulary) == 104
    assert len(GENDER.target_vocabulary) == 107
    assert {"the", "a", "or", "and", "we1", "ne25"} <= set(GENDER.source_vocabulary)
    assert {"der", "die", "das", "ein", "eine", "oder", "und"} <= set(GENDER.target_vocabulary)
    for grammar in (SVO_SOV, GENDER):
        assert len(set(grammar.source_vocabulary)) == len(grammar.source_vocabulary)
        assert len(set(grammar.target_vocabulary)) == len(grammar.target_vocabulary)


@pytest.mark.parametrize("grammar", [SVO_SOV, GENDER])
def test_probabilities_sum_to_one(grammar):
    for name in grammar.nonterminals:
        assert sum(Fraction(r.probability) for r in grammar.rules if r.left == name) == 1


def one_rule(**changes):
    fields = {"probability": "1", "left": "A", "source": "W1 x", "target": "x W1", **changes}
    return Grammar("test", "A", (Rule(**fields),), (WordClass("W", "a", "b", 2),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probability": "1/2"}, "the probabilities of A sum to 1/2, not 1"),
        ({"probability": "-1"}, "probability -1 is not positive"),
        ({"source": "", "target": ""}, "a side is empty"),
        ({"target": "x x W1"}, "the sides differ in length"),
        ({"target": "x W2"}, "the sides differ in their nonterminals"),
        ({"source": "W1 W1", "target": "W1 W1"}, "occurs twice with the same number"),
        ({"source": "A1 A2 A3", "target": "A3 A2 A1"}, "more than two nonterminals"),
        ({"source": "A1", "target": "A1"}, "a cycle of rules with one nonterminal"),
        ({"left": "B"}, "the root A has no rule"),
        ({"left": "W"}, "W is both a nonterminal and a word class"),
    ],
)
def test_errors(changes, message):
    with pytest.raises(ConfigError, match=message):
        one_rule(**changes)


def test_an_empty_class():
    with pytest.raises(ConfigError, match="class W has 0 words"):
        Grammar("test", "A", (Rule("1", "A", "W1", "W1"),), (WordClass("W", "a", "b", 0),))


def test_all_errors_together():
    with pytest.raises(ConfigError) as caught:
        one_rule(probability="1/2", target="x y W2")
    assert len(caught.value.errors) == 3


@pytest.mark.parametrize("probability", ["x", "", "1/0", "nan", None, float("inf")])
def test_an_invalid_probability_is_reported_with_the_other_errors(probability):
    with pytest.raises(ConfigError) as caught:
        one_rule(probability=probability, target="x y W2")
    first, *others = caught.value.errors
    assert "A -> W1 x | x y W2: expected a probability such as 1/5, got " in first
    assert first.endswith(f"got {probability!r}")
    assert len(others) == 2


def test_children_and_words_cross_as_in_the_rule():
    """Inversion, words between and repeated words, on a grammar with one derivation a length."""
    grammar = Grammar(
        "test",
        "A",
        (
            Rule("1", "A", "x B1 y x C2 W1", "W1 p C2 q B1 p"),
            Rule("1", "B", "b b", "c c"),
            Rule("1", "C", "d W1 W2", "W2 W1 e"),
        ),
        (WordClass("W", "w", "v", 40),),
    )
    lengths = LengthRange(9, 9)
    pairs = GrammarPairs(grammar)
    drawn = pairs.draw(Stream(0, "train"), 0, 20, lengths)
    for source, target in zip(drawn.source.tolist(), drawn.target.tolist(), strict=True):
        s = [grammar.source_vocabulary[symbol] for symbol in source]
        t = [grammar.target_vocabulary[symbol] for symbol in target]
        assert s[:6] == ["x", "b", "b", "y", "x", "d"]
        one, two, three = (f"v{word[1:]}" for word in s[6:])
        assert t == [three, "p", two, one, "e", "q", "c", "c", "p"]
