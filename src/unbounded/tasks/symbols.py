"""Copy, reversal and bigram flip: random symbols, put out in another order.

Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import Integers, Stream, bounded, whole_number
from unbounded.tasks.transduction import Pairs, PairSource

# For target place j [L] and source length k [B, 1]: the source place whose symbol stands there.
ORDERS: Final[dict[str, Callable[[Integers, Integers], Integers]]] = {
    "copy": lambda place, length: place + 0 * length,
    "reversal": lambda place, length: length - 1 - place,
    "bigram_flip": lambda place, length: (place ^ 1) + 0 * length,
}
_EVEN_ONLY = frozenset({"bigram_flip"})


class RandomSymbols(PairSource):
    """Symbols drawn independently and uniformly; the target has them in another order.

    The length is uniform over the range. Bigram flip has even lengths only: uniform over the even
    numbers of the range (the paper asks for even lengths and does not say how they are drawn).
    Example i has the same symbols for every range of lengths, cut off at its length.

    Args:
        order: "copy", "reversal" or "bigram_flip".
        symbols: number of symbols, at least 1; the paper has 128. Both sides name them s0, s1, ...

    Raises:
        ChoiceError: there is no such order.
        ConfigError: `symbols` is no integer or out of range.
    """

    def __init__(self, order: str, symbols: int = 128) -> None:
        if order not in ORDERS:
            raise ChoiceError("order", order, ORDERS)
        self.order = order
        self.symbols = whole_number("symbols", symbols, 1, 2**31)
        self.source_vocabulary = tuple(f"s{number}" for number in range(self.symbols))
        self.target_vocabulary = self.source_vocabulary

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`."""
        step = 2 if self.order in _EVEN_ONLY else 1
        shortest = lengths.minimum + lengths.minimum % step
        count = (lengths.maximum - shortest) // step + 1
        if count < 1:
            raise ConfigError([f"lengths: {self.order} has even lengths only, {lengths} has none"])
        indices = start + np.arange(size)
        length_words, words = stream.sequence_words(indices, lengths.maximum)
        chosen = shortest + step * bounded(length_words, count)
        width = int(chosen.max())
        source = bounded(words[:, :width], self.symbols)
        places = ORDERS[self.order](np.arange(width), chosen[:, None])
        target = np.take_along_axis(source, np.clip(places, 0, width - 1), axis=1)
        return Pairs(source, chosen, target, chosen)
