"""Tasks on bit vectors: copy, repeat copy, associative recall and priority sort.

A symbol is an integer whose bits are a network's inputs or outputs. Flags use higher bits than the
data. Source: Graves, Wayne & Danihelka 2014, arXiv:1410.5401, sections 4.1 to 4.3 and 4.5.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final

import numpy as np

from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, errors_of_ranges, named_ranges
from unbounded.tasks.randomness import Integers, Stream, bounded, whole_number
from unbounded.tasks.task import Example, Task


class BitTask(Task):
    """A task whose inputs and targets are integers that represent bits.

    Attributes:
        data_bits: bits of a vector.
        flags: names of the numbers above the vector's bits, 1, 2 and so on.
        ends: whether an extra bit, the highest of a target, marks the end of an answer.
    """

    layout = "answer"
    objective: ClassVar[str] = "bits"
    metric_set = "bits"
    data_bits: int

    def __init__(
        self,
        name: str,
        data_bits: int,
        flags: tuple[str, ...],
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        *,
        ends: bool = False,
    ) -> None:
        self.name, self.data_bits, self.flags, self.ends = name, data_bits, flags, ends
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        tokens = range(2**data_bits * (1 + len(flags)))
        self.input_vocabulary = tuple(self.input_name(token) for token in tokens)
        end = ("end",) if ends else ()
        self.output_vocabulary = (*(f"bit {place}" for place in range(data_bits)), *end)

    @property
    def flag(self) -> int:
        """The token of the first flag. The n-th flag is n times this token."""
        return int(2**self.data_bits)

    def symbol(self, token: int) -> str:
        """A token as text: its bits, the lowest first, and its flag, if any."""
        data, flag = token % self.flag, token // self.flag
        bits = "".join(str(data >> place & 1) for place in range(self.data_bits))
        if not flag:
            return bits
        return self.flags[flag - 1] + (f" {bits}" if data else "")

    def input_name(self, token: int) -> str:
        """An input token as text."""
        return self.symbol(token)

    @abstractmethod
    def draw(
        self, stream: Stream, indices: Integers, lengths: LengthRange
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Draw the examples at some indices. Each example depends only on its own random words.

        Returns:
            inputs and targets [B, T], the number of steps before the answer [B], and of the answer
            [B]; inputs are 0 in the answer, targets are 0 before it.
        """

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        inputs, targets, prompt_steps, answer = self._drawn(seed, split, start, size, lengths)
        step, steps = np.arange(inputs.shape[1]), prompt_steps + answer
        mask = (step >= prompt_steps[:, None]) & (step < steps[:, None])
        return batch_of(inputs, targets, mask, steps)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. Each symbol is written as the bits of a vector."""
        rows = zip(*self._drawn(seed, split, start, size, lengths), strict=True)
        return [
            Example(
                tuple(self.input_name(token) for token in inputs[:prompt_steps].tolist()),
                tuple(
                    self._output_name(token)
                    for token in targets[prompt_steps : prompt_steps + answer].tolist()
                ),
            )
            for inputs, targets, prompt_steps, answer in rows
        ]

    def _output_name(self, token: int) -> str:
        return "end" if self.ends and token >= self.flag else self.symbol(token)

    def _drawn(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Integers, Integers, Integers, Integers]:
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        return self.draw(stream, start + np.arange(size), chosen)


#: Limits for the bits of a vector and the copies of a sequence, because each symbol has a number
#: and a name.
MOST_BITS: Final = 12
MOST_REPEATS: Final = 1000
#: Limits for a priority sort. A symbol is a vector with a priority, and each symbol has a name.
MOST_SORTED_BITS: Final = 8
MOST_LEVELS: Final = 1024


def _checked(bits: int, **ranges: Lengths) -> tuple[LengthRange, ...]:
    """Return the ranges, or raise the errors of the ranges and of the bits together."""
    errors: list[str] = []
    with collected(errors):
        whole_number("bits", bits, 1, MOST_BITS)
    return named_ranges(*errors, **ranges)


def ntm_copy(
    bits: int = 8, train_lengths: Lengths = "1:20", test_lengths: Lengths = "21:120"
) -> BitCopy:
    """Copy bit vectors after a delimiter.

    Args:
        bits: of a vector, 1 to 12.
        train_lengths: vectors of a sequence of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.1.
    """
    train, test = _checked(bits, train_lengths=train_lengths, test_lengths=test_lengths)
    return BitCopy(bits, train, test)


def repeat_copy(
    bits: int = 8,
    train_repeats: Lengths = "1:10",
    test_repeats: Lengths = "1:10",
    train_lengths: Lengths = "1:10",
    test_lengths: Lengths = "11:20",
) -> RepeatCopy:
    """Copy bit vectors a given number of times, and then output the end symbol.

    Args:
        bits: of a vector, 1 to 12.
        train_repeats: copies of the split "train".
        test_repeats: copies of the splits "validation" and "test".
        train_lengths: vectors of a sequence of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.2.
    """
    train_copies, test_copies, train, test = _checked(
        bits,
        train_repeats=train_repeats,
        test_repeats=test_repeats,
        train_lengths=train_lengths,
        test_lengths=test_lengths,
    )
    errors = [
        f"{name}: expected at most {MOST_REPEATS} copies, got {repeats}"
        for name, repeats in (("train_repeats", train_copies), ("test_repeats", test_copies))
        if repeats.maximum > MOST_REPEATS
    ]
    if errors:
        raise ConfigError(errors)
    return RepeatCopy(bits, train_copies, test_copies, train, test)


def associative_recall(
    bits: int = 6, train_lengths: Lengths = "2:6", test_lengths: Lengths = "7:15"
) -> AssociativeRecall:
    """Recall the item that came after the queried one; an item is three bit vectors.

    Args:
        bits: of a vector, 1 to 12.
        train_lengths: items of a sequence of the split "train", at least 2.
        test_lengths: of the splits "validation" and "test", at least 2.

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.3.
    """
    train, test = _checked(bits, train_lengths=train_lengths, test_lengths=test_lengths)
    if errors := errors_of_ranges(_recalled_errors, train_lengths=train, test_lengths=test):
        raise ConfigError(errors)
    return AssociativeRecall(bits, train, test)


def _recalled_errors(lengths: LengthRange) -> list[str]:
    """The error in a range of lengths of associative recall, as a list of at most one line."""
    if lengths.minimum >= 2:
        return []
    return [f"a sequence has at least 2 items, the queried one and the next; got {lengths}"]


def vector_priority_sort(
    bits: int = 8,
    kept: int = 16,
    levels: int = 128,
    train_lengths: Lengths = "20:20",
    test_lengths: Lengths = "20:20",
) -> VectorPrioritySort:
    """Output the bit vectors of highest priority, in the order of their priorities.

    Args:
        bits: of a vector, 1 to 8.
        kept: number of vectors in the target, the highest priority first.
        levels: number of priorities, even: -1, -1 + 2/levels and so on, below 1. No two vectors of
            a sequence have the same one.
        train_lengths: vectors of a sequence of the split "train", from `kept` to `levels`.
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.5.
    """
    errors: list[str] = []
    for name, value, least, most in (
        ("bits", bits, 1, MOST_SORTED_BITS),
        ("kept", kept, 1, MOST_LEVELS),
        ("levels", levels, 2, MOST_LEVELS),
    ):
        with collected(errors):
            whole_number(name, value, least, most)
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    if levels % 2:
        errors.append(f"levels: expected an even number, got {levels}")
    errors += errors_of_ranges(
        lambda lengths: _sorted_errors(lengths, kept, levels),
        train_lengths=train,
        test_lengths=test,
    )
    if errors:
        raise ConfigError(errors)
    return VectorPrioritySort(bits, kept, levels, train, test)


def _sorted_errors(lengths: LengthRange, kept: int, levels: int) -> list[str]:
    """The error in a range of lengths of a priority sort, as a list of at most one line."""
    if kept <= lengths.minimum and lengths.maximum <= levels:
        return []
    return [
        f"expected from {kept} vectors, those of the target, to {levels}, one a priority; got "
        f"{lengths}"
    ]


#: Number of vectors in an item of associative recall.
ITEM = 3
_Drawn = tuple[Integers, Integers, Integers, Integers]


class BitCopy(BitTask):
    """Copy bit vectors: x_1 ... x_k, a delimiter, then k steps with targets x_1 ... x_k.

    Args:
        bits: bits of a vector, at least 1.
        train_lengths, test_lengths: k of the splits.
    Source: Graves et al. 2014, section 4.1.
    """

    def __init__(self, bits: int, train_lengths: LengthRange, test_lengths: LengthRange) -> None:
        super().__init__("ntm_copy", bits, ("end of input",), train_lengths, test_lengths)

    def draw(self, stream: Stream, indices: Integers, lengths: LengthRange) -> _Drawn:
        """See `BitTask.draw`. The number of steps T is 2 k + 1."""
        count, vectors = _vectors(stream, indices, lengths, self.data_bits)
        inputs = np.zeros((len(indices), 2 * vectors.shape[1] + 1), dtype=np.int64)
        targets = np.zeros_like(inputs)
        rows, places = np.nonzero(np.arange(vectors.shape[1]) < count[:, None])
        inputs[rows, places] = targets[rows, count[rows] + 1 + places] = vectors[rows, places]
        inputs[np.arange(len(indices)), count] = self.flag
        return inputs, targets, count + 1, count


class RepeatCopy(BitTask):
    """Copy bit vectors N times: x_1 ... x_k, the number N, N times x_1 ... x_k, and an end symbol.

    N is fed as a plain number in its own channel. (The paper shifts and scales N to mean 0 and
    variance 1.) The end symbol has its own bit.

    Args:
        bits: bits of a vector, at least 1.
        train_repeats, test_repeats: N of the split "train", and of the others.
        train_lengths, test_lengths: k of the splits.
    Source: Graves et al. 2014, section 4.2.
    """

    def __init__(
        self,
        bits: int,
        train_repeats: LengthRange,
        test_repeats: LengthRange,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
    ) -> None:
        most = max(train_repeats.maximum, test_repeats.maximum)
        flags = tuple(f"{number} times" for number in range(1, most + 1))
        super().__init__("repeat_copy", bits, flags, train_lengths, test_lengths, ends=True)
        self.repeats = {"train": train_repeats, "validation": test_repeats, "test": test_repeats}

    def draw(self, stream: Stream, indices: Integers, lengths: LengthRange) -> _Drawn:
        """See `BitTask.draw`. The number of steps T is k + 1 + N k + 1."""
        count, vectors = _vectors(stream, indices, lengths, self.data_bits)
        repeats = self.repeats[stream.split]
        _, choices = stream.words(indices, np.zeros(1, dtype=np.int64))
        times = repeats.minimum + bounded(choices, len(repeats))
        answer = times * count + 1
        inputs = np.zeros((len(indices), int((count + 1 + answer).max())), dtype=np.int64)
        targets = np.zeros_like(inputs)
        rows, places = np.nonzero(np.arange(vectors.shape[1]) < count[:, None])
        inputs[rows, places] = vectors[rows, places]
        rows_all = np.arange(len(indices))
        inputs[rows_all, count] = times * self.flag
        rows, places = np.nonzero(np.arange(int(answer.max())) < answer[:, None] - 1)
        symbols = vectors[rows, places % count[rows]]
        targets[rows, count[rows] + 1 + places] = symbols
        targets[rows_all, count + answer] = self.flag
        return inputs, targets, count + 1, answer


class AssociativeRecall(BitTask):
    """Recall the item that came after the queried one; an item is three bit vectors.

    Each item follows a delimiter. Then one item, but not the last, is repeated between two
    delimiters of another kind. The target is the three vectors of the item that followed. Two items
    are equal with probability 2**-18. The target then belongs to the item that was drawn.

    Args:
        bits: bits of a vector, at least 1; 6 in the paper.
        train_lengths, test_lengths: items of a sequence, at least 2.
    Raises:
        ConfigError: a range starts below 2, when examples of it are drawn.
    Source: Graves et al. 2014, section 4.3.
    """

    def __init__(self, bits: int, train_lengths: LengthRange, test_lengths: LengthRange) -> None:
        flags = ("item", "query")
        super().__init__("associative_recall", bits, flags, train_lengths, test_lengths)

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        return _recalled_errors(lengths)

    def draw(self, stream: Stream, indices: Integers, lengths: LengthRange) -> _Drawn:
        """See `BitTask.draw`. The number of steps T is 4 k + 8."""
        length_words, choices = stream.words(indices, np.zeros(1, dtype=np.int64))
        count = lengths.minimum + bounded(length_words, len(lengths))
        query = bounded(choices, count - 1)
        most = int(count.max())
        _, words = stream.sequence_words(indices, ITEM * most)
        items = bounded(words, self.flag).reshape(len(indices), most, ITEM)
        width = ITEM + 1
        before = width * count + width + 1
        inputs = np.zeros((len(indices), int(before.max()) + ITEM), dtype=np.int64)
        targets = np.zeros_like(inputs)
        rows, places = np.nonzero(np.arange(most) < count[:, None])
        inputs[rows, width * places] = self.flag
        rows_all, step = np.arange(len(indices)), np.arange(ITEM)
        inputs[rows[:, None], width * places[:, None] + 1 + step] = items[rows, places]
        for delimiter in (width * count, before - 1):
            inputs[rows_all, delimiter] = 2 * self.flag
        inputs[rows_all[:, None], width * count[:, None] + 1 + step] = items[rows_all, query]
        targets[rows_all[:, None], before[:, None] + step] = items[rows_all, query + 1]
        return inputs, targets, before, np.full_like(before, ITEM)


class VectorPrioritySort(BitTask):
    """Sort bit vectors: x_1 ... x_k with priorities, a delimiter, the vectors of highest priority.

    A symbol has three channels: the bits of a vector, the delimiter, and the priority as a number.
    Of L levels n = 0 .. L / 2 - 1 represents the priority 2 n / L, and the others 2 n / L - 2, as
    the model input "fraction" feeds it. The priorities in a sequence are a uniform subset of the
    levels in random order. The paper draws them uniformly from [-1, 1], where no two are equal. The
    paper mentions no delimiter.

    Args:
        bits: bits of a vector, at least 1.
        kept: vectors of a target, the highest priority first.
        levels: L, even.
        train_lengths, test_lengths: k of the splits, from `kept` to L.
    Raises:
        ConfigError: a range is out of these bounds, when examples of it are drawn.
    Source: Graves et al. 2014, section 4.5: 20 vectors, of which 16 are sorted.
    """

    def __init__(
        self,
        bits: int,
        kept: int,
        levels: int,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
    ) -> None:
        self.kept, self.levels = kept, levels
        names = [f"{_priority(number, levels):+.3g}" for number in range(levels)]
        flags = tuple(
            f"{'end of input ' if flag % 2 else ''}{names[flag // 2] if flag > 1 else ''}".strip()
            for flag in range(1, 2 * levels)
        )
        super().__init__("vector_priority_sort", bits, flags, train_lengths, test_lengths)

    def input_name(self, token: int) -> str:
        """See `BitTask.input_name`. A vector without a flag has priority 0."""
        name = self.symbol(token)
        return name if token >= self.flag else f"{_priority(0, self.levels):+g} {name}"

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        return _sorted_errors(lengths, self.kept, self.levels)

    def draw(self, stream: Stream, indices: Integers, lengths: LengthRange) -> _Drawn:
        """See `BitTask.draw`. The number of steps T is k + 1 + `kept`."""
        count, vectors = _vectors(stream, indices, lengths, self.data_bits)
        most = vectors.shape[1]
        blocks = _PRIORITIES_FROM + np.arange((self.levels + 1) // 2)
        pairs = np.stack(stream.words(indices[:, None], blocks), axis=-1)
        # A uniform order of the levels, of which the first levels belong to the vectors.
        order = pairs.reshape(len(indices), -1)[:, : self.levels].argsort(axis=1, kind="stable")
        numbers = order[:, :most]
        rows_all = np.arange(len(indices))
        inputs = np.zeros((len(indices), most + 1 + self.kept), dtype=np.int64)
        targets = np.zeros_like(inputs)
        rows, places = np.nonzero(np.arange(most) < count[:, None])
        inputs[rows, places] = vectors[rows, places] + 2 * self.flag * numbers[rows, places]
        inputs[rows_all, count] = self.flag
        priorities = _priority(numbers, self.levels)
        priorities[np.arange(most) >= count[:, None]] = -2  # below all
        highest = np.argsort(-priorities, axis=1, kind="stable")[:, : self.kept]
        steps = count[:, None] + 1 + np.arange(self.kept)
        targets[rows_all[:, None], steps] = np.take_along_axis(vectors, highest, axis=1)
        return inputs, targets, count + 1, np.full_like(count, self.kept)


# Random words for priorities are in blocks after all blocks for vectors.
_PRIORITIES_FROM = 2**31


def _priority(number: Any, levels: int) -> Any:
    """The priority of a level, in [-1, 1): 0 is 0, and the upper half is negative."""
    return 2 * number / levels - 2 * (2 * number >= levels)


def _vectors(
    stream: Stream, indices: Integers, lengths: LengthRange, bits: int
) -> tuple[Integers, Integers]:
    """The number of vectors of each example [B], and the vectors [B, K]."""
    length_words, words = stream.sequence_words(indices, lengths.maximum)
    count = lengths.minimum + bounded(length_words, len(lengths))
    return count, bounded(words[:, : int(count.max())], 2**bits)
