"""N-grams against an oracle of dictionaries, counts by hand, and probabilities that sum to 1."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest

from tests.docs.pages import ROOT
from unbounded.errors import ConfigError
from unbounded.evaluation.ngrams import (
    CACHE_LENGTHS,
    CACHE_WEIGHTS,
    Discounts,
    NGramModel,
    cache_probabilities,
    discounts_of,
    ngram_result,
    perplexity_of,
    with_cache,
)
from unbounded.tasks import TextTask

WORDS, END = 6, 0
GIVEN = (Discounts(0.3, 0.5, 0.9), Discounts(0.4, 0.8, 1.1), Discounts(0.6, 1.0, 1.3))


def drawn_text(seed, steps):
    """A text of sentences, some of them empty, and some repeated."""
    generator = np.random.default_rng(seed)
    text = generator.choice(WORDS, size=steps, p=[0.2, 0.3, 0.2, 0.15, 0.1, 0.05])
    return np.concatenate([text, [1, 2, 3, END, 1, 2, 3, END, END]])


class Oracle:
    """Kneser-Ney in plain dictionaries: sentences are tuples, and a start is "<s>"."""

    def __init__(self, text, order, discounts):
        self.order, self.discounts = order, discounts
        sentences, sentence = [], ["<s>"]
        for token in text.tolist():
            sentence.append(token)
            if token == END:
                sentences.append(tuple(sentence))
                sentence = ["<s>"]
        if len(sentence) > 1:
            sentences.append(tuple(sentence))
        of_text = Counter(
            sentence[stop - length : stop]
            for sentence in sentences
            for length in range(1, order + 1)
            for stop in range(length, len(sentence) + 1)
        )
        self.counts = {}
        for gram, count in of_text.items():
            if gram == ("<s>",):
                continue
            if len(gram) < order and gram[0] != "<s>":
                count = sum(longer[1:] == gram for longer in of_text)
            self.counts[gram] = count

    def probability(self, context, word):
        """The probability of a word after a context, the context's oldest word first."""
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        shorter = self.probability(context[1:], word) if context else 1 / WORDS
        own = {
            gram: count for gram, count in self.counts.items() if gram[:-1] == context and count > 0
        }
        total = sum(own.values())
        if not total:
            return shorter
        takes = self.discounts[len(context)]

        def taken(count):
            return takes[min(count, 3) - 1] if count else 0.0

        count = own.get((*context, word), 0)
        rest = sum(map(taken, own.values()))
        return (count - taken(count) + rest * shorter) / total


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_probabilities_are_those_of_the_oracle(seed, order):
    text, other = drawn_text(seed, 60), drawn_text(seed + 100, 40)
    model = NGramModel(text, WORDS, END, order, discounts=GIVEN[:order])
    oracle = Oracle(text, order, GIVEN)
    context, expected = ["<s>"], []
    for token in other.tolist():
        expected.append(oracle.probability(context, token))
        context = ["<s>"] if token == END else [*context, token]
    np.testing.assert_allclose(model.probabilities(other), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_sum_to_one_after_every_context(order):
    text = drawn_text(4, 60)
    discounts = (*GIVEN, *GIVEN)[:order]
    model = NGramModel(text, WORDS, END, order, discounts=discounts)
    contexts = [[]] + [[a] for a in range(WORDS)]
    contexts += [[a, b] for a in range(WORDS) for b in range(WORDS)]
    contexts += [[a, b, c] for a in range(1, WORDS) for b in range(1, WORDS) for c in range(WORDS)]
    contexts += [text[:place].tolist() for place in range(len(text))]
    for context in contexts:
        total = sum(model.probabilities(np.array([*context, word]))[-1] for word in range(WORDS))
        assert total == pytest.approx(1, abs=1e-12), context


def test_a_bigram_by_hand():
    # <s> 1 2 <eos>, <s> 1 2 <eos>, <s> 2 <eos>; discounts of 1/2 and 3/4.
    text = np.array([1, 2, 0, 1, 2, 0, 2, 0])
    half, more = Discounts(0.5, 0.5, 0.5), Discounts(0.75, 0.75, 0.75)
    model = NGramModel(text, 3, 0, 2, discounts=[half, more])
    # Words that precede: 1 has <s>; 2 has 1 and <s>; <eos> has 2. Together 4.
    unigram = {
        1: (1 - 0.5) / 4 + 1.5 / 4 / 3,
        2: (2 - 0.5) / 4 + 1.5 / 4 / 3,
        0: (1 - 0.5) / 4 + 1.5 / 4 / 3,
    }
    # After <s> there are 1 twice and 2 once; after 1 there is 2 twice.
    expected = [
        (2 - 0.75) / 3 + 1.5 / 3 * unigram[1],
        (2 - 0.75) / 2 + 0.75 / 2 * unigram[2],
        (3 - 0.75) / 3 + 0.75 / 3 * unigram[0],
    ]
    np.testing.assert_allclose(model.probabilities(np.array([1, 2, 0])), expected, rtol=1e-12)


def test_discounts_by_hand():
    counts = np.repeat([1, 2, 3, 4, 9], [8, 4, 2, 1, 5])
    share = 8 / (8 + 2 * 4)
    expected = (1 - 2 * share * 4 / 8, 2 - 3 * share * 2 / 4, 3 - 4 * share * 1 / 2)
    assert discounts_of(counts) == pytest.approx(expected)
    assert discounts_of(counts, modified=False) == pytest.approx((share, share, share))


def test_a_cache_is_the_share_among_the_words_before():
    text = np.array([1, 1, 2, 1, 3, 2])
    assert cache_probabilities(text, 100).tolist() == pytest.approx([0, 1, 0, 2 / 3, 0, 1 / 5])
    assert cache_probabilities(text, 2).tolist() == pytest.approx([0, 1, 0, 1 / 2, 0, 0])
    alone = np.full(6, 0.2)
    mixed = with_cache(alone, cache_probabilities(text, 100), 0.5)
    assert mixed.tolist() == pytest.approx([0.2, 0.6, 0.1, 0.1 + 1 / 3, 0.1, 0.2])
    assert alone.tolist() == [0.2] * 6
    assert perplexity_of(alone) == pytest.approx(5)


def text_task(seed):
    generator = np.random.default_rng(seed)

    def words(steps):
        numbers = generator.zipf(1.3, size=steps) % 1500
        return ["<eos>" if number < 2 else f"w{number}" for number in numbers]

    known = [f"w{number}" for number in range(2, 1500)]
    return TextTask(
        "text",
        {"train": [*words(4000), *known, "<eos>"], "validation": words(600), "test": words(600)},
    )


def test_validation_chooses_the_cache_and_the_test_text_does_not():
    task = text_task(1)
    result = ngram_result(task, 2)
    assert result.cache_length in CACHE_LENGTHS
    assert result.cache_weight in CACHE_WEIGHTS
    assert result.validation_cache <= result.validation * 1.001

    texts = {s: task.batch(0, s, 0, 1).targets[0].numpy() for s in ("train", "validation", "test")}
    other = {s: [task.input_vocabulary[token] for token in texts[s]] for s in texts}
    other["test"] = other["test"][::-1]
    changed = ngram_result(TextTask("text", other), 2)
    assert changed.test != result.test
    chosen = ("discounts", "validation", "cache_length", "cache_weight", "validation_cache")
    assert [getattr(changed, name) for name in chosen] == [getattr(result, name) for name in chosen]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 6, 0), "text: expected tokens, got an empty text"),
        (([1, 2, 0], 6, 0, 2), r"counts: no n-gram occurs \d times"),
        (([1, 2, 0], 6, 0, 0), "order"),
        (([1, 2, 0], 0, 0), "words"),
    ],
)
def test_invalid_arguments_are_errors(arguments, message):
    text, *rest = arguments
    with pytest.raises(ConfigError, match=message):
        NGramModel(np.array(text, dtype=np.int64), *rest)


