"""All sentences of a grammar, against rewriting in plain Python and against draws."""

from __future__ import annotations

import pytest

from unbounded.errors import ConfigError
from unbounded.tasks import GENDER, SVO_SOV, GrammarPairs, LengthRange, make_task
from unbounded.tasks import derivation as module
from unbounded.tasks.randomness import Stream


def rewritten(grammar, symbols, longest):
    """Sources by replacing the first nonterminal of each string until none is left.

    No rule makes a string shorter.
    """
    rules = {}
    for rule in grammar.rules:
        bare = [
            symbol.rstrip("0123456789") if grammar.category(symbol) else symbol
            for symbol in rule.source.split()
        ]
        rules.setdefault(rule.left, []).append(bare)
    for each in grammar.classes:
        rules[each.name] = [[f"{each.source}{i}"] for i in range(1, symbols + 1)]
    done, seen, waiting = set(), set(), [(grammar.root,)]
    while waiting:
        string = waiting.pop()
        place = next((k for k, symbol in enumerate(string) if symbol in rules), None)
        if place is None:
            done.add(string)
            continue
        for right in rules[string[place]]:
            new = (*string[:place], *right, *string[place + 1 :])
            if len(new) <= longest and new not in seen:
                seen.add(new)
                waiting.append(new)
    return done


def words(pairs, source, row):
    sides = ((pairs.source_vocabulary, source.source), (pairs.target_vocabulary, source.target))
    return tuple(tuple(names[i] for i in side[row].tolist()) for names, side in sides)


@pytest.mark.parametrize(("grammar", "symbols", "longest"), [(SVO_SOV, 2, 6), (GENDER, 1, 8)])
def test_every_sentence_is_listed_once(grammar, symbols, longest):
    pairs = GrammarPairs(grammar)
    expected = rewritten(grammar, symbols, longest)
    for length in range(1, longest + 1):
        own = {source for source in expected if len(source) == length}
        assert pairs.count_of(length, symbols) == len(own)
        if not own:
            continue
        listed = pairs.every(length, symbols)
        sources = [words(pairs, listed, row)[0] for row in range(len(own))]
        assert len(sources) == len(set(sources)) == len(listed.source)
        assert set(sources) == own


@pytest.mark.parametrize(("grammar", "length"), [(SVO_SOV, 5), (GENDER, 6)])
def test_drawn_sentences_of_few_words_are_the_listed_ones(grammar, length):
    pairs = GrammarPairs(grammar)
    listed = pairs.every(length, 1)
    few = pairs.over(1)
    drawn = few.draw(Stream(1, "test"), 0, 600, LengthRange(length, length))
    expected = {words(pairs, listed, row) for row in range(len(listed.source))}
    assert {words(few, drawn, row) for row in range(600)} == expected


def test_the_words_of_an_alphabet():
    pairs = make_task("svo_sov").pairs
    assert pairs.alphabet(2) == ("si1", "si2", "oi1", "oi2", "vi1", "vi2", "rpi")
    assert pairs.most_symbols == 33
    assert pairs.over(2).source_vocabulary == pairs.source_vocabulary


def test_too_many_sentences_are_not_listed(monkeypatch):
    monkeypatch.setattr(module, "MOST_LISTED", 50)
    module.sentences_of.cache_clear()
    pairs = GrammarPairs(SVO_SOV)
    assert pairs.count_of(4, 2) == 32
    assert pairs.count_of(5, 2) is None
    assert pairs.count_of(4, 2) == 32
    module.sentences_of.cache_clear()
    with pytest.raises(ConfigError, match="its pairs of one length cannot be listed"):
        pairs.every(2, 2)
