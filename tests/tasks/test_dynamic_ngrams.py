"""Dynamic N-grams: the source against its rule, and the bound against an oracle."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import beta, binom, chisquare, kstest

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets import METRIC_SETS
from unbounded.tasks import DynamicNGrams, make_task, optimal_probabilities


def oracle(bits, order):
    """log P of bits over all tables: a Beta function for each context, by log gamma alone."""
    counts = defaultdict(lambda: [0, 0])
    for step in range(order - 1, len(bits)):
        counts[tuple(bits[step - order + 1 : step])][bits[step]] += 1

    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    total = -min(order - 1, len(bits)) * math.log(2)
    return total + sum(
        log_beta(ones + 0.5, zeros + 0.5) - log_beta(0.5, 0.5) for zeros, ones in counts.values()
    )


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_bound_is_the_probability_over_all_tables(order):
    task = make_task("dynamic_ngrams", order=order, train_lengths="1:60")
    batch = task.batch(3, "train", 0, 50)
    logs = task.log_probabilities(batch, task.train_lengths)
    for bits, mask, log in zip(batch.targets, batch.mask, logs, strict=True):
        assert log == pytest.approx(oracle(bits[mask].tolist(), order), abs=1e-9)


def test_the_probabilities_of_all_sequences_sum_to_one():
    sequences = np.array([[number >> place & 1 for place in range(9)] for number in range(512)])
    for order in (1, 2, 3, 12):
        ones = optimal_probabilities(sequences, order)
        products = np.where(sequences == 1, ones, 1 - ones).prod(axis=1)
        assert products.sum() == pytest.approx(1, abs=1e-12)


def test_equation_10_by_hand():
    # Bigrams: after 1 come 1, 1, 0, 1; after 0 comes 1.
    found = optimal_probabilities(np.array([[1, 1, 1, 0, 1, 1]]), 2)[0].tolist()
    assert found == pytest.approx([1 / 2, 1 / 2, 1.5 / 2, 2.5 / 3, 1 / 2, 2.5 / 4])


def test_no_other_predictions_are_better_on_average():
    """Counts smoothed otherwise lose on sequences of the source."""
    task = make_task("dynamic_ngrams", order=3)
    bits = task.batch(1, "test", 0, 500).targets.numpy()
    best = optimal_probabilities(bits, 3)
    own = -np.log(np.where(bits == 1, best, 1 - best)).sum(axis=1).mean()
    for power in (0.8, 1.2):
        odds = (best / (1 - best)) ** power
        other = odds / (1 + odds)
        assert -np.log(np.where(bits == 1, other, 1 - other)).sum(axis=1).mean() > own


def test_a_bit_depends_on_the_bits_before_it_alone():
    """Each context's share of ones has the distribution of a table from Beta(1/2, 1/2)."""
    task = make_task("dynamic_ngrams", order=2, train_lengths="4000:4000")
    shares = []
    for bits in task.batch(5, "train", 0, 60).targets.numpy():
        for context in (0, 1):
            following = bits[1:][bits[:-1] == context]
            if len(following) > 800:
                shares.append(following.mean())
    # Contexts that a table leaves at once are missing, so the middle of the distribution counts.
    middle = [share for share in shares if 0.2 < share < 0.8]
    law = beta(0.5, 0.5)
    width = law.cdf(0.8) - law.cdf(0.2)
    assert len(middle) > 20
    assert kstest(middle, lambda x: (law.cdf(x) - law.cdf(0.2)) / width).pvalue > 1e-3


def test_one_grams_are_coins_of_beta():
    task = make_task("dynamic_ngrams", order=1, train_lengths="400:400")
    ones = task.batch(7, "train", 0, 2000).targets.numpy().sum(axis=1) / 400
    assert kstest(ones, beta(0.5, 0.5).cdf).pvalue > 1e-3


def test_first_bits_are_fair():
    task = make_task("dynamic_ngrams", order=4, train_lengths="3:3")
    bits = task.batch(1, "train", 0, 4000).targets.numpy()
    numbers = bits @ [4, 2, 1]
    assert chisquare(np.bincount(numbers, minlength=8)).pvalue > 1e-3
    assert abs(bits.sum() - 6000) < 4 * binom(12000, 0.5).std()


def test_a_batch_has_the_bits_as_inputs_one_step_late():
    task = make_task("dynamic_ngrams", train_lengths="3:30")
    batch = task.batch(2, "train", 10, 20)
    examples = task.examples(2, "train", 10, 20)
    for row, (inputs, targets, mask, steps) in enumerate(zip(*batch, strict=True)):
        assert mask.sum() == steps
        assert mask[:steps].all()
        assert not inputs[steps:].any()
        assert not targets[steps:].any()
        assert inputs[:steps].tolist() == [0, *(targets[: steps - 1] + 1).tolist()]
        assert examples[row].source == tuple(str(bit) for bit in targets[:steps].tolist())
        assert examples[row].target == ()
    assert set(batch.lengths.tolist()) <= set(range(3, 31))


def test_defaults_are_those_of_the_paper():
    task = make_task("dynamic_ngrams")
    assert isinstance(task, DynamicNGrams)
    assert task.order == 6
    assert set(task.batch(1, "train", 0, 5).lengths.tolist()) == {200}
    assert task.metric_set in METRIC_SETS


def test_all_errors_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        make_task("dynamic_ngrams", order=13, train_lengths="9:1")
    assert len(caught.value.errors) == 2
    assert "order: expected an integer from 1 to 12, got 13" in caught.value.errors[0]