def test_discounts_are_one_for_each_order():
    with pytest.raises(ConfigError, match="discounts: expected 2, one for each order, got 1"):
        NGramModel(np.array([1, 0]), 2, 0, 2, discounts=GIVEN[:1])


def test_the_figures_of_the_pages_are_those_of_the_result():
    table = json.loads((ROOT / "results/joulin2015-ngrams/table.json").read_text("utf-8"))
    rows = {(row["order"], row["modified"]): row for row in table["rows"]}
    best = min(table["rows"], key=lambda row: row["validation"])
    chosen = rows[5, True]
    assert chosen["validation"] - best["validation"] < 1
    page = (ROOT / "docs/reproducing/joulin2015.md").read_text("utf-8")
    assert f"| measured | {chosen['test']:.1f} | {chosen['test_cache']:.1f} |" in page
    notebook = (ROOT / "docs/notebook/joulin2015_penn_treebank.md").read_text("utf-8")
    for (order, modified), row in rows.items():
        name = "modified" if modified else "one discount"
        names = ("validation", "test", "validation_cache", "test_cache")
        figures = " | ".join(f"{row[each]:.1f}" for each in names)
        cache = f"{row['cache_length']}, {row['cache_weight']}"
        assert f"| {order}, {name} | {figures} | {cache} |" in notebook
    assert math.isclose(table["published"]["test"], chosen["test"], rel_tol=0.01)
