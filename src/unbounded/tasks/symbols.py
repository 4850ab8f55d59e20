"""Copy, reversal, bigram flip and odd first: the target reorders random source symbols.

Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1; odd first: Yang & Rush 2017,
arXiv:1611.02854.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from unbounded.errors import ChoiceError, ConfigError
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
ODD_LENGTHS: Final = ("left_out", "padded")
PADDING: Final = "pad"


class RandomSymbols(PairSource):
    """Independent uniform symbols. The target has the same symbols in another order.

    The length is uniform over the range. Bigram flip has only even lengths. The paper requires even
    lengths and does not say how they are drawn. By default, lengths are uniform over the even
    numbers of the range. With `odd_lengths="padded"`, every length is drawn, and a source of odd
    length ends with the additional symbol "pad". Example i has the same symbols for every range of
    lengths, truncated to its length.

    Args:
        order: "copy", "reversal", "bigram_flip" or "odd_first".
        symbols: number of symbols, at least 1; the paper has 128. Both sides name them s0, s1, ...
        unit: number of symbols per unit of length: 2 for lengths in bigrams.
        drawn: number of symbols that occur, the first ones; None for all.
        odd_lengths: "left_out" or "padded"; of an order that needs even lengths.

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
        if order not in ORDERS:
            raise ChoiceError("order", order, ORDERS)
        if odd_lengths not in ODD_LENGTHS:
            raise ChoiceError("odd_lengths", odd_lengths, ODD_LENGTHS)
        self.order, self.unit = order, whole_number("unit", unit, 1, 2**31)
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.drawn = self.symbols if drawn is None else whole_number("drawn", drawn, 1, symbols)
        self.odd_lengths = odd_lengths
        self._needs_even = order in _EVEN_ONLY and self.unit % 2 == 1
        self._pads = self._needs_even and odd_lengths == "padded"
        padding = (PADDING,) if self._pads else ()
        self.source_vocabulary = (*(f"s{number}" for number in range(self.symbols)), *padding)
        self.target_vocabulary = self.source_vocabulary

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`."""
        step = 2 if self._needs_even and not self._pads else 1
        shortest = lengths.minimum + lengths.minimum % step
        count = (lengths.maximum - shortest) // step + 1
        if count < 1:
            raise ConfigError(
                f"lengths: {self.order} has only even lengths, and {lengths} contains none"
            )
        indices = start + np.arange(size)
        length_words, words = stream.sequence_words(indices, self.unit * lengths.maximum)
        chosen = self.unit * (shortest + step * bounded(length_words, count))
        width = int(chosen.max())
        source = bounded(words[:, :width], self.drawn)
        return self._ordered(source, chosen)

    @property
    def most_symbols(self) -> int:
        """See `PairSource.most_symbols`. The padding does not count."""
        return self.symbols

    def count_of(self, length: int, symbols: int) -> int:
        """See `PairSource.count_of`.

        The result counts every string if the order supports its length.
        """
        if length < 1 or (self._needs_even and not self._pads and length % 2):
            return 0
        return int(min(symbols, self.symbols) ** (self.unit * length))

    def over(self, symbols: int) -> RandomSymbols:
        """See `PairSource.over`."""
        few = min(symbols, self.symbols)
        return RandomSymbols(self.order, self.symbols, self.unit, few, self.odd_lengths)

    def every(self, length: int, symbols: int) -> Pairs:
        """See `PairSource.every`."""
        source = all_strings(min(symbols, self.symbols), self.unit * length)
        return self._ordered(source, np.full(len(source), self.unit * length))

    def _ordered(self, source: Integers, lengths: Integers) -> Pairs:
        """Pair sources [K, L] of the given lengths, padded if necessary, with their targets."""
        if self._pads:
            is_odd = lengths % 2 == 1
            source = np.pad(source, ((0, 0), (0, int(lengths.max() % 2))))
            source[is_odd, lengths[is_odd]] = self.symbols
            lengths = lengths + is_odd
        width = source.shape[1]
        places = ORDERS[self.order](np.arange(width), lengths[:, None])
        target = np.take_along_axis(source, np.clip(places, 0, width - 1), axis=1)
        return Pairs(source, lengths, target, lengths)


def all_strings(symbols: int, length: int) -> Integers:
    """Every string over the symbols, int64 [symbols ** length, length], in alphabetical order."""
    number = np.arange(symbols**length)[:, None]
    words: Integers = number // symbols ** np.arange(length - 1, -1, -1) % symbols
    return words
