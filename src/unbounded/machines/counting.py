"""Machines for counting, with superposition stacks: what is left on a stack is what is to come.

Tasks are those of Joulin & Mikolov 2015, arXiv:1503.01007, Table 1; the machines are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbounded.machines.assembly import ONE, Terms, Unit, assemble
from unbounded.models.memory_model import MemoryModel

#: Cells of a stack that are read: whether a second one is full says whether a POP takes the last.
_DEPTH = 2


def anbn() -> MemoryModel:
    """Say how a^n b^n goes on: PUSH on a, POP on b; a comes when the last one is gone."""
    return _counter("ab", [("a", "b")])


def anbncn() -> MemoryModel:
    """Say how a^n b^n c^n goes on: the second stack fills while the first is emptied."""
    return _counter("abc", [("a", "b"), ("b", "c")])


def anbncndn() -> MemoryModel:
    """Say how a^n b^n c^n d^n goes on, with three stacks."""
    return _counter("abcd", [("a", "b"), ("b", "c"), ("c", "d")])


def anbmc_sum() -> MemoryModel:
    """Say how a^n b^m c^(n+m) goes on: one stack counts both a and b."""
    return _counter("abc", [("ab", "c")])


def anbmcndm() -> MemoryModel:
    """Say how a^n b^m c^n d^m goes on: one stack for a and c, one for b and d."""
    return _counter("abcd", [("a", "c"), ("b", "d")])


def anb2n() -> MemoryModel:
    """Say how a^n b^(2n) goes on: every second b takes one away."""
    units = {
        "a": Unit({"x:a": 1.0}),
        # The first b of two.
        "first": Unit({"x:b": 1.0, "first": -1.0}),
        "second": Unit({"x:b": 1.0, "first": 1.0}, above=1.5),
        "last": Unit({"x:b": 2.0, "first": 2.0, "r:1": -1.0}, above=4.0),
    }
    logits: list[Terms] = [{"a": 1.0, "last": 1.0}, {"first": 1.0, "second": 1.0, "last": -1.0}]
    return _on_stacks("ab", units, [("a", "second")], logits)


def _counter(letters: str, stacks: Sequence[tuple[str, str]]) -> MemoryModel:
    """Each stack is filled by some letters and emptied by one; then comes the next letter.

    Args:
        letters: in the order in which they come.
        stacks: letters that PUSH, letter that POPs.
    """
    units = {letter: Unit({f"x:{letter}": 1.0}) for letter in letters}
    said: dict[str, dict[str, float]] = {letter: {letter: 1.0} for letter in letters}
    pairs = []
    for k, (filling, emptying) in enumerate(stacks):
        # It pops, and the second cell, which stands for what is left, is empty: -1.
        last, pushes = f"last{k}", f"push{k}"
        second = f"r:{_DEPTH * k + 1}"
        units[last] = Unit({f"x:{emptying}": 2.0, second: -1.0}, above=2.0)
        units[pushes] = Unit({f"x:{letter}": 1.0 for letter in filling})
        then = letters[(letters.index(emptying) + 1) % len(letters)]
        said[emptying][last] = -1.0
        said[then][last] = said[then].get(last, 0.0) + 1.0
        pairs.append((pushes, emptying))
    return _on_stacks(letters, units, pairs, [said[letter] for letter in letters])


def _on_stacks(
    letters: str,
    units: Mapping[str, Unit],
    stacks: Sequence[tuple[str, str]],
    logits: Sequence[Terms],
) -> MemoryModel:
    """The machine whose stacks PUSH 1 and POP by a unit each, and else do nothing."""
    actions: list[Terms] = []
    for pushes, pops in stacks:
        actions += [{pushes: 1.0}, {pops: 1.0}, {ONE: 1.0, pushes: -1.0, pops: -1.0}]
    memory = {
        "name": "superposition_stack",
        "count": len(stacks),
        "depth": _DEPTH,
        "noop": True,
    }
    heads: dict[str, list[Terms]] = {"action": actions, "value": [{ONE: 1.0}] * len(stacks)}
    return assemble(list(letters), memory, units, heads, logits)
