import re
from collections import Counter

import grammar_oracle as oracle
import numpy as np
import pytest
from scipy import stats

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import GENDER, SVO_SOV, GrammarPairs, LengthRange, make_task
from unbounded.tasks.derivation import _expand, inside_table
from unbounded.tasks.randomness import Stream

GRAMMARS = {"svo_sov": SVO_SOV, "gender": GENDER}
MARK = {"svo_sov": "rpi", "gender": "or"}
every_count = pytest.mark.parametrize(
    "draws", [10_000, pytest.param(40_000, marks=pytest.mark.slow)]
)


def shape(symbols):
    return tuple(re.sub(r"\d+$", "", symbol) for symbol in symbols)


def chi_square(counts, probabilities, draws):
    """p-value; cells with an expectation below 5 are merged."""
    assert set(counts) <= {key for key, p in probabilities.items() if p > 0}
    cells, rest_count, rest_expected = [], 0, 0.0
    for key, p in probabilities.items():
        if p * draws >= 5:
            cells.append((counts[key], p * draws))
        else:
            rest_count, rest_expected = rest_count + counts[key], rest_expected + p * draws
    if rest_expected:
        cells.append((rest_count, rest_expected))
    observed, expected = np.array(cells).T
    assert len(cells) > 3
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize(
    ("name", "lengths"), [("svo_sov", LengthRange(3, 8)), ("gender", LengthRange(5, 11))]
)
@pytest.mark.parametrize("distribution", ["grammar", "uniform"])
@every_count
def test_frequencies_of_short_pairs_equal_those_of_an_enumeration(
    name, lengths, distribution, draws
):
    exact = {n: oracle.SHORT[name](n) for n in lengths}
    mass = {n: sum(pairs.values()) for n, pairs in exact.items()}
    total = sum(mass.values())
    share = {
        n: float(p / total) if distribution == "grammar" else 1 / sum(m > 0 for m in mass.values())
        for n, p in mass.items()
    }
    probabilities = {
        pair: share[n] * float(p / mass[n]) for n in lengths for pair, p in exact[n].items()
    }
    task = make_task(name, length_distribution=distribution)
    drawn = task.examples(2, "train", 0, draws, lengths)
    counts = Counter((shape(source), shape(target)) for source, target in drawn)
    assert chi_square(counts, probabilities, draws) > 1e-3


@pytest.mark.parametrize("name", GRAMMARS)
@every_count
def test_lengths_and_rule_counts_of_long_pairs_follow_the_power_series(name, draws):
    lengths = LengthRange(8, 64)
    joint = oracle.marked_lengths(name, 64)[8:]
    joint = np.where(joint > 1e-13, joint, 0) / joint.sum()
    drawn = [source for source, _ in make_task(name).examples(4, "train", 0, draws, lengths)]
    by_length = {n: joint[n - 8].sum() for n in lengths}
    assert chi_square(Counter(map(len, drawn)), by_length, draws) > 1e-3
    # Marks given the length, for the longer half: independent of how lengths were drawn.
    counts, expected = Counter(), Counter()
    for source in drawn:
        if len(source) >= 24:
            counts[source.count(MARK[name])] += 1
            conditional = joint[len(source) - 8]
            for marks in np.flatnonzero(conditional):
                expected[int(marks)] += conditional[marks] / conditional.sum()
    total = sum(counts.values())
    assert total > 1000
    assert chi_square(counts, {k: v / total for k, v in expected.items()}, total) > 1e-3


def test_the_position_of_the_verb_in_long_sentences_follows_the_table():
    n, draws = 100, 8_000
    table = inside_table(SVO_SOV, 128)
    s, o = (table.inside[table.rules.nonterminals.index(name)] for name in "SO")
    weight = {k: s[k] * o[n - 1 - k] for k in range(1, n - 1)}
    total = sum(weight.values())
    drawn = make_task("svo_sov").examples(0, "test", 0, draws, LengthRange(n, n))
    counts = Counter(root_verb(source) for source, _ in drawn)
    assert chi_square(counts, {k: w / total for k, w in weight.items()}, draws) > 1e-3


@pytest.mark.parametrize("name", GRAMMARS)
def test_words_of_each_class_are_uniform(name):
    counts = Counter(
        symbol for source, _ in make_task(name).examples(3, "train", 0, 20_000) for symbol in source
    )
    for word_class in GRAMMARS[name].classes:
        own = [counts[f"{word_class.source}{i}"] for i in range(1, word_class.count + 1)]
        assert stats.chisquare(own).pvalue > 1e-3


def root_verb(source):
    """The first verb outside relative clauses."""
    open_clauses = 0
    for place, symbol in enumerate(shape(source)):
        if symbol == "rpi":
            open_clauses += 1
        elif symbol == "vi":
            if not open_clauses:
                return place
            open_clauses -= 1
    raise AssertionError(source)


