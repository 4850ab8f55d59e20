"""Weighted context-free grammars: strings of one length, and their exact probabilities.

Source: the inside algorithm: Baker 1979; draws of one length: DuSell & Chiang 2020,
arXiv:2010.04674, section 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbounded.tasks.randomness import Integers

Floats = NDArray[np.float64]


class Production(NamedTuple):
    """A rule with its weight.

    Fields:
        left: a nonterminal. right: nonterminals (names) and terminals (numbers), or nothing.
        weight: above 0.
    """

    left: str
    right: tuple[str | int, ...]
    weight: float = 1.0


class WeightedGrammar:
    """A grammar whose strings of one length have probabilities in proportion to their weights.

    The weight of a string is the sum over its derivations of the product of their rules' weights.
    All rules are transformed into binary rules. Empty derivations and chains of single nonterminals
    are summed in closed form. Let e[B] be the weight of all empty derivations of B. In a chain, a
    rule A -> B C of weight w leads from A to B with weight w e[C], and from A to C with weight w
    e[B].

    Args:
        start: the first nonterminal.
        rules: the rules.
    """

    def __init__(self, start: str, rules: Sequence[Production]) -> None:
        self._numbers: dict[str, int] = {}
        binary: list[tuple[int, int, int, float]] = []
        single: list[tuple[int, int, float]] = []
        empty: list[tuple[int, float]] = []
        terminal: list[tuple[int, int, float]] = []
        self._start = self._number(start)
        for place, (left, right, weight) in enumerate(rules):
            first, rest = self._number(left), list(right)
            if len(rest) == 1 and isinstance(rest[0], int):
                terminal.append((first, rest[0], weight))
                continue
            parts = [self._symbol(part, terminal) for part in rest]
            while len(parts) > 2:
                new = self._number(f"{place}:{len(parts)}")
                binary.append((first, parts.pop(0), new, weight))
                first, weight = new, 1.0
            if len(parts) == 2:
                binary.append((first, parts[0], parts[1], weight))
            elif parts:
                single.append((first, parts[0], weight))
            else:
                empty.append((first, weight))
        size = len(self._numbers)
        self._binary = np.array([rule[:3] for rule in binary], dtype=np.int64).reshape(-1, 3)
        self._weights = np.array([rule[3] for rule in binary])
        self._terminals = terminal
        self._chains = self._chain_matrix(size, single, empty)
        self._closure: Floats = np.linalg.inv(np.eye(size) - self._chains).astype(np.float64)
        self._gather = np.zeros((len(binary), size))
        self._gather[np.arange(len(binary)), self._binary[:, 0]] = self._weights
        # Weights of all strings of a length, from each nonterminal; row 0 is not used.
        self._by_length: Floats = np.zeros((1, size), dtype=np.float64)
        self._options: dict[tuple[int, int], tuple[list[tuple[int, ...]], Floats]] = {}

    def weight_of(self, length: int) -> float:
        """The weight of all strings of a length, at least 1."""
        return float(self._inside(length)[length, self._start])

    def draw(self, length: int, numbers: Iterator[float]) -> list[int]:
        """A random string of a length whose weight is above 0.

        Args:
            length: of the string, at least 1.
            numbers: uniform numbers in [0, 1).
        """
        self._inside(length)
        string: list[int] = []
        waiting = [(self._start, length)]
        while waiting:
            options, sums = self._options_of(*waiting.pop())
            place = int(np.searchsorted(sums, next(numbers) * sums[-1], side="right"))
            option = options[min(place, len(options) - 1)]
            if len(option) == 1:
                string.append(option[0])
            elif len(option) == 2:
                waiting.append((option[0], option[1]))
            else:
                waiting += [(option[2], option[3]), (option[0], option[1])]
        return string

    def log_probabilities(self, strings: Integers) -> Floats:
        """The logarithm of the probability of strings, given their length.

        Args:
            strings: int64 [B, L], of one length L, at least 1.
        Returns:
            float64 [B]; -inf for a string that is not in the language.
        """
        count, length = strings.shape
        size = len(self._numbers)
        # chart[s][b, i]: the weight of symbols i .. i + s - 1 from each nonterminal.
        own = np.zeros((count, length, size))
        for left, symbol, weight in self._terminals:
            own[..., left] += weight * (strings == symbol)
        chart = [own, own @ self._closure.T]
        first, second = self._binary[:, 1], self._binary[:, 2]
        for span in range(2, length + 1):
            places = length - span + 1
            products = np.zeros((count, places, len(self._binary)))
            for split in range(1, span):
                before = chart[split][:, :places, first]
                products += before * chart[span - split][:, split : split + places, second]
            chart.append(products @ self._gather @ self._closure.T)
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(chart[length][:, 0, self._start])
        logs -= math.log(self.weight_of(length))
        return logs

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _symbol(self, part: str | int, terminal: list[tuple[int, int, float]]) -> int:
        """The nonterminal for a part of a longer rule. A terminal has its own nonterminal."""
        if isinstance(part, str):
            return self._number(part)
        is_new = f"={part}" not in self._numbers
        number = self._number(f"={part}")
        if is_new:
            terminal.append((number, part, 1.0))
        return number

    def _chain_matrix(
        self,
        size: int,
        single: Sequence[tuple[int, int, float]],
        empty: Sequence[tuple[int, float]],
    ) -> Floats:
        """The weight of one step from a nonterminal to another that derives the complete string."""
        nothing = np.zeros(size)
        first, second = self._binary[:, 1], self._binary[:, 2]
        # The least solution of e[A] = sum of the rules' weights times e of their right sides.
        for _ in range(1000):
            after = np.zeros(size)
            for left, weight in empty:
                after[left] += weight
            for left, right, weight in single:
                after[left] += weight * nothing[right]
            np.add.at(after, self._binary[:, 0], self._weights * nothing[first] * nothing[second])
            if np.array_equal(after, nothing):
                break
            nothing = after
        chains = np.zeros((size, size))
        for left, right, weight in single:
            chains[left, right] += weight
        np.add.at(chains, (self._binary[:, 0], first), self._weights * nothing[second])
        np.add.at(chains, (self._binary[:, 0], second), self._weights * nothing[first])
        return chains

    def _inside(self, length: int) -> Floats:
        """The weights of all lengths up to a given length."""
        while len(self._by_length) <= length:
            now = len(self._by_length)
            own = np.zeros(len(self._numbers))
            if now == 1:
                for left, _, weight in self._terminals:
                    own[left] += weight
            else:
                first = self._by_length[1:now, self._binary[:, 1]]
                second = self._by_length[now - 1 : 0 : -1, self._binary[:, 2]]
                own = (first * second).sum(axis=0) @ self._gather
            self._by_length = np.vstack([self._by_length, self._closure @ own])
        return self._by_length

    def _options_of(self, nonterminal: int, length: int) -> tuple[list[tuple[int, ...]], Floats]:
        """The first steps of a derivation of a length, with the sums of their weights.

        A step is a symbol, a nonterminal with its length, or two nonterminals with their lengths.
        """
        key = (nonterminal, length)
        if key not in self._options:
            inside = self._by_length
            options: list[tuple[int, ...]] = []
            weights: list[float] = []
            for other in np.flatnonzero(self._chains[nonterminal]).tolist():
                options.append((other, length))
                weights.append(self._chains[nonterminal, other] * inside[length, other])
            if length == 1:
                for left, symbol, weight in self._terminals:
                    if left == nonterminal:
                        options.append((symbol,))
                        weights.append(weight)
            for rule in np.flatnonzero(self._binary[:, 0] == nonterminal).tolist():
                _, first, second = self._binary[rule].tolist()
                for split in range(1, length):
                    options.append((first, split, second, length - split))
                    product = inside[split, first] * inside[length - split, second]
                    weights.append(self._weights[rule] * product)
            self._options[key] = (options, np.cumsum(weights))
        return self._options[key]
