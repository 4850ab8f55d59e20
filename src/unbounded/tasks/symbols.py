"""Sources of pairs: random symbols, reordered, repeated or sorted, and numbers, doubled or added.

Repeated copies and priority sort have unary numbers in the source, with a mark for each unit.
Doubled and added numbers are decimal, with the lowest digit first.

Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1; odd first, repeated copies and
priority sort: Yang & Rush 2017, arXiv:1611.02854, and their program (which uses the start symbol as
the mark; here the mark is a symbol of its own); numbers: Yang 2016, arXiv:1602.08671.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np

from unbounded.checks import check_choice
from unbounded.errors import ConfigError
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded, whole_number
from unbounded.tasks.transduction import Pairs, PairSource

# Maps target place j [L] and source length k [B, 1] to the source place of the same symbol.
ORDERS: Final[dict[str, Callable[[Integers, Integers], Integers]]] = {
    "copy": lambda place, length: place + 0 * length,
    "reversal": lambda place, length: length - 1 - place,
    "bigram_flip": lambda place, length: (place ^ 1) + 0 * length,
    # The first, third, fifth ... symbol, then the second, fourth ...
    "odd_first": lambda place, length: (
        2 * place - np.where(2 * place < length, 0, (length + 1) // 2 * 2 - 1)
    ),
}
_EVEN_ONLY = frozenset({"bigram_flip"})
#: How odd draws are treated if an order needs even lengths.
ODD_LENGTHS: Final = ("left_out", "padded", "unpaired")
PADDING: Final = "pad"


class RandomSymbols(PairSource):
    """Independent uniform symbols. The target has the same symbols in another order.

    The length is uniform over the range. Bigram flip has only even lengths. The paper requires even
    lengths and does not say how they are drawn. By default, lengths are uniform over the even
    numbers of the range. With `odd_lengths="padded"`, every length is drawn, and a source of odd
    length ends with the additional symbol "pad". With "unpaired", every length is drawn too, and a
    source of odd length stays as it is. Its target has one more symbol, a random partner of the
    last symbol, which nothing predicts. Example i has the same symbols for every range of
    lengths, truncated to its length.

    Args:
        order: "copy", "reversal", "bigram_flip" or "odd_first".
        symbols: number of symbols, at least 1; the paper has 128. Both sides name them s0, s1, ...
        unit: number of symbols per unit of length: 2 for lengths in bigrams.
        drawn: number of symbols that occur, the first ones; None for all.
        odd_lengths: "left_out", "padded" or "unpaired"; of an order that needs even lengths.

    Raises:
        ChoiceError: there is no such order or choice.
        ConfigError: `symbols`, `unit` or `drawn` is not an integer, or is out of range.
    """

    def __init__(
        self,
        order: str,
        symbols: int = 128,
        unit: int = 1,
        drawn: int | None = None,
        odd_lengths: str = "left_out",
    ) -> None:
        check_choice("order", order, ORDERS)
        check_choice("odd_lengths", odd_lengths, ODD_LENGTHS)
        self.order, self.unit = order, whole_number("unit", unit, 1, 2**31)
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.drawn = self.symbols if drawn is None else whole_number("drawn", drawn, 1, symbols)
        self.odd_lengths = odd_lengths
        self._needs_even = order in _EVEN_ONLY and self.unit % 2 == 1
        self._pads = self._needs_even and odd_lengths == "padded"
        self._unpaired = self._needs_even and odd_lengths == "unpaired"
        self._even_only = self._needs_even and odd_lengths == "left_out"
        padding = (PADDING,) if self._pads else ()
        self.source_vocabulary = (*(f"s{number}" for number in range(self.symbols)), *padding)
        self.target_vocabulary = self.source_vocabulary

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        step = 2 if self._even_only else 1
        shortest = lengths.minimum + lengths.minimum % step
        count = (lengths.maximum - shortest) // step + 1
        if count < 1:
            raise ConfigError(
                f"lengths: expected an even length, because odd_lengths is left_out, got {lengths}."
                " Set odd_lengths to padded or unpaired to draw odd lengths."
            )
        indices = start + np.arange(size)
        most = self.unit * lengths.maximum + self._unpaired
        length_words, words = stream.sequence_words(indices, most)
        chosen = self.unit * (shortest + step * bounded(length_words, count))
        source = bounded(words[:, : int(chosen.max()) + self._unpaired], self.drawn)
        return self._ordered(source, chosen)

    @property
    def most_symbols(self) -> int:
        """See `PairSource.most_symbols`. The padding does not count."""
        return self.symbols

    def count_of(self, length: int, symbols: int) -> int:
        """See `PairSource.count_of`.

        The result counts every string if the order supports its length.
        """
        if length < 1 or (self._even_only and length % 2):
            return 0
        return int(min(symbols, self.symbols) ** self._drawn_symbols(length))

    def over(self, symbols: int) -> RandomSymbols:
        few = min(symbols, self.symbols)
        return RandomSymbols(self.order, self.symbols, self.unit, few, self.odd_lengths)

    def every(self, length: int, symbols: int) -> Pairs:
        source = all_strings(min(symbols, self.symbols), self._drawn_symbols(length))
        return self._ordered(source, np.full(len(source), self.unit * length))

    def _ordered(self, source: Integers, lengths: Integers) -> Pairs:
        """Pair sources [K, L] of the given lengths, padded if necessary, with their targets.

        An unpaired source has its partner at the place after its last symbol.
        """
        target_lengths = lengths + lengths % 2 if self._needs_even else lengths
        if self._pads:
            is_odd = target_lengths > lengths
            source = np.pad(source, ((0, 0), (0, int(lengths.max() % 2))))
            source[is_odd, lengths[is_odd]] = self.symbols
            lengths = target_lengths
        width = source.shape[1]
        places = ORDERS[self.order](np.arange(width), target_lengths[:, None])
        target = np.take_along_axis(source, np.clip(places, 0, width - 1), axis=1)
        return Pairs(source, lengths, target, target_lengths)

    def _drawn_symbols(self, length: int) -> int:
        """The number of random symbols in a pair of a given length."""
        return self.unit * length + (length % 2 if self._unpaired else 0)


def all_strings(symbols: int, length: int) -> Integers:
    """Every string over the symbols, int64 [symbols ** length, length], in alphabetical order."""
    number = np.arange(symbols**length)[:, None]
    words: Integers = number // symbols ** np.arange(length - 1, -1, -1) % symbols
    return words


DIGITS = tuple("0123456789")


class _Sums(PairSource):
    """Numbers of k digits, each uniform in 0 .. 10^k - 1, and their sum in k + 1 digits.

    All are zero-padded and written lowest digit first, as in both papers. (The second paper's
    program writes the highest digit first.)
    """

    source_vocabulary = target_vocabulary = DIGITS
    _numbers: ClassVar[int]

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`. The length of a pair is k."""
        indices, numbers = start + np.arange(size), self._numbers
        length_words, words = stream.sequence_words(indices, numbers * lengths.maximum)
        count = lengths.minimum + bounded(length_words, len(lengths))
        width = numbers * int(count.max())
        digits = bounded(words[:, :width], 10)
        return self._with_sums(
            np.where(np.arange(width) < numbers * count[:, None], digits, 0), count
        )

    def count_of(self, length: int, symbols: int) -> int:
        """See `PairSource.count_of`. The result counts numbers whose digits are below `symbols`."""
        return int(min(symbols, 10) ** (self._numbers * length)) if length > 0 else 0

    def every(self, length: int, symbols: int) -> Pairs:
        digits = all_strings(min(symbols, 10), self._numbers * length)
        return self._with_sums(digits, np.full(len(digits), length))

    def _with_sums(self, digits: Integers, count: Integers) -> Pairs:
        """Pair digits [B, numbers K], with 0 beyond `numbers` times k in each row, with sums."""
        sums = digits[:, :: self._numbers] + digits[:, self._numbers - 1 :: self._numbers]
        return Pairs(digits, self._numbers * count, carried(sums), count + 1)


