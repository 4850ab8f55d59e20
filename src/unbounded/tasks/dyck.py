"""Dyck words: samplers, classification of balanced words, and labels at each prefix.

Source: Deleu & Dureau 2016, arXiv:1612.00827, and the authors' program.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import comb
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbounded.checks import check_choice
from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, named_ranges
from unbounded.tasks.randomness import (
    Integers,
    Stream,
    Words,
    bounded,
    unit_floats,
    whole_number,
)
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.task import Example, Task, labelled_examples


def dyck_prefixes(train_lengths: Lengths = "2:24", test_lengths: Lengths = "25:48") -> DyckPrefixes:
    """Label whether each prefix of a bracket string is balanced.

    Args:
        train_lengths: brackets of a word of the split "train".
        test_lengths: brackets of a word of the splits "validation" and "test".

    Raises:
        ConfigError: a range is not valid; all errors together.
    """
    return DyckPrefixes(*named_ranges(train_lengths=train_lengths, test_lengths=test_lengths))


def dyck(
    kinds: int = 1,
    labels: str = "prefixes",
    length_distribution: str = "uniform",
    train_lengths: Lengths = "1:5",
    test_lengths: Lengths = "6:100",
) -> DyckMembership:
    """Classify balanced words as Dyck words or not. A word of length n has 2n symbols.

    Args:
        kinds: kinds of brackets, 1 to 64.
        labels: "prefixes" for a label at each prefix, or "word" for one at the last symbol alone.
        length_distribution: "uniform" draws n uniformly, as in the authors' program; "catalan" in
            proportion to the number of words, as the paper's text can be read.
        train_lengths: n of the split "train".
        test_lengths: n of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Deleu & Dureau 2016, arXiv:1612.00827.
    """
    errors = option_errors(kinds, labels, length_distribution)
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return DyckMembership(kinds, labels, length_distribution, train, test)


UP, DOWN = 0, 1
_LAST = np.uint64(2**64 - 1)


def dyck_count(semi_length: int) -> int:
    """Number of Dyck words with n steps up: the Catalan number C(2n, n) / (n + 1)."""
    return comb(2 * semi_length, semi_length) // (semi_length + 1)


def other_count(semi_length: int) -> int:
    """Number of balanced words with n steps up that are not Dyck words: C(2n, n - 1)."""
    return comb(2 * semi_length, semi_length - 1)


def dyck_paths(words: Words, semi_lengths: Integers) -> Integers:
    """Draw uniform Dyck words: n ups and n + 1 downs in random order, cut at the lowest point.

    Exactly one of the 2n + 1 rotations of such an order is a Dyck word followed by a step down (the
    cycle lemma). So every Dyck word results from the same number of orders.

    Args:
        words: random words, uint64 [B, at least 2 N + 1]; a row depends on its first 2n + 1 alone.
        semi_lengths: n of each row, int64 [B], in 1..N.
    Returns:
        steps 0 (up) or 1 (down), int64 [B, 2 N]; 0 beyond 2n.
    """
    steps, width = _ordered(words, semi_lengths, semi_lengths), 2 * int(semi_lengths.max())
    size = 2 * semi_lengths + 1
    heights = np.cumsum(1 - 2 * steps, axis=1)
    beyond = np.arange(steps.shape[1]) >= size[:, None]
    lowest = np.where(beyond, np.iinfo(np.int64).max, heights).argmin(axis=1)
    rotated = (lowest[:, None] + 1 + np.arange(width)) % size[:, None]
    path = np.take_along_axis(steps, rotated, axis=1)
    return _cut(path, semi_lengths)


def other_paths(words: Words, semi_lengths: Integers) -> Integers:
    """Draw uniform balanced words that are not Dyck words, by flipping steps after height -1.

    Every order of n - 1 ups and n + 1 downs reaches height -1. Flipping every later step is a
    bijection to the balanced words whose path goes below 0 (the reflection principle).

    Args:
        words: random words, uint64 [B, at least 2 N]; a row depends on its first 2n alone.
        semi_lengths: n of each row, int64 [B], in 1..N.
    Returns:
        steps 0 (up) or 1 (down), int64 [B, 2 N]; 0 beyond 2n.
    """
    steps = _ordered(words, semi_lengths - 1, semi_lengths)[:, : 2 * int(semi_lengths.max())]
    below = (np.cumsum(1 - 2 * steps, axis=1) < 0).argmax(axis=1)
    is_after = np.arange(steps.shape[1]) > below[:, None]
    return _cut(np.where(is_after, 1 - steps, steps), semi_lengths)


def _ordered(words: Words, ups: Integers, semi_lengths: Integers) -> Integers:
    """Draw a uniform order of `ups` ups and n + 1 downs, padded with 1, int64 [B, 2 N + 1]."""
    size = ups + semi_lengths + 1
    width = 2 * int(semi_lengths.max()) + 1
    drawn = np.where(np.arange(width) < size[:, None], words[:, :width], _LAST)
    # The places of the smallest random words are a uniform subset. Ties have a probability below
    # 2**-44.
    order = np.argsort(drawn, axis=1, kind="stable")
    steps = np.full(drawn.shape, DOWN, dtype=np.int64)
    rows, ranks = np.nonzero(np.arange(width) < ups[:, None])
    steps[rows, order[rows, ranks]] = UP
    return steps


def _cut(path: Integers, semi_lengths: Integers) -> Integers:
    return np.where(np.arange(path.shape[1]) < 2 * semi_lengths[:, None], path, UP)


DISTRIBUTIONS: Final = ("uniform", "catalan")
LABELS: Final = ("prefixes", "word")
#: Greatest number of bracket kinds, so that the number in a symbol stays readable.
MOST_KINDS: Final = 64
# Random words for the kinds of brackets are in blocks after all blocks for the order of steps.
_KINDS_FROM = 2**31
# Semi-length of the words in a run's figures, and number of candidates for these words.
_SHOWN, _LOOKED_AT = 6, 128


class DyckMembership(Task):
    """Classify balanced words as Dyck words or not.

    Lengths are semi-lengths n: a word has 2n symbols, n of them open. With probability 1/2 a word
    is a uniform Dyck word. Otherwise the word is a uniform balanced word that is not a Dyck word.
    With several kinds of brackets, each pair of a Dyck word has a uniform kind. A word that is not
    a Dyck word is drawn in one of two ways, with equal probabilities. The word is either a balanced
    word whose path goes below 0, with uniform kinds, or a uniform Dyck word with one closing
    bracket of a wrong kind.

    Symbols are u and d for one kind of bracket, and u1 to uk and d1 to dk for several kinds.
    Opening brackets come first: with one kind, u is 0 and d is 1.

    Args:
        kinds: kinds of brackets, 1 to 64.
        labels: "prefixes" for a label at each prefix (is it a Dyck word?), or "word" for one at the
            last symbol alone.
        length_distribution: "uniform" draws the semi-length uniformly, as in the authors' program.
            "catalan" draws it in proportion to the number of paths of that length and class. Words
            of one kind and label are then uniform over the whole range, as in the paper.
        train_lengths: semi-lengths of the split "train".
        test_lengths: of the splits "validation" and "test".
    Raises:
        ConfigError: an option is out of range; all errors together.
    """

    layout = "labels"
    objective = "binary"
    metric_set = "membership"
    has_path = True

    def __init__(
        self,
        kinds: int,
        labels: str,
        length_distribution: str,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
    ) -> None:
        errors = option_errors(kinds, labels, length_distribution)
        if errors:
            raise ConfigError(errors)
        self.name, self.kinds = "dyck", kinds
        self._every_prefix = labels == "prefixes"
        self._catalan = length_distribution == "catalan"
        numbers = ("",) if kinds == 1 else tuple(map(str, range(1, kinds + 1)))
        self.input_vocabulary = tuple(f"{letter}{number}" for letter in "ud" for number in numbers)
        self.output_vocabulary = ("Dyck word",)
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`. The number of steps T is twice the longest semi-length."""
        words, semi_lengths = self._draw(seed, split, start, size, lengths)
        return self.labelled(words, 2 * semi_lengths)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The target is the label of each prefix, or only of the full word."""
        batch = self.batch(seed, split, start, size, lengths)
        return labelled_examples(batch, self.input_vocabulary, "01")

    def traced(self, seed: int, lengths: LengthRange | None = None) -> dict[str, Batch]:
        """A Dyck word and a word that is not one, each of 12 symbols as in the paper's Figure 3."""
        drawn = self.batch(seed, "test", 0, _LOOKED_AT, LengthRange(_SHOWN, _SHOWN))
        last = drawn.targets[:, -1].tolist()
        chosen = {"dyck_word": last.index(1), "other_word": last.index(0)}
        return {
            name: Batch(*(field[row : row + 1] for field in drawn)) for name, row in chosen.items()
        }

    def heights(self, inputs: Tensor) -> Tensor:
        """See `Task.heights`.

        The heights form a path, which may go below 0 unless the word is Dyck.
        """
        return (1 - 2 * (inputs >= self.kinds).to(torch.int64)).cumsum(dim=1)

    def most_held(self, lengths: LengthRange) -> int:
        """See `Task.most_held`. The result is n, because n brackets may be open at once."""
        return lengths.maximum

    def count_of(self, length: int, symbols: int) -> int:
        """See `Task.count_of`. With labels at each prefix, all words count, balanced or not.

        With one label for each word, only balanced words count, in which half of the brackets open.
        """
        if length < 1:
            return 0
        if self._every_prefix:
            return int((2 * self.kinds) ** (2 * length))
        return int(comb(2 * length, length) * self.kinds ** (2 * length))

    def every(self, length: int, symbols: int) -> Batch:
        """See `Task.every`. Only the labels at a word's last two symbols are scored.

        The labels of shorter prefixes are scored in shorter words.
        """
        words = all_strings(2 * self.kinds, 2 * length)
        if not self._every_prefix:
            words = words[(words < self.kinds).sum(axis=1) == length]
        batch = self.labelled(words, np.full(len(words), 2 * length))
        mask = batch.mask & (torch.arange(2 * length) >= 2 * length - 2)
        return batch._replace(mask=mask, targets=batch.targets * mask)

    def labelled(self, words: Integers, steps: Integers) -> Batch:
        """Words with their labels.

        Args:
            words: tokens, int64 [B, T].
            steps: symbols of each word, int64 [B], in 1..T.
        """
        place = np.arange(words.shape[1])
        inside = place < steps[:, None]
        labels = prefix_labels(words, self.kinds) & inside
        mask = inside if self._every_prefix else place == steps[:, None] - 1
        return batch_of(words * inside, (labels & mask).astype(np.int64), mask, steps)

    def _draw(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers]:
        """Tokens [B, T] and semi-lengths [B]."""
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        indices = start + np.arange(size)
        length_words, choices = (
            words[:, 0] for words in stream.words(indices[:, None], np.zeros(1, dtype=np.int64))
        )
        choice = bounded(choices, 4)
        # With one kind no closing bracket can have another kind.
        positive, mismatched = choice >= 2, (choice == 1) & (self.kinds > 1)
        lowest = chosen.minimum
        if self._catalan:
            dyck, other = (_by_count(length_words, chosen, n) for n in (dyck_count, other_count))
            semi_lengths = lowest + np.where(positive | mismatched, dyck, other)
        else:
            semi_lengths = lowest + bounded(length_words, len(chosen))
        _, words = stream.sequence_words(indices, 2 * int(semi_lengths.max()) + 1)
        path = np.where(
            (positive | mismatched)[:, None],
            dyck_paths(words, semi_lengths),
            other_paths(words, semi_lengths),
        )
        if self.kinds == 1:
            return path, semi_lengths
        return self._with_kinds(path, semi_lengths, positive, mismatched, stream, indices)

    def _with_kinds(
        self,
        path: Integers,
        semi_lengths: Integers,
        positive: NDArray[np.bool_],
        mismatched: NDArray[np.bool_],
        stream: Stream,
        indices: Integers,
    ) -> tuple[Integers, Integers]:
        """Assign a kind to each bracket of paths [B, 2 N]."""
        blocks = _KINDS_FROM + np.arange(path.shape[1] // 2 + 1)
        pairs = np.stack(stream.words(indices[:, None], blocks), axis=-1)
        wrong_words, shift_words = pairs[:, 0, 0], pairs[:, 0, 1]
        drawn = bounded(pairs[:, 1:].reshape(len(indices), -1), self.kinds)
        opened = _opened_at(path)
        kinds = np.take_along_axis(drawn, opened, axis=1)
        kinds = np.where((positive | mismatched)[:, None], kinds, drawn)
        # The closing bracket with this number, counted from 0, is changed to another kind.
        number = bounded(wrong_words, semi_lengths)
        downs = (path == 1) & (np.arange(path.shape[1]) < 2 * semi_lengths[:, None])
        wrong = downs & (np.cumsum(downs, axis=1) == number[:, None] + 1) & mismatched[:, None]
        shift = 1 + bounded(shift_words, self.kinds - 1)
        kinds = np.where(wrong, (kinds + shift[:, None]) % self.kinds, kinds)
        return kinds + self.kinds * path, semi_lengths


def option_errors(kinds: int, labels: str, length_distribution: str) -> list[str]:
    """Errors in the options of `DyckMembership`, a line each."""
    errors: list[str] = []
    with collected(errors):
        whole_number("kinds", kinds, 1, MOST_KINDS)
    for kind, value, valid in (
        ("labels", labels, LABELS),
        ("length distribution", length_distribution, DISTRIBUTIONS),
    ):
        with collected(errors):
            check_choice(kind, value, valid)
    return errors


def prefix_labels(words: Integers, kinds: int) -> NDArray[np.bool_]:
    """Whether each prefix of words [B, T] is a Dyck word, for a number of bracket kinds."""
    closes = words >= kinds
    heights = np.cumsum(1 - 2 * closes.astype(np.int64), axis=1)
    is_prefix = np.minimum.accumulate(heights, axis=1) >= 0
    if kinds > 1:
        opening = np.take_along_axis(words, _opened_at(closes.astype(np.int64)), axis=1)
        is_prefix &= np.logical_and.accumulate(~closes | (words == opening + kinds), axis=1)
    labels: NDArray[np.bool_] = is_prefix & (heights == 0)
    return labels


def _opened_at(path: Integers) -> Integers:
    """Place of the bracket that each step closes [B, T]; the step itself if it closes none."""
    rows = np.arange(len(path))
    open_places = np.zeros((len(path), path.shape[1] + 1), dtype=np.int64)
    heights = np.zeros(len(path), dtype=np.int64)
    opened = np.empty_like(path)
    for step in range(path.shape[1]):
        closes = path[:, step] == 1
        top = np.maximum(heights - 1, 0)
        opened[:, step] = np.where(closes & (heights > 0), open_places[rows, top], step)
        open_places[rows, heights] = step
        heights = np.maximum(heights + np.where(closes, -1, 1), 0)
    return opened


def _by_count(words: Words, lengths: LengthRange, count: Callable[[int], int]) -> Integers:
    """Draw places in a range of lengths, with probabilities proportional to the counts."""
    counts = [count(length) for length in lengths]
    total = sum(counts)
    # These are Python integers, whose quotient is exact to the last bit of a float.
    bounds = [so_far / total for so_far in accumulate(counts)]
    return np.searchsorted(np.array(bounds[:-1]), unit_floats(words), side="right")


OPEN, CLOSE = 0, 1
# At height 0, one bracket in this many closes a bracket that was not opened. All later labels are
# then 0.
_ONE_OF = 16


class DyckPrefixes(Task):
    """Label whether each prefix of a bracket string is a Dyck word.

    A string is a random walk: brackets open and close with equal probabilities. At height 0, one
    bracket of 16 closes. The label of a prefix is 1 if every bracket is closed, and none was closed
    before it was opened.

    Args:
        train_lengths: brackets of a string of the split "train".
        test_lengths: of the splits "validation" and "test".
    """

    layout = "labels"
    objective = "binary"
    metric_set = "labels"

    def __init__(self, train_lengths: LengthRange, test_lengths: LengthRange) -> None:
        self.name = "dyck_prefixes"
        self.input_vocabulary = ("(", ")")
        self.output_vocabulary = ("balanced",)
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        words, labels, steps = self._draw(seed, split, start, size, lengths)
        mask = np.arange(words.shape[1]) < steps[:, None]
        return batch_of(words * mask, labels * mask, mask, steps)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The target is the label of each prefix."""
        batch = self.batch(seed, split, start, size, lengths)
        return labelled_examples(batch, self.input_vocabulary, "01")

    def count_of(self, length: int, symbols: int) -> int:
        """See `Task.count_of`. The result counts every string of brackets, balanced or not."""
        return int(2**length) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Batch:
        """See `Task.every`.

        Only the label of the full string is scored, not the labels of its prefixes.
        """
        words = all_strings(2, length)
        mask = np.broadcast_to(np.arange(length) == length - 1, words.shape)
        labels = prefix_labels(words, 1) & mask
        return batch_of(words, labels.astype(np.int64), mask, np.full(len(words), length))

    def _draw(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers, Integers]:
        """Strings and labels [B, T], and the length of each string [B]."""
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        indices = start + np.arange(size)
        length_words, words = stream.sequence_words(indices, chosen.maximum)
        steps = chosen.minimum + bounded(length_words, len(chosen))
        width = int(steps.max())
        drawn = bounded(words[:, :width], 2 * _ONE_OF)
        height = np.zeros(size, dtype=np.int64)
        brackets, labels = np.zeros((2, size, width), dtype=np.int64)
        is_prefix = np.ones(size, dtype=bool)
        for step in range(width):
            closes = np.where(height == 0, drawn[:, step] < 2, drawn[:, step] < _ONE_OF)
            is_prefix &= ~(closes & (height == 0))
            height = np.maximum(height + np.where(closes, -1, 1), 0)
            brackets[:, step] = np.where(closes, CLOSE, OPEN)
            labels[:, step] = is_prefix & (height == 0)
        return brackets, labels, steps