def is_subject(symbols):
    """S -> S S | S rpi S vi | si: nested clauses; each clause starts with a noun."""
    open_clauses = 0
    for before, symbol in zip((None, *symbols[:-1]), symbols, strict=True):
        if symbol not in ("si", "rpi", "vi") or (before in (None, "rpi") and symbol != "si"):
            return False
        open_clauses += {"si": 0, "rpi": 1, "vi": -1}[symbol]
        if open_clauses < 0:
            return False
    return bool(symbols) and open_clauses == 0


def is_object(symbols):
    """O -> O O | S rpi S vi | oi: objects, and subjects that end with a clause, in a row."""
    runs = "".join({"si": "s", "rpi": "(", "vi": ")", "oi": "o"}[symbol] for symbol in symbols)
    names = {"s": "si", "(": "rpi", ")": "vi"}
    clauses = [run for run in runs.split("o") if run]
    return bool(runs) and all(
        run.endswith(")") and is_subject([names[character] for character in run]) for run in clauses
    )


@pytest.mark.parametrize("split", ["train", "test"])
def test_svo_pairs_are_sentences_and_their_translations(split):
    word = {"si": "so", "oi": "oo", "vi": "vo", "rpi": "rpo"}
    for source, target in make_task("svo_sov").examples(9, split, 0, 500):
        verb = root_verb(source)
        assert is_subject(shape(source)[:verb])
        assert is_object(shape(source)[verb + 1 :])
        order = [*range(verb), *range(verb + 1, len(source)), verb]
        moved = [source[place] for place in order]
        assert target == tuple(re.sub(r"^[a-z]+", lambda m: word[m[0]], s) for s in moved)


@pytest.mark.parametrize("split", ["train", "test"])
def test_gender_pairs_are_sentences_and_their_translations(split):
    article = {
        ("the", "me"): "der",
        ("the", "fe"): "die",
        ("the", "ne"): "das",
        ("a", "me"): "ein",
        ("a", "fe"): "eine",
        ("a", "ne"): "ein",
    }
    noun_phrase = r"(?:the|a) (?:me|fe|ne)"
    core = f"{noun_phrase} and {noun_phrase}"
    # After "or" comes a core, after a core no core; after a verb anything but "or" + no core.
    sentence = re.compile(rf"{core}(?: or {core}| we(?: {core})?)*")
    for source, target in make_task("gender").examples(9, split, 0, 500):
        kinds = shape(source)
        assert sentence.fullmatch(" ".join(kinds))
        expected = []
        for place, (symbol, kind) in enumerate(zip(source, kinds, strict=True)):
            if symbol in ("the", "a"):
                expected.append(article[symbol, kinds[place + 1]])
            elif symbol in ("or", "and"):
                expected.append({"or": "oder", "and": "und"}[symbol])
            else:
                expected.append(f"{kind[0]}g{symbol[2:]}")
        assert target == tuple(expected)


@pytest.mark.parametrize("name", GRAMMARS)
def test_long_lengths(name):
    task = make_task(name, length_distribution="uniform")
    batch = task.batch(0, "test", 0, 3, LengthRange(1000, 1024))
    assert all(2002 <= steps <= 2050 for steps in batch.lengths.tolist())
    source, target = task.example(0, "test", 1, LengthRange(1000, 1024))
    assert len(source) == len(target) == (int(batch.lengths[1]) - 2) // 2


@pytest.mark.parametrize("grammar", [SVO_SOV, GENDER])
def test_a_derivation_does_not_depend_on_the_size_of_the_table(grammar):
    chosen = np.array([20, 30, 40])
    small, large = (
        _expand(inside_table(grammar, n), 0, Stream(0, "train"), np.arange(3), chosen)
        for n in (64, 300)
    )
    assert all(np.array_equal(*fields) for fields in zip(small, large, strict=True))


def test_uniform_lengths():
    task = make_task("gender", length_distribution="uniform")
    counts = Counter(len(s) for s, _ in task.examples(0, "train", 0, 10_000, LengthRange(1, 24)))
    assert sorted(counts) == list(range(5, 25))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize(("name", "lengths"), [("svo_sov", "1:2"), ("gender", "1:4")])
def test_a_range_the_grammar_does_not_reach(name, lengths):
    with pytest.raises(ConfigError, match=f"{name} derives no sentence of length {lengths}"):
        make_task(name).batch(0, "train", 0, 1, LengthRange.parse(lengths))


def test_a_range_too_long():
    with pytest.raises(ConfigError, match=r"svo_sov: .* at most 4096 words, got 8:5000"):
        make_task("svo_sov").batch(0, "train", 0, 1, LengthRange(8, 5000))


def test_unknown_length_distribution():
    with pytest.raises(ChoiceError, match="unknown length distribution 'flat'"):
        GrammarPairs(GENDER, "flat")
