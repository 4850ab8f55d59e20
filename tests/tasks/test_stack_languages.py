"""Language modelling: strings, their exact probabilities by enumeration, and uniform draws."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pytest
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.pcfg import Production, WeightedGrammar
from unbounded.tasks.stack_languages import LANGUAGES

GRAMMARS = ("padded_reversal", "dyck", "hardest_cfl")


def nested(text):
    while "()" in text or "[]" in text:
        text = text.replace("()", "").replace("[]", "")
    return text == ""


def thirds(text):
    size = len(text) // 3
    return text[:size], text[size : 2 * size], text[2 * size :]


RULES = {
    "marked_reversal": lambda t: t.split("#")[0] == t.split("#")[1][::-1],
    "unmarked_reversal": lambda t: t == t[::-1] and len(t) % 2 == 0,
    "padded_reversal": lambda t: t == t[::-1],
    "dyck": nested,
    "hardest_cfl": lambda t: t[-1] == ";" and t.count(",") >= 2 and "$" in t,
    "count_3": lambda t: t == "a" * (len(t) // 3) + "b" * (len(t) // 3) + "c" * (len(t) // 3),
    "marked_reverse_and_copy": lambda t: (
        t.split("#")[0] == t.split("#")[1][::-1] == t.split("#")[2]
    ),
    "count_and_copy": lambda t: thirds(t)[0] == thirds(t)[2] and set(thirds(t)[1]) == {"#"},
    "marked_copy": lambda t: t.split("#")[0] == t.split("#")[1],
    "unmarked_copy_different_alphabets": lambda t: (
        t[: len(t) // 2] == t[len(t) // 2 :].replace("2", "0").replace("3", "1")
    ),
    "unmarked_reverse_and_copy": lambda t: (
        thirds(t)[0] == thirds(t)[1][::-1] == thirds(t)[2] and len(t) % 3 == 0
    ),
    "unmarked_copy": lambda t: t[: len(t) // 2] == t[len(t) // 2 :] and len(t) % 2 == 0,
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_of_its_language(language):
    task = make_task("stack_language", language=language)
    examples = task.examples(1, "train", 0, 60)
    for source, target in examples:
        assert target == ()
        assert 40 <= len(source) <= 80
        assert RULES[language]("".join(source))
    assert task.example(1, "train", 7) == examples[7]
    assert task.examples(2, "train", 0, 5) != examples[:5]
    batch = task.batch(1, "train", 0, 10)
    for inputs, targets, mask, steps, (source, _) in zip(*batch, examples[:10], strict=True):
        assert [task.input_vocabulary[t] for t in inputs[:steps].tolist()] == ["<s>", *source]
        assert [task.output_vocabulary[t] for t in targets[:steps].tolist()] == [*source, "</s>"]
        assert int(mask.sum()) == int(steps) == len(source) + 1


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"hardest_cfl"}))
def test_short_strings_are_the_strings_of_the_rule(language):
    source = LANGUAGES[language](2)
    task = make_task("stack_language", language=language)
    symbols = task.input_vocabulary[1:]
    marks = {"marked_reversal": 1, "marked_copy": 1, "marked_reverse_and_copy": 2}
    for length in range(1, 9):
        expected = []
        for tokens in itertools.product(range(len(symbols)), repeat=length):
            text = "".join(symbols[token] for token in tokens)
            if text.count("#") != marks.get(language, text.count("#")):
                continue
            if language == "count_and_copy" and (length % 3 or "#" in thirds(text)[0]):
                continue
            if language == "unmarked_copy_different_alphabets" and (
                length % 2 or {*text[: length // 2]} - {*"01"} or {*text[length // 2 :]} & {*"01"}
            ):
                continue
            if RULES[language](text):
                expected.append(tokens)
        assert source.has(length) == bool(expected)
        if not expected:
            continue
        logs = source.log_probabilities(np.array(expected, dtype=np.int64))
        assert np.isfinite(logs).all()
        assert np.exp(logs).sum() == pytest.approx(1.0)
        drawn = task.examples(1, "train", 0, 50, LengthRange(length, length))
        assert {one.source for one in drawn} <= {
            tuple(symbols[token] for token in tokens) for tokens in expected
        }


def weights_by_enumeration(rules, start, length):
    """The weight of each string of a length, as the sum over its derivations."""

    @cache
    def of_symbols(symbols, length):
        if not symbols:
            return {(): 1.0} if length == 0 else {}
        first, rest = symbols[0], symbols[1:]
        least = sum(isinstance(symbol, int) for symbol in rest)
        found = defaultdict(float)
        for size in range(length - least + 1):
            heads = of_symbol(first, size)
            if not heads:
                continue
            for head, weight in heads.items():
                for tail, other in of_symbols(rest, length - size).items():
                    found[head + tail] += weight * other
        return dict(found)

    @cache
    def of_symbol(symbol, length):
        if isinstance(symbol, int):
            return {(symbol,): 1.0} if length == 1 else {}
        found = defaultdict(float)
        for left, right, weight in rules:
            if left == symbol and sum(isinstance(part, int) for part in right) <= length:
                # The rest after a left-recursive nonterminal has at least one symbol.
                if right[:1] == (symbol,):
                    for size in range(length):
                        for tail, other in of_symbols(right[1:], length - size).items():
                            for head, own in of_symbol(symbol, size).items():
                                found[head + tail] += weight * own * other
                    continue
                for string, own in of_symbols(right, length).items():
                    found[string] += weight * own
        return dict(found)

    return of_symbol(start, length)


def rules_of(language, monkeypatch):
    """The rules of a language's grammar, and the language."""
    seen = []
    make = WeightedGrammar.__init__

    def keep(self, start, rules):
        seen.append((start, rules))
        make(self, start, rules)

    monkeypatch.setattr(WeightedGrammar, "__init__", keep)
    source = LANGUAGES[language](1 if language == "dyck" else 2)
    ((start, rules),) = seen
    return start, rules, source


