"""Dyck words: samplers against exhaustive enumeration and exact counts, labels against a stack."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.dyck import dyck_count, dyck_paths, other_count, other_paths
from unbounded.tasks.randomness import Stream

CATALAN = [1, 1, 2, 5, 14, 42, 132, 429, 1430, 4862, 16796]


def is_dyck(word: tuple[str, ...]) -> bool:
    open_brackets: list[str] = []
    for symbol in word:
        if symbol[0] == "u":
            open_brackets.append(symbol[1:])
        elif not open_brackets or open_brackets.pop() != symbol[1:]:
            return False
    return not open_brackets


def sampled(draw, semi_length, count):
    words = Stream(3, "train").sequence_words(np.arange(count), 2 * semi_length + 1)[1]
    return draw(words, np.full(count, semi_length)).tolist()


@pytest.mark.parametrize("semi_length", [1, 2, 3, 4])
@pytest.mark.parametrize(("draw", "positive"), [(dyck_paths, True), (other_paths, False)])
def test_every_word_is_equally_likely(draw, positive, semi_length):
    words = {
        word
        for word in product((0, 1), repeat=2 * semi_length)
        if sum(word) == semi_length and is_dyck(tuple("ud"[step] for step in word)) is positive
    }
    assert len(words) == (dyck_count if positive else other_count)(semi_length)
    drawn = Counter(map(tuple, sampled(draw, semi_length, 200 * len(words))))
    assert set(drawn) == words
    if len(words) > 1:
        assert chisquare(list(drawn.values())).pvalue > 1e-3


def test_counts_are_catalan_numbers_and_their_complements():
    assert [dyck_count(n) for n in range(11)] == CATALAN
    for n in range(1, 30):
        assert dyck_count(n) + other_count(n) == comb(2 * n, n)


@pytest.mark.parametrize("semi_length", [12, 40])
def test_heights_of_long_words_have_their_exact_distribution(semi_length):
    """After n of 2n steps: the paths of n steps from 0 to a height, squared, over all."""
    paths = np.array(sampled(dyck_paths, semi_length, 4000))
    heights = np.cumsum(1 - 2 * paths, axis=1)
    assert (heights.min(axis=1) >= 0).all()
    assert (heights[:, -1] == 0).all()
    half = heights[:, semi_length - 1]
    ways = {0: 1}
    for _ in range(semi_length):
        after: Counter[int] = Counter()
        for height, number in ways.items():
            after[height + 1] += number
            if height:
                after[height - 1] += number
        ways = dict(after)
    total = dyck_count(semi_length)
    assert sum(number**2 for number in ways.values()) == total
    expected = {height: 4000 * number**2 / total for height, number in ways.items()}
    often = [height for height, number in expected.items() if number >= 20]
    observed = [int((half == height).sum()) for height in often]
    rest = 4000 - sum(observed), 4000 - sum(expected[height] for height in often)
    if rest[1] > 1:
        observed, by_hand = [*observed, rest[0]], [*(expected[h] for h in often), rest[1]]
    else:
        by_hand = [expected[h] * sum(observed) / sum(expected[h] for h in often) for h in often]
    assert chisquare(observed, by_hand).pvalue > 1e-3


@pytest.mark.parametrize("kinds", [1, 2, 3])
def test_labels_are_those_of_a_stack(kinds):
    task = make_task("dyck", kinds=kinds, train_lengths="1:9")
    assert (task.objective, task.layout, task.metric_set) == ("binary", "labels", "membership")
    words = make_task("dyck", kinds=kinds, labels="word").batch(1, "test", 5, 6)
    assert words.mask.sum(dim=1).tolist() == [1] * 6
    full = []
    for source, target in task.examples(2, "train", 0, 400):
        assert len(source) == len(target) <= 18
        by_hand = [int(is_dyck(source[:end])) for end in range(1, len(source) + 1)]
        assert [int(label) for label in target] == by_hand
        assert sum(symbol[0] == "u" for symbol in source) == len(source) // 2
        full.append(by_hand[-1])
    assert 150 < sum(full) < 250  # equal probabilities


@pytest.mark.parametrize("kinds", [2, 3])
def test_kinds_of_pairs_are_uniform_and_both_kinds_of_errors_occur(kinds):
    task = make_task("dyck", kinds=kinds)
    positive, sound_paths, others = Counter(), 0, 0
    for source, target in task.examples(5, "train", 0, 3000, LengthRange(2, 2)):
        shape = tuple(symbol[0] for symbol in source)
        if target[-1] == "1":
            positive[source] += 1
        else:
            others += 1
            if is_dyck(shape):  # one bracket has another kind
                opening, closing = ("".join(s[1:] for s in source if s[0] == c) for c in "ud")
                assert sorted(opening) != sorted(closing)
                sound_paths += 1
    assert len(positive) == 2 * kinds**2
    assert chisquare(list(positive.values())).pvalue > 1e-3
    assert abs(sound_paths - others / 2) < 100


def test_semi_lengths_are_uniform_or_in_proportion_to_the_words_of_a_label():
    for distribution in ("uniform", "catalan"):
        task = make_task("dyck", length_distribution=distribution)
        examples = task.examples(1, "train", 0, 6000)
        for label, count in (("1", dyck_count), ("0", other_count)):
            lengths = Counter(len(e.source) // 2 for e in examples if e.target[-1] == label)
            weights = [1 if distribution == "uniform" else count(n) for n in range(1, 6)]
            expected = [sum(lengths.values()) * weight / sum(weights) for weight in weights]
            assert chisquare([lengths[n] for n in range(1, 6)], expected).pvalue > 1e-3
    long = make_task("dyck", length_distribution="catalan")
    assert len(long.example(1, "train", 0, LengthRange(1, 3000)).source) > 5000


def test_labels_of_any_word_balanced_or_not():
    task = make_task("dyck")
    batch = task.labelled(np.array([[0, 0, 1, 1, 0, 1, 1]]), np.array([7]))
    assert batch.targets.tolist() == [[0, 0, 0, 1, 0, 1, 0]]
    assert task.heights(batch.inputs).tolist() == [[1, 2, 1, 0, 1, 0, -1]]
    two = make_task("dyck", kinds=2)
    words = two.labelled(np.array([[0, 1, 3, 2], [0, 1, 2, 3]]), np.array([4, 4]))
    assert words.targets.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert two.input_vocabulary == ("u1", "u2", "d1", "d2")


def test_a_runs_traced_words_are_one_of_each_class_of_twelve_symbols():
    traced = make_task("dyck", kinds=3).traced(1)
    assert [int(batch.targets[0, -1]) for batch in traced.values()] == [1, 0]
    assert all(batch.inputs.shape == (1, 12) for batch in traced.values())


def test_bad_options_together():
    with pytest.raises(ConfigError) as caught:
        make_task("dyck", kinds=0, labels="wrd", length_distribution="even", train_lengths="0:3")
    errors = caught.value.errors
    assert len(errors) == 4
    assert errors[0] == "kinds: expected an integer from 1 to 64, got 0"
    assert "unknown labels 'wrd'. Did you mean 'word'? Valid: prefixes, word." in errors[1]
    assert "unknown length distribution 'even'" in errors[2]
    assert "train_lengths: length range: the minimum must be an integer of at least 1" in errors[3]
