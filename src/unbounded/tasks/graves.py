"""Copy, repeat copy and associative recall of bit vectors.

Source: Graves, Wayne & Danihelka 2014, arXiv:1410.5401, sections 4.1 to 4.3.
"""

from __future__ import annotations

import numpy as np

from unbounded.errors import ConfigError
from unbounded.tasks.bit_vectors import BitTask
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded

#: Vectors of an item of associative recall.
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
        """See `BitTask.draw`; T is 2 k + 1."""
        count, vectors = _vectors(stream, indices, lengths, self.data_bits)
        inputs = np.zeros((len(indices), 2 * vectors.shape[1] + 1), dtype=np.int64)
        targets = np.zeros_like(inputs)
        rows, places = np.nonzero(np.arange(vectors.shape[1]) < count[:, None])
        inputs[rows, places] = targets[rows, count[rows] + 1 + places] = vectors[rows, places]
        inputs[np.arange(len(indices)), count] = self.flag
        return inputs, targets, count + 1, count


class RepeatCopy(BitTask):
    """Copy bit vectors N times: x_1 ... x_k, the number N, then N times x_1 ... x_k, and the end.

    N is fed as a plain number in its own channel (the paper shifts and scales it to mean 0 and
    variance 1); the end has its own bit.

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
        """See `BitTask.draw`; T is k + 1 + N k + 1."""
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

    Each item follows a delimiter. Then one of them, but not the last, is repeated between two
    delimiters of another kind; the target is the next item's three vectors. Two items are equal
    with probability 2**-18; the target then belongs to the drawn one.

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

    def draw(self, stream: Stream, indices: Integers, lengths: LengthRange) -> _Drawn:
        """See `BitTask.draw`; T is 4 k + 8."""
        if lengths.minimum < 2:
            raise ConfigError(
                [
                    f"lengths: a sequence has at least 2 items, the queried one and the next; got "
                    f"{lengths}"
                ]
            )
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


def _vectors(
    stream: Stream, indices: Integers, lengths: LengthRange, bits: int
) -> tuple[Integers, Integers]:
    """The number of vectors of each example [B], and the vectors [B, K]."""
    length_words, words = stream.sequence_words(indices, lengths.maximum)
    count = lengths.minimum + bounded(length_words, len(lengths))
    return count, bounded(words[:, : int(count.max())], 2**bits)
