"""The eighteen languages: plain rules on all short strings, and uniform draws."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter

import pytest
from scipy.stats import chisquare

from unbounded.tasks.languages import LANGUAGES


def number(text):
    return int(text[::-1], 2)


def matched(pattern, rule):
    def holds(symbols):
        match = re.fullmatch(pattern, "".join(symbols))
        return match is not None and rule(*match.groups())

    return holds


def computed(text):
    value = int(text[0])
    for place in range(1, len(text), 2):
        value = eval(f"({value}){text[place : place + 2]}")
    return value % 5


def nested(symbols):
    depth, text = 0, " ".join(symbols)
    for symbol in symbols:
        depth += 1 if symbol[0] == "(" else -1
        if depth > 3:
            return False
    while "(0 )0" in text or "(1 )1" in text:
        text = " ".join(text.replace("(0 )0", "").replace("(1 )1", "").split())
    return text == ""


def stacked(symbols):
    text = " ".join(symbols)
    if not re.fullmatch(r"([01] )*(PUSH [01] |POP )*#( [01])*", text):
        return False
    before, after = text.split("#")
    stack = []
    for word in re.findall(r"PUSH [01]|POP|[01]", before):
        if word == "POP" and not stack:
            return False
        stack = stack[:-1] if word == "POP" else [*stack, word[-1]]
    return after.split() == stack[::-1]


RULES = {
    "even_pairs": lambda s: sum(a != b for a, b in itertools.pairwise(s)) % 2 == 0,
    "repeat_01": lambda s: re.fullmatch("(01)*", "".join(s)) is not None,
    "parity": lambda s: s.count("1") % 2 == 1,
    "cycle_navigation": matched(
        "([<=>]*)([0-4])", lambda m, end: (m.count(">") - m.count("<")) % 5 == int(end)
    ),
    "modular_arithmetic_simple": matched(
        r"([0-4](?:[-+*][0-4])*)=([0-4])", lambda left, right: computed(left) == int(right)
    ),
    "dyck_2_3": nested,
    "first": lambda s: s[:1] == ("1",),
    "majority": lambda s: 2 * s.count("1") > len(s),
    "stack_manipulation": stacked,
    "marked_reversal": matched("([01]*)#([01]*)", lambda left, right: left == right[::-1]),
    "unmarked_reversal": lambda s: len(s) % 2 == 0 and s == s[::-1],
    "marked_copy": matched("([01]*)#([01]*)", lambda left, right: left == right),
    "missing_duplicate_string": lambda s: (
        s.count("_") == 1
        and len(s) % 2 == 0
        and "".join(s).replace("_", "1")[: len(s) // 2]
        == "".join(s).replace("_", "1")[len(s) // 2 :]
    ),
    "odds_first": matched("([01]*)#([01]*)", lambda left, right: left[0::2] + left[1::2] == right),
    "binary_addition": matched(
        r"([01]+)\+([01]+)=([01]+)", lambda u, v, s: number(u) + number(v) == number(s)
    ),
    "binary_multiplication": matched(
        r"([01]+)×([01]+)=([01]+)", lambda u, v, p: number(u) * number(v) == number(p)
    ),
    "compute_sqrt": matched(
        "([01]+)=([01]+)", lambda x, z: number(z) ** 2 <= number(x) < (number(z) + 1) ** 2
    ),
    "bucket_sort": matched("([1-5]*)#([1-5]*)", lambda w, v: "".join(sorted(w)) == v),
}


def most_of(language):
    """The length up to which all strings are listed: 8, or fewer of a large alphabet."""
    return min(8, int(math.log(70_000, len(language.alphabet))))


def members(name, language, length):
    symbols = language.alphabet
    for string in itertools.product(range(len(symbols)), repeat=length):
        if RULES[name](tuple(symbols[symbol] for symbol in string)):
            yield string


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_short_string_is_classified_by_the_rule(name):
    language = LANGUAGES[name]()
    for length in range(most_of(language) + 1):
        strings = set(members(name, language, length))
        accepted = {
            string
            for string in itertools.product(range(len(language.alphabet)), repeat=length)
            if language.accepts(string)
        }
        assert accepted == strings
        assert language.has(length) == bool(strings)
        if name != "binary_multiplication":
            assert language.count(length) == len(strings)


@pytest.mark.parametrize("name", LANGUAGES)
def test_next_symbols_are_those_of_the_strings_that_go_on(name):
    """For each prefix of a short string; a continuation may be longer than the listed strings."""
    language = LANGUAGES[name]()
    most = most_of(language)
    listed = [string for n in range(most + 1) for string in members(name, language, n)]
    goes_on = {string[:k] for string in listed for k in range(len(string) + 1)}
    for string in listed:
        sets = language.next_symbols(string)
        assert len(sets) == len(string) + 1
        for place, (symbols, may_end) in enumerate(sets):
            prefix = string[:place]
            assert may_end == language.accepts(prefix)
            seen = {s for s in range(len(language.alphabet)) if (*prefix, s) in goes_on}
            assert seen <= set(symbols)
            if 2 * place + 5 <= most:  # enough room to end every prefix that can be ended
                assert seen == set(symbols)


@pytest.mark.parametrize("name", LANGUAGES)
def test_draws_are_uniform_given_the_length(name):
    """Also of the products, whose number is not known but here is counted."""
    language = LANGUAGES[name]()
    length = max(n for n in range(most_of(language) + 1) if language.has(n))
    if name in ("parity", "first", "majority", "even_pairs", "missing_duplicate_string"):
        length = 6
    strings = set(members(name, language, length))
    generator = random.Random(1)
    count = 20 * len(strings)
    drawn = Counter(tuple(language.draw(length, generator.randrange)) for _ in range(count))
    assert set(drawn) <= strings
    if len(strings) > 1:
        assert chisquare([drawn[string] for string in strings]).pvalue > 1e-3


@pytest.mark.parametrize("name", ["binary_addition", "binary_multiplication", "compute_sqrt"])
def test_draws_of_numbers_are_uniform_at_lengths_with_every_case(name):
    """Strings of 12 symbols (10 of products), by the lengths of their numbers."""
    language = LANGUAGES[name]()
    length = 12
    counts = Counter()
    size = 2 if name != "compute_sqrt" else 1
    results = {
        "binary_addition": lambda u, v: u + v,
        "binary_multiplication": lambda u, v: u * v,
        "compute_sqrt": lambda x, _: math.isqrt(x),
    }[name]
    for first in range(1, length):
        for second in range(1, length) if size == 2 else [0]:
            left = length - size - first - second
            if left < 1:
                continue
            for u, v in itertools.product(range(2**first), range(2**second)):
                if results(u, v) < 2**left:
                    counts[first, second, left] += 1
    assert language.count(length) in (None, counts.total())
    generator = random.Random(2)
    drawn = Counter()
    for _ in range(4000):
        string = "".join(language.alphabet[s] for s in language.draw(length, generator.randrange))
        parts = [len(part) for part in re.split("[^01]", string)]
        drawn[tuple(parts) if size == 2 else (parts[0], 0, parts[1])] += 1
    expected = [4000 * counts[key] / counts.total() for key in counts]
    assert set(drawn) <= set(counts)
    assert chisquare([drawn[key] for key in counts], expected).pvalue > 1e-3


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("length", [40, 41, 160, 161])
def test_long_draws_are_in_the_language(name, length):
    language = LANGUAGES[name]()
    generator = random.Random(3)
    if not language.has(length):
        return
    for _ in range(3):
        string = language.draw(length, generator.randrange)
        assert len(string) == length
        assert RULES[name](tuple(language.alphabet[symbol] for symbol in string))
        assert language.accepts(string)
        for symbol, (symbols, _) in zip(string, language.next_symbols(string), strict=False):
            assert symbol in symbols