@pytest.mark.parametrize(
    ("language", "lengths"),
    [("padded_reversal", (1, 2, 5, 8)), ("dyck", (2, 6, 10)), ("hardest_cfl", (6, 7, 8))],
)
def test_probabilities_are_those_of_an_enumeration(language, lengths, monkeypatch):
    start, rules, source = rules_of(language, monkeypatch)
    for length in lengths:
        weights = weights_by_enumeration(rules, start, length)
        total = sum(weights.values())
        assert source._grammar.weight_of(length) == pytest.approx(total, rel=1e-9)
        strings = np.array(list(weights), dtype=np.int64)
        logs = source.log_probabilities(strings)
        expected = [math.log(weight / total) for weight in weights.values()]
        assert logs == pytest.approx(expected, rel=1e-9)
        assert np.exp(logs).sum() == pytest.approx(1.0)
    assert not source.has(3 if language == "dyck" else 0 if language != "hardest_cfl" else 5)


@pytest.mark.parametrize(
    ("language", "length"),
    [
        ("padded_reversal", 6),
        pytest.param("dyck", 6, marks=pytest.mark.slow),
        pytest.param("hardest_cfl", 7, marks=pytest.mark.slow),
    ],
)
def test_draws_have_the_probabilities_of_an_enumeration(language, length):
    task = make_task("stack_language", language=language)
    lengths = LengthRange(length, length)
    batch = task.batch(1, "train", 0, 4000, lengths)
    logs = task.log_probabilities(batch, lengths)
    counts, shares = Counter(), {}
    for row, log in zip(batch.inputs[:, 1:].tolist(), logs.tolist(), strict=True):
        counts[tuple(row)] += 1
        shares[tuple(row)] = math.exp(log)
    common = [key for key in counts if 4000 * shares[key] >= 8]
    rest = 4000 - sum(counts[key] for key in common)
    share = 1 - sum(shares[key] for key in common)
    observed, expected = [counts[key] for key in common], [4000 * shares[key] for key in common]
    if 4000 * share > 5:
        observed.append(rest)
        expected.append(4000 * share)
    else:
        expected = [e * sum(observed) / sum(expected) for e in expected]
    assert len(observed) >= 4
    assert chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - set(GRAMMARS)))
def test_strings_of_w_have_the_probability_of_w(language):
    task = make_task("stack_language", language=language)
    lengths = LengthRange(6, 8)
    batch = task.batch(1, "train", 0, 300, lengths)
    strings = {tuple(row) for row in batch.inputs.tolist()}
    logs = task.log_probabilities(batch, lengths)
    by_string = dict(zip(map(tuple, batch.inputs.tolist()), logs.tolist(), strict=True))
    assert len(by_string) == len(strings)
    assert sum(math.exp(log) for log in by_string.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - set(GRAMMARS)))