class Doubled(_Sums):
    """A number, and twice this number."""

    _numbers = 1


class Added(_Sums):
    """Two numbers, whose digits alternate, x_1 y_1 x_2 y_2 ..., and their sum."""

    _numbers = 2


def carried(sums: Integers) -> Integers:
    """Carry the tens to the next place: digits [B, K + 1] of sums [B, K], 0..19."""
    digits = np.zeros((len(sums), sums.shape[1] + 1), dtype=np.int64)
    carry = np.zeros(len(sums), dtype=np.int64)
    for place in range(sums.shape[1]):
        total = sums[:, place] + carry
        digits[:, place], carry = total % 10, total // 10
    digits[:, -1] = carry
    return digits


MARK: Final = "mark"
#: Limits for the number of copies and of items to sort. A source of k items has k (k + 1) / 2
#: symbols.
MOST_COPIES: Final = 10_000
MOST_ITEMS: Final = 1000


class RepeatedSymbols(PairSource):
    """N marks, then independent uniform symbols. The target repeats the symbols N times.

    Args:
        symbols: number of symbols, at least 1; they are named s0, s1, ...
        sequence_length: symbols of a sequence, at least 1.
    Raises:
        ConfigError: a number is not an integer, or is out of range.
    """

    def __init__(self, symbols: int = 128, sequence_length: int = 20) -> None:
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.sequence_length = whole_number("sequence_length", sequence_length, 1, 100_000)
        self.target_vocabulary = tuple(f"s{number}" for number in range(self.symbols))
        self.source_vocabulary = (*self.target_vocabulary, MARK)

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`. The length of a pair is N."""
        indices = start + np.arange(size)
        length = self.sequence_length
        length_words, words = stream.sequence_words(indices, length)
        times = lengths.minimum + bounded(length_words, len(lengths))
        symbols = bounded(words, self.symbols)
        most = int(times.max())
        source = np.full((size, most + length), self.symbols)
        place = times[:, None] + np.arange(length)
        np.put_along_axis(source, place, symbols, axis=1)
        return Pairs(source, times + length, np.tile(symbols, (1, most)), times * length)

    def range_errors(self, lengths: LengthRange) -> list[str]:
        return most_error(lengths, MOST_COPIES, "copies")


class PrioritySort(PairSource):
    """k items in random order, each as p marks (its priority p) and a symbol. The target is sorted.

    The priorities are 0 to k - 1, each once. The target starts with the symbol of the item without
    a mark. Symbols are drawn independently and uniformly.

    Args:
        symbols: number of symbols, at least 1; they are named s0, s1, ...
    Raises:
        ConfigError: `symbols` is not an integer, or is out of range.
    """

    def __init__(self, symbols: int = 128) -> None:
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.target_vocabulary = tuple(f"s{number}" for number in range(self.symbols))
        self.source_vocabulary = (*self.target_vocabulary, MARK)

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`.

        The length of a pair is k; its source has k (k + 1) / 2 symbols.
        """
        indices = start + np.arange(size)
        # The symbol and the place of an item have their own random words, which do not depend on
        # the greatest k.
        length_words, words = stream.sequence_words(indices, 2 * lengths.maximum)
        count = lengths.minimum + bounded(length_words, len(lengths))
        width = int(count.max())
        target = bounded(words[:, 0 : 2 * width : 2], self.symbols)
        is_item = np.arange(width) < count[:, None]
        order = np.where(is_item, words[:, 1 : 2 * width : 2], np.uint64(2**64 - 1))
        # shown[b, place]: the priority of the item at that place.
        shown = np.argsort(order, axis=1, kind="stable")
        ends = np.cumsum(np.where(is_item, shown + 1, 0), axis=1)
        source = np.full((size, int(ends[:, -1].max())), self.symbols)
        symbols = np.take_along_axis(target, shown, axis=1)
        rows, places = np.nonzero(is_item)
        source[rows, ends[rows, places] - 1] = symbols[rows, places]
        return Pairs(source, ends[:, -1], target, count)

    def range_errors(self, lengths: LengthRange) -> list[str]:
        return most_error(lengths, MOST_ITEMS, "items")


def most_error(lengths: LengthRange, most: int, what: str) -> list[str]:
    """The error of a range that exceeds `most`, as a list of at most one line."""
    if lengths.maximum <= most:
        return []
    return [f"length range: expected k of at most {most} {what}, got {lengths}"]
