"""Constructed networks for counting, in which a superposition stack counts the symbols to come.

The tasks are from Joulin & Mikolov 2015, arXiv:1503.01007, Table 1. The networks are not from the
paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble
from unbounded.models.memory_model import MemoryModel

#: Number of cells read from a stack. The second cell shows whether a POP removes the last element.
_DEPTH = 2


def anbn() -> MemoryModel:
    """Predict a^n b^n: PUSH on a, POP on b; the next symbol is a if the stack is empty."""
    return _counter("ab", [("a", "b")])


def anbncn() -> MemoryModel:
    """Predict a^n b^n c^n: the second stack fills while the first is emptied."""
    return _counter("abc", [("a", "b"), ("b", "c")])


def anbncndn() -> MemoryModel:
    """Predict a^n b^n c^n d^n with three stacks."""
    return _counter("abcd", [("a", "b"), ("b", "c"), ("c", "d")])


def anbmc_sum() -> MemoryModel:
    """Predict a^n b^m c^(n+m): one stack counts both a and b."""
    return _counter("abc", [("ab", "c")])


def anbmcndm() -> MemoryModel:
    """Predict a^n b^m c^n d^m: one stack for a and c, one for b and d."""
    return _counter("abcd", [("a", "c"), ("b", "d")])


def anb2n() -> MemoryModel:
    """Predict a^n b^(2n): every second b pops one element."""
    units = {
        "a": Unit({"x:a": 1.0}),
        # The first b in a pair.
        "first": Unit({"x:b": 1.0, "first": -1.0}),
        "second": Unit({"x:b": 1.0, "first": 1.0}, above=1.5),
        "last": Unit({"x:b": 2.0, "first": 2.0, "r:1": -1.0}, above=4.0),
    }
    logits: list[Terms] = [{"a": 1.0, "last": 1.0}, {"first": 1.0, "second": 1.0, "last": -1.0}]
    return on_stacks("ab", units, [("a", "second")], logits)


def _counter(letters: str, stacks: Sequence[tuple[str, str]]) -> MemoryModel:
    """Some letters fill a stack, and one letter empties it.

    The next letter follows when the stack is empty.

    Args:
        letters: in their order.
        stacks: letters that PUSH, and the letter that POPs.
    """
    units = {letter: Unit({f"x:{letter}": 1.0}) for letter in letters}
    logits: dict[str, dict[str, float]] = {letter: {letter: 1.0} for letter in letters}
    pairs = []
    for k, (filling, emptying) in enumerate(stacks):
        # The letter pops, and the second cell is empty (-1), so the rest of the stack is empty.
        last, pushes = f"last{k}", f"push{k}"
        second = f"r:{_DEPTH * k + 1}"
        units[last] = Unit({f"x:{emptying}": 2.0, second: -1.0}, above=2.0)
        units[pushes] = Unit({f"x:{letter}": 1.0 for letter in filling})
        then = letters[(letters.index(emptying) + 1) % len(letters)]
        logits[emptying][last] = -1.0
        logits[then][last] = logits[then].get(last, 0.0) + 1.0
        pairs.append((pushes, emptying))
    return on_stacks(letters, units, pairs, [logits[letter] for letter in letters])


def on_stacks(
    letters: Sequence[str],
    units: Mapping[str, Unit],
    stacks: Sequence[tuple[str, str]],
    logits: Sequence[Terms],
) -> MemoryModel:
    """Assemble a network in which one unit makes a stack PUSH 1 and another makes it POP.

    The top of stack k is read as r:2k, and the element below it as r:2k+1. An empty cell is -1.

    Args:
        letters: the input symbols.
        units: name -> unit.
        stacks: the unit that pushes and the unit that pops, for each stack.
        logits: a sum of units for each logit.
    """
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
