"""Dynamic N-grams: bits from a table of probabilities that is new in each sequence.

Source: Graves, Wayne & Danihelka 2014, arXiv:1410.5401, section 4.4.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unbounded.errors import collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, named_ranges
from unbounded.tasks.pcfg import Floats
from unbounded.tasks.randomness import (
    Integers,
    bounded,
    unit_floats,
    whole_number,
)
from unbounded.tasks.task import Example, Task

BEGIN: Final = "<s>"
#: Limit of N, because a table has 2**(N - 1) probabilities.
MOST_ORDER: Final = 12


def optimal_probabilities(bits: Integers, order: int) -> Floats:
    """The probability that each bit is 1, according to the optimal Bayesian estimator.

    P(1 | context) = (N_1 + 1/2) / (N_1 + N_0 + 1)                                    (10)

    N_1 and N_0 count how often a 1 and a 0 have followed earlier occurrences of the last
    `order` - 1 bits. The first `order` - 1 bits have no context and the probability 1/2.

    Args:
        bits: 0 or 1, int64 [B, T].
        order: N, at least 1.
    Returns:
        float64 [B, T].
    Source: Graves et al. 2014, section 4.4, eq. 10; Murphy 2012, section 3.3.
    """
    batch, steps = bits.shape
    counts = np.zeros((batch, 2 ** (order - 1), 2))
    rows, context = np.arange(batch), np.zeros(batch, dtype=np.int64)
    probabilities = np.full((batch, steps), 0.5)
    for step in range(steps):
        if step >= order - 1:
            zeros, ones = counts[rows, context].T
            probabilities[:, step] = (ones + 0.5) / (ones + zeros + 1)
            counts[rows, context, bits[:, step]] += 1
        context = (2 * context + bits[:, step]) % 2 ** (order - 1)
    return probabilities


class DynamicNGrams(Task):
    """Predict each bit of a sequence from an N-gram source, which only the sequence itself reveals.

    Each sequence has its own table. For each of the 2**(N - 1) contexts, it holds the probability
    of a 1, drawn from Beta(1/2, 1/2). The first N - 1 bits are fair. Each later bit is drawn
    according to the N - 1 bits before it. Inputs are <s> and all bits except the last. Targets are
    all bits.

    The probability of a sequence, averaged over all tables, is the product of the optimal
    estimator's predictions. So the metric set `above_bound` compares a network with that estimator.

    Args:
        order: N, 1 to 12.
        train_lengths, test_lengths: bits of a sequence of the splits.
    Source: Graves et al. 2014, section 4.4.
    """

    layout = "labels"
    metric_set = "above_bound"
    is_determined = False
    name = "dynamic_ngrams"
    start_symbol = BEGIN

    def __init__(self, order: int, train_lengths: LengthRange, test_lengths: LengthRange) -> None:
        self.order = whole_number("order", order, 1, MOST_ORDER)
        self.input_vocabulary = (BEGIN, "0", "1")
        self.output_vocabulary = ("0", "1")
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`. The number of steps T is the number of bits of the longest sequence."""
        bits, steps = self._drawn(seed, split, start, size, lengths)
        mask = np.arange(bits.shape[1]) < steps[:, None]
        inputs = np.zeros_like(bits)
        inputs[:, 1:] = bits[:, :-1] + 1
        return batch_of(inputs * mask, bits * mask, mask, steps)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`.

        The targets are empty, because each bit is predicted from the bits before.
        """
        rows = zip(*self._drawn(seed, split, start, size, lengths), strict=True)
        return [Example(tuple(map(str, bits[:steps].tolist())), ()) for bits, steps in rows]

    def log_probabilities(self, batch: Batch, lengths: LengthRange) -> Floats:
        """The log probability of each sequence given its length, averaged over all tables.

        Args:
            batch: sequences of this task.
            lengths: without effect: no end is predicted.
        Returns:
            float64 [B], in nats.
        """
        bits = batch.targets.numpy()
        ones = optimal_probabilities(bits, self.order)
        logs = np.log(np.where(bits == 1, ones, 1 - ones))
        sums: Floats = (logs * batch.mask.numpy()).sum(axis=1)
        return sums

    def _drawn(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers]:
        """Bits [B, T] and the number of bits of each sequence [B]."""
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        contexts = 2 ** (self.order - 1)
        length_words, words = stream.sequence_words(
            start + np.arange(size), contexts + chosen.maximum
        )
        steps = chosen.minimum + bounded(length_words, len(chosen))
        uniform = unit_floats(words[:, : contexts + int(steps.max())])
        # The squared sine of a uniform angle has the distribution Beta(1/2, 1/2).
        table, uniform = np.sin(np.pi / 2 * uniform[:, :contexts]) ** 2, uniform[:, contexts:]
        bits = np.zeros(uniform.shape, dtype=np.int64)
        rows, context = np.arange(size), np.zeros(size, dtype=np.int64)
        for step in range(uniform.shape[1]):
            ones = table[rows, context] if step >= self.order - 1 else 0.5
            bits[:, step] = uniform[:, step] < ones
            context = (2 * context + bits[:, step]) % contexts
        return bits, steps


def dynamic_ngrams(
    order: int = 6, train_lengths: Lengths = "200:200", test_lengths: Lengths = "200:200"
) -> DynamicNGrams:
    """Predict bits of an N-gram source that is new in each sequence.

    Args:
        order: N, 1 to 12: a bit depends on the N - 1 bits before it.
        train_lengths: bits of a sequence of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.4.
    """
    errors: list[str] = []
    with collected(errors):
        whole_number("order", order, 1, MOST_ORDER)
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return DynamicNGrams(order, train, test)
