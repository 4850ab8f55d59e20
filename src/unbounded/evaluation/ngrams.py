"""N-grams with Kneser-Ney smoothing and a cache of words: a baseline for texts without a network.

Sources: Kneser & Ney 1995; Chen & Goodman 1999, "An empirical study of smoothing techniques for
language modeling", section 3; Kuhn & De Mori 1990 for the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbounded.errors import ConfigError
from unbounded.tasks.randomness import Integers, whole_number
from unbounded.tasks.text import END_OF_SENTENCE, TextTask

Floats: TypeAlias = NDArray[np.float64]

#: Cache lengths and weights from which the validation text selects.
CACHE_LENGTHS: Final = (50, 100, 150, 200, 300, 400, 500, 1000, 2000, 5000)
CACHE_WEIGHTS: Final = tuple(round(0.01 * step, 2) for step in range(1, 31))
#: Limits for words and lengths, because a key of 64 bits holds the product of a word and an
#: n-gram's number.
MOST_WORDS: Final = 2**31
MOST_STEPS: Final = 2**31
_UNKNOWN: Final = -1


class Discounts(NamedTuple):
    """The discounts that are subtracted from a count of 1, of 2, and of 3 or more.

    Source: Chen & Goodman 1999, section 3; of one discount for all counts, Y = n_1 / (n_1 + 2 n_2).
    """

    one: float
    two: float
    more: float


def discounts_of(counts: Integers, *, modified: bool = True) -> Discounts:
    """Estimate discounts from the counts of counts.

    Y = n_1 / (n_1 + 2 n_2);  D_1 = 1 - 2 Y n_2/n_1,  D_2 = 2 - 3 Y n_3/n_2,  D_3+ = 3 - 4 Y n_4/n_3

    Args:
        counts: of the distinct n-grams of an order, each at least 1.
        modified: three discounts; otherwise all three are Y.
    Raises:
        ConfigError: no n-gram has one of the counts 1 to 4 (without `modified` 1 or 2), so that the
            text is too short to estimate discounts.
    """
    one, two, three, four = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    needed = (one, two, three, four) if modified else (one, two)
    if 0 in needed:
        raise ConfigError(
            f"counts: no n-gram occurs {needed.index(0) + 1} times, so the discounts cannot be "
            "estimated. Give a longer text, or the discounts"
        )
    share = one / (one + 2 * two)
    if not modified:
        return Discounts(share, share, share)
    return Discounts(
        1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three
    )


class _Order(NamedTuple):
    """The n-grams of one order k, and their contexts.

    Fields:
        keys: sorted keys of the distinct n-grams: the context's number times (V + 1), plus the
            word. An n-gram's number is its place here.
        discounted: count less discount of each n-gram, [K].
        total: sum of the counts of each context, [C].
        left: sum of the discounts of each context, [C].
    """

    keys: Integers
    discounted: Floats
    total: Floats
    left: Floats


class NGramModel:
    """Interpolated Kneser-Ney smoothing of any order, modified or with one discount.

    p(w | h) = (c(hw) - D(c(hw))) / sum_v c(hv) + gamma(h) p(w | h')
    gamma(h) = sum_v D(c(hv)) / sum_v c(hv);  h' is h without its oldest word

    For words without a context, the next lower distribution is 1 / V for each word.

    An n-gram of the highest order counts its occurrences in the text. In lower orders an n-gram
    counts the distinct words that precede it. An n-gram at the start of a sentence has no preceding
    word, so it counts its occurrences. No context crosses the end of a sentence.

    Args:
        text: token of each step, int64 [T], 0 to `words` - 1.
        words: V, the size of the vocabulary.
        end: the token that ends a sentence.
        order: the longest n-gram, at least 1.
        modified: three discounts an order (Chen & Goodman); otherwise one (Kneser & Ney).
        discounts: of the orders 1, 2, ...; None to estimate them from the text.

    Raises:
        ConfigError: a number is out of range, the text is empty or too short to estimate discounts,
            or there are not as many discounts as orders.
    """

    def __init__(
        self,
        text: Integers,
        words: int,
        end: int,
        order: int = 5,
        *,
        modified: bool = True,
        discounts: Sequence[Discounts] | None = None,
    ) -> None:
        self.words = whole_number("words", words, 1, MOST_WORDS)
        self.order = whole_number("order", order, 1, MOST_STEPS)
        self.end = end
        if not len(text):
            raise ConfigError("text: expected tokens, got an empty text")
        if discounts is not None and len(discounts) != order:
            raise ConfigError(
                f"discounts: expected {order}, one for each order, got {len(discounts)}"
            )
        tokens, age = _with_starts(text, words, end)
        self._orders: list[_Order] = []
        self.discounts: list[Discounts] = []
        numbers = [np.zeros(len(tokens), dtype=np.int64)]  # the empty context has number 0
        keys, firsts = [], []
        for length in range(1, order + 1):
            key = _keys(numbers[-1], tokens, age, length, words)
            own, first, number = np.unique(key[key >= 0], return_index=True, return_inverse=True)
            numbers.append(np.full(len(tokens), _UNKNOWN))
            numbers[-1][key >= 0] = number
            keys.append(own)
            firsts.append(np.flatnonzero(key >= 0)[first])
        for length in range(1, order + 1):
            own, first, number = keys[length - 1], firsts[length - 1], numbers[length]
            counts = np.bincount(number[number >= 0], minlength=len(own))
            if length < order:
                longer = number[firsts[length]]  # the n-grams at the end of longer ones
                before = np.bincount(longer, minlength=len(own))
                starts = age[first] == length - 1  # the n-gram starts with the sentence's start
                counts = np.where(starts, counts, before)
            if length == 1:
                counts[own == words] = 0  # the start symbol of a sentence is never predicted
            positive = counts[counts > 0]
            known = (
                discounts_of(positive, modified=modified)
                if discounts is None
                else discounts[length - 1]
            )
            self.discounts.append(known)
            taken = np.array([0.0, *known])[np.minimum(counts, 3)]
            context = own // (words + 1)
            size = len(keys[length - 2]) if length > 1 else 1
            total = np.bincount(context, counts, minlength=size).astype(np.float64)
            left = np.bincount(context, taken, minlength=size).astype(np.float64)
            self._orders.append(_Order(own, counts - taken, total, left))

    def probabilities(self, text: Integers) -> Floats:
        """The probability of each token given the previous tokens in its sentence, [T].

        Args:
            text: tokens, int64 [T]; a sentence starts at the first one and after each end.
        """
        tokens, age = _with_starts(text, self.words, self.end)
        probability = np.full(len(tokens), 1 / self.words)
        number = np.zeros(len(tokens), dtype=np.int64)
        for length, order in enumerate(self._orders, start=1):
            key = _keys(number, tokens, age, length, self.words)
            context = np.where(key >= 0, key // (self.words + 1), 0)
            place = np.minimum(np.searchsorted(order.keys, key), len(order.keys) - 1)
            is_known = order.keys[place] == key
            number = np.where(is_known, place, _UNKNOWN)
            total = order.total[context]
            own = np.where(is_known, order.discounted[place], 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                mixed = (own + order.left[context] * probability) / total
            probability = np.where((key >= 0) & (total > 0), mixed, probability)
        return probability[tokens < self.words]


def _with_starts(text: Integers, words: int, end: int) -> tuple[Integers, Integers]:
    """Return a text with the token V before each sentence, and the tokens' places in sentences."""
    starts = np.flatnonzero(np.concatenate([[True], text[:-1] == end]))
    tokens = np.insert(text, starts, words)
    begun = np.maximum.accumulate(np.where(tokens == words, np.arange(len(tokens)), 0))
    return tokens, np.arange(len(tokens)) - begun


def _keys(numbers: Integers, tokens: Integers, age: Integers, length: int, words: int) -> Integers:
    """Keys of the n-grams of a length that end at each token; -1 if n-gram or context is unknown.

    Args:
        numbers: numbers of the n-grams one shorter that end at each token, -1 for none.
        age: place of each token in its sentence.
    """
    if length == 1:
        return tokens.astype(np.int64)
    context = np.concatenate([[_UNKNOWN], numbers[:-1]])
    key: Integers = np.where(
        (age >= length - 1) & (context >= 0), context * (words + 1) + tokens, _UNKNOWN
    )
    return key


def cache_probabilities(text: Integers, length: int) -> Floats:
    """The share of each token among the previous `length` tokens, or all previous tokens, [T].

    The share for the first token is 0.
    """
    length = whole_number("length", length, 1, MOST_STEPS)
    counts: dict[int, int] = {}
    shares = np.zeros(len(text))
    for place, token in enumerate(text.tolist()):
        shares[place] = counts.get(token, 0) / max(1, min(place, length))
        counts[token] = counts.get(token, 0) + 1
        if place >= length:
            counts[int(text[place - length])] -= 1
    return shares


def with_cache(probabilities: Floats, cache: Floats, weight: float) -> Floats:
    """(1 - weight) p + weight p_cache, [T]; the first token has no history and keeps p."""
    mixed = (1 - weight) * probabilities + weight * cache
    mixed[:1] = probabilities[:1]
    return mixed


def perplexity_of(probabilities: Floats) -> float:
    """Return the exponential of the mean of -log p."""
    return float(np.exp(-np.log(probabilities).mean()))


class NGramResult(NamedTuple):
    """Perplexities of a text with n-grams, without and with a cache.

    Fields:
        discounts: of the orders 1, 2, ...
        validation, test: of the n-grams.
        cache_length, cache_weight: the cache that has the least perplexity on validation.
        validation_cache, test_cache: of the n-grams with this cache.
    """

    discounts: list[Discounts]
    validation: float
    test: float
    cache_length: int
    cache_weight: float
    validation_cache: float
    test_cache: float


def ngram_result(task: TextTask, order: int = 5, *, modified: bool = True) -> NGramResult:
    """Count n-grams in the training text and score the other texts; validation selects the cache.

    Example:
        >>> ngram_result(read_penn_treebank("DIR")).test  # doctest: +SKIP

    Args:
        task: a text, from `read_penn_treebank` or `read_text`.
        order: the longest n-gram.
        modified: see `NGramModel`.
    Raises:
        ConfigError: see `NGramModel`.
    """
    vocabulary = task.input_vocabulary
    texts = {
        split: task.batch(0, split, 0, 1).targets[0].numpy()
        for split in ("train", "validation", "test")
    }
    end = vocabulary.index(END_OF_SENTENCE)
    model = NGramModel(texts["train"], len(vocabulary), end, order, modified=modified)
    validation = model.probabilities(texts["validation"])
    test = model.probabilities(texts["test"])
    tried = []
    for length in CACHE_LENGTHS:
        cache = cache_probabilities(texts["validation"], length)
        tried += [
            (perplexity_of(with_cache(validation, cache, weight)), length, weight)
            for weight in CACHE_WEIGHTS
        ]
    validation_cache, length, weight = min(tried)
    test_cache = with_cache(test, cache_probabilities(texts["test"], length), weight)
    return NGramResult(
        model.discounts,
        perplexity_of(validation),
        perplexity_of(test),
        length,
        weight,
        validation_cache,
        perplexity_of(test_cache),
    )
