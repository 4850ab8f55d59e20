"""Random numbers as a function of (seed, split, index, block), without state.

The generator is Philox4x32-10, a keyed bijection of 128-bit counters. The seed is the key; split,
example index and block are the counter. Different (split, index, block) are different counters, so
with one seed they never share a draw. A worker that draws only example 10 000 gets the same example
as a worker that drew all examples before it.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unbounded.checks import check_choice
from unbounded.errors import ConfigError

Words: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]

SPLITS: Final = {"train": 0, "validation": 1, "test": 2}
LAST_SEED: Final = 2**64 - 1
LAST_INDEX: Final = 2**63 - 1

_ROUNDS = 10
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FLOAT_SHIFT = np.uint64(11)


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> list[Words]:
    """Encrypt counters with ten rounds of Philox on words of 32 bits.

    Args:
        counter: four arrays that broadcast to one shape; uint64, each value below 2**32.
        key: two words of 32 bits.

    Returns:
        four arrays of that shape, uint64, each value below 2**32.
    Source: Salmon et al. 2011, section 4.4; agrees with the known answers of Random123.
    """
    shape = np.broadcast_shapes(*(word.shape for word in counter))
    c0, c1, c2, c3 = (np.array(np.broadcast_to(word, shape)) for word in counter)
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    k0, k1 = key
    for _ in range(_ROUNDS):
        np.multiply(c0, _MULTIPLIER_0, out=p0)
        np.multiply(c2, _MULTIPLIER_1, out=p1)
        np.right_shift(p1, _HALF, out=c0)
        np.bitwise_xor(c0, c1, out=c0)
        np.bitwise_xor(c0, np.uint64(k0), out=c0)
        np.right_shift(p0, _HALF, out=c2)
        np.bitwise_xor(c2, c3, out=c2)
        np.bitwise_xor(c2, np.uint64(k1), out=c2)
        np.bitwise_and(p1, _LOW, out=c1)
        np.bitwise_and(p0, _LOW, out=c3)
        k0 = (k0 + _WEYL_0) & 0xFFFFFFFF
        k1 = (k1 + _WEYL_1) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def bounded(words: Words, count: int | Integers) -> Integers:
    """Integers 0..count-1 from words of 64 bits, as the upper part of the 96-bit products.

    The probability of each value differs from 1/count by at most 2**-64, and is exact if count is a
    power of two.

    Args:
        words: uniform words, uint64 of any shape.
        count: number of values, 1..2**31; one for all, or an array that broadcasts.
    """
    factor = np.asarray(count).astype(np.uint64)
    low = ((words & _LOW) * factor) >> _HALF
    return (((words >> _HALF) * factor + low) >> _HALF).astype(np.int64)


def unit_floats(words: Words) -> NDArray[np.float64]:
    """Floats in [0, 1), multiples of 2**-53, from words of 64 bits (uint64 of any shape)."""
    return (words >> _FLOAT_SHIFT).astype(np.float64) * 2.0**-53


def whole_number(name: str, value: Any, minimum: int, maximum: int) -> int:
    """Return `value` as an int of `minimum`..`maximum`.

    Raises:
        ConfigError: it is not an integer, or out of range; the message has `name`.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not minimum <= number <= maximum:
        expected = f"an integer from {minimum} to {maximum}"
        raise ConfigError(f"{name}: expected {expected}, got {value!r}")
    return number


@dataclass(frozen=True)
class Stream:
    """The random words for one seed and one split.

    Args:
        seed: 0..2**64 - 1.
        split: "train", "validation" or "test".

    Raises:
        ConfigError: the seed is not an integer, or is out of range.
        ChoiceError: there is no such split.
    """

    seed: int
    split: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed, 0, LAST_SEED))
        check_choice("split", self.split, SPLITS)

    def words(self, indices: Integers, blocks: Integers) -> tuple[Words, Words]:
        """Two independent words of 64 bits for each (example index, block).

        Args:
            indices: example indices, int64, 0..2**63 - 1.
            blocks: block numbers, int64, 0..2**32 - 1; broadcasts against `indices`.

        Returns:
            two uint64 arrays of the common shape.
        """
        index, block = indices.astype(np.uint64), blocks.astype(np.uint64)
        split = np.array(SPLITS[self.split], dtype=np.uint64)
        counter = (block, index & _LOW, index >> _HALF, split)
        w0, w1, w2, w3 = philox4x32(counter, (self.seed & 0xFFFFFFFF, self.seed >> 32))
        return (w1 << _HALF) | w0, (w3 << _HALF) | w2

    def length_words(self, indices: Integers) -> Words:
        """One word for each example [B], from block 0, which is reserved for the length."""
        return self.words(indices, np.zeros(1, dtype=np.int64))[0]

    def sequence_words(self, indices: Integers, count: int) -> tuple[Words, Words]:
        """In one call, return the words for lengths [B], and for positions [B, count].

        Position p has the same word for any `count`, which is half of block 1 + p // 2.
        """
        blocks = np.arange(1 + (count + 1) // 2)
        pairs = np.stack(self.words(indices[:, None], blocks[None, :]), axis=-1)
        return pairs[:, 0, 0], pairs[:, 1:].reshape(len(indices), -1)[:, :count]
