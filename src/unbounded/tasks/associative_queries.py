"""Multi-query associative recall: pairs of a key and a value, then queries with some keys.

Source: Arora et al. 2023, "Zoology", arXiv:2312.04927, section 4 and appendix, and the authors'
program.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, errors_of_ranges, named_ranges
from unbounded.tasks.randomness import (
    Integers,
    Stream,
    bounded,
    unit_floats,
    whole_number,
)
from unbounded.tasks.task import Example, Task

#: Greatest numbers of symbols, of steps for each pair, and of pairs.
MOST_SYMBOLS: Final = 65536
MOST_STEPS: Final = 1000
MOST_PAIRS: Final = 10_000
#: Target of a step without a query, in `examples`.
NOTHING: Final = "-"


class AssociativeQueries(Task):
    """Read D pairs of a key and a value; then output the value of each key that is queried.

    Keys and values are distinct symbols, drawn uniformly: keys from the lower half of the symbols
    without 0, values from the upper half. After the pairs, each key is queried once, at an even
    distance from the pairs. Distances 2g are drawn without replacement, with probabilities
    proportional to (g + 1)^(power - 1). All other steps have uniform random symbols, which may
    equal a key, and no target.
    The length of an example is D, its number of pairs.

    Args:
        symbols: number of symbols.
        steps: steps of a sequence for each pair, at least 4.
        power: exponent of the distances' power law, above 0; small ones prefer short distances.
        train_lengths, test_lengths: D of the splits.
    Attributes:
        chance: the share of correct symbols of a guess.
    Raises:
        ConfigError: an option is out of range, or a range has more pairs than there are keys; all
            errors together.
    Source: Arora et al. 2023, arXiv:2312.04927.
    """

    layout = "labels"
    metric_set = "by_length"
    name = "mqar"

    def __init__(
        self,
        symbols: int,
        steps: int,
        power: float,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
    ) -> None:
        errors: list[str] = []
        for name, value, least, most in (
            ("symbols", symbols, 4, MOST_SYMBOLS),
            ("steps", steps, 4, MOST_STEPS),
        ):
            with collected(errors):
                whole_number(name, value, least, most)
        is_number = isinstance(power, int | float) and not isinstance(power, bool)
        if not is_number or not 0 < power <= 10:
            errors.append(f"power: expected a number above 0, at most 10, got {power!r}")
        if errors:
            raise ConfigError(errors)
        self.symbols, self.steps, self.power = symbols, steps, float(power)
        errors = errors_of_ranges(
            self._range_errors, train_lengths=train_lengths, test_lengths=test_lengths
        )
        if errors:
            raise ConfigError(errors)
        self.chance = 1 / (symbols - symbols // 2)
        self.input_vocabulary = tuple(f"s{number}" for number in range(symbols))
        self.output_vocabulary = self.input_vocabulary
        self.train_lengths, self.test_lengths = train_lengths, test_lengths

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`. The number of steps T is `steps` times the greatest number of pairs."""
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        indices = start + np.arange(size)
        pairs = chosen.minimum + bounded(stream.length_words(indices), len(chosen))
        inputs = np.zeros((size, self.steps * int(pairs.max())), dtype=np.int64)
        targets, mask = np.zeros_like(inputs), np.zeros(inputs.shape, dtype=bool)
        for count in np.unique(pairs).tolist():
            rows = np.flatnonzero(pairs == count)
            width = self.steps * count
            inputs[rows, :width], targets[rows, :width], mask[rows, :width] = self._draw(
                stream, indices[rows], count
            )
        return batch_of(inputs, targets, mask, self.steps * pairs)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. A target is a value, or "-" at a step without a query."""
        batch = self.batch(seed, split, start, size, lengths)
        names = self.input_vocabulary
        rows = zip(*(field.tolist() for field in batch), strict=True)
        return [
            Example(
                tuple(names[symbol] for symbol in inputs[:steps]),
                tuple(
                    names[target] if counts else NOTHING
                    for target, counts in zip(targets[:steps], mask[:steps], strict=True)
                ),
            )
            for inputs, targets, mask, steps in rows
        ]

    def most_held(self, lengths: LengthRange) -> int:
        return 2 * lengths.maximum

    def _draw(self, stream: Stream, indices: Integers, pairs: int) -> tuple[Integers, ...]:
        """Inputs, targets and mask of sequences with `pairs` pairs, each [B, steps * pairs]."""
        steps, half = self.steps * pairs, self.symbols // 2
        room = (steps - 2 * pairs) // 2
        sizes = (half - 1, self.symbols - half, room, steps)
        _, words = stream.sequence_words(indices, sum(sizes))
        key_words, value_words, gap_words, filling = np.split(words, np.cumsum(sizes)[:-1], axis=1)
        keys = 1 + np.argsort(key_words, axis=1, kind="stable")[:, :pairs]
        values = half + np.argsort(value_words, axis=1, kind="stable")[:, :pairs]
        # The least exponential times divided by weights are draws without replacement: Efraimidis &
        # Spirakis 2006.
        weights = np.arange(1.0, room + 1) ** (self.power - 1)
        times = -np.log1p(-unit_floats(gap_words)) / weights
        gaps = np.argsort(times, axis=1, kind="stable")[:, :pairs]
        rows = np.arange(len(indices))[:, None]
        inputs = bounded(filling, self.symbols)
        inputs[:, 0 : 2 * pairs : 2], inputs[:, 1 : 2 * pairs : 2] = keys, values
        asked = 2 * pairs + 2 * gaps
        inputs[rows, asked] = keys
        targets, mask = np.zeros_like(inputs), np.zeros_like(inputs)
        targets[rows, asked], mask[rows, asked] = values, 1
        return inputs, targets, mask

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        most = min(self.symbols // 2 - 1, MOST_PAIRS)
        if lengths.maximum <= most:
            return []
        return [
            f"length range: expected at most {most} pairs, the keys among {self.symbols} symbols, "
            f"got {lengths}"
        ]


def mqar(
    symbols: int = 256,
    steps: int = 8,
    power: float = 0.01,
    train_lengths: Lengths = "4:16",
    test_lengths: Lengths = "17:64",
) -> AssociativeQueries:
    """Recall the values of keys that are queried among other symbols.

    Args:
        symbols: number of symbols, half of them keys and half values; the paper has 8192.
        steps: steps of a sequence for each pair, at least 4; the paper's least is 8.
        power: exponent of the distances' power law; small ones prefer short distances.
        train_lengths: numbers of pairs of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Arora et al. 2023, arXiv:2312.04927.
    """
    train, test = named_ranges(train_lengths=train_lengths, test_lengths=test_lengths)
    return AssociativeQueries(symbols, steps, power, train, test)