def test_what_is_determined_follows_from_all_strings(language):
    """An output is determined if no other follows its prefix in a string of any length."""
    task, longest = make_task("stack_language", language=language), 12
    strings = [
        tuple(row)
        for length in range(1, longest + 1)
        if task.count_of(length, 2)
        for row in task.every(length, 2).inputs[:, 1:].tolist()
    ]
    assert len(set(strings)) == len(strings)
    following = defaultdict(set)
    for string in strings:
        for place in range(len(string) + 1):
            following[string[:place]].add((*string, 0)[place])
    shares = []
    for length in range(1, longest // 3):
        if not task.count_of(length, 2):
            continue
        batch = task.determined(task.every(length, 2))
        for row, string in enumerate(string for string in strings if len(string) == length):
            # The first symbol of count_3 is determined, too, but it is not counted.
            expected = [len(following[string[:place]]) == 1 for place in range(1, length + 1)]
            shares.append(sum(expected))
            assert not task.is_determined or batch.mask[row, 1:].tolist() == expected
    assert (max(shares) > 0) == task.is_determined


def test_the_strings_of_a_grammar_are_not_listed():
    assert make_task("stack_language", language="dyck").count_of(4, 2) is None
    assert not make_task("stack_language", language="dyck").is_determined


def test_the_capacity_test_has_many_symbols():
    for language in ("marked_reversal", "unmarked_reversal", "dyck"):
        task = make_task("stack_language", language=language, symbols=200)
        symbols = {"marked_reversal": 201, "unmarked_reversal": 200, "dyck": 400}[language]
        assert len(task.input_vocabulary) == symbols + 1
        lengths = LengthRange(40, 41)
        few = make_task("stack_language", language=language, symbols=2)
        logs = task.log_probabilities(task.batch(1, "train", 0, 5, lengths), lengths)
        pairs = 20
        for source, _ in task.examples(1, "train", 0, 5, lengths):
            if language == "dyck":
                opened = []
                for symbol in source:
                    if symbol.startswith("("):
                        opened.append(symbol[1:])
                    else:
                        assert opened.pop() == symbol[1:]
                assert not opened
        if language != "dyck":
            assert logs == pytest.approx([-pairs * math.log(200)] * 5)
        assert len(few.input_vocabulary) < 6


def test_an_ambiguous_grammar_with_chains_is_summed():
    """S -> S S | a | nothing: cyclic, so that derivations cannot be enumerated."""
    rules = [Production("S", ("S", "S"), 0.2), Production("S", (0,), 0.5), Production("S", (), 0.3)]
    grammar = WeightedGrammar("S", rules)
    # f(x) = 0.2 f^2 + 0.5 x + 0.3 in closed form, by its coefficients.
    f = np.zeros(6)
    f[0] = (1 - math.sqrt(1 - 4 * 0.2 * 0.3)) / 0.4
    for n in range(1, 6):
        own = 0.2 * sum(f[k] * f[n - k] for k in range(1, n)) + (0.5 if n == 1 else 0)
        f[n] = own / (1 - 0.4 * f[0])
    assert [grammar.weight_of(n) for n in range(1, 6)] == pytest.approx(f[1:].tolist())
    assert grammar.log_probabilities(np.zeros((2, 4), dtype=np.int64)) == pytest.approx([0, 0])


def test_bad_input_is_named():
    with pytest.raises(ConfigError, match="test_lengths: length range: the language has no string"):
        make_task("stack_language", language="count_3", test_lengths="4:5")
    with pytest.raises(ConfigError, match="symbols: has no effect on the language count_3"):
        make_task("stack_language", language="count_3", symbols=5)
    with pytest.raises(ConfigError) as caught:
        make_task("stack_language", language="dick", train_lengths="8:4")
    assert len(caught.value.errors) == 2
    assert "Did you mean 'dyck'?" in caught.value.errors[0]
    with pytest.raises(ConfigError, match="lengths: stack_language: length range"):
        make_task("stack_language").batch(0, "train", 0, 1, LengthRange(4, 4))
