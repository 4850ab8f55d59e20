"""A machine of finitely many states with a stack, a queue or their like, and how it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from unbounded.extraction.classes import Classes, key_of, outcome_of, usual_of
from unbounded.extraction.memories import Shape
from unbounded.extraction.observation import Observations


class Step(NamedTuple):
    """What a machine does at one step.

    Fields:
        state: the next one.
        actions: what its structure is told.
        writes: for each value the number of the symbol that is written, None where none is.
        says: number of the answer; None where none was ever asked for.
        seen: how often that was observed.
    """

    state: int
    actions: tuple[Any, ...]
    writes: tuple[int | None, ...]
    says: int | None
    seen: int


#: State, number of the input, and for each slot the symbol that is read.
Case = tuple[int, int, tuple[int | None, ...]]


class Machine(NamedTuple):
    """A machine.

    Fields:
        shape: of its structure.
        inputs, outputs: names of what is read and said.
        states: how many there are; it begins in `start`.
        symbols: for each alphabet of the structure the names of its symbols.
        table: what is done in each case.
    """

    shape: Shape
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: int
    start: int
    symbols: tuple[tuple[str, ...], ...]
    table: dict[Case, Step]

    def run(self, word: Sequence[int]) -> list[Step]:
        """Read a word, from an empty structure.

        Args:
            word: numbers of the inputs.
        Returns:
            a step for each; fewer where it comes to a case that is not in the table.
        """
        structure, state = self.shape.new(), self.start
        steps: list[Step] = []
        for symbol in word:
            step = self.table.get((state, symbol, structure.read()))
            if step is None:
                break
            structure.step(step.actions, step.writes)
            state = step.state
            steps.append(step)
        return steps


def machine_of(
    seen: Observations, classes: Classes, inputs: Sequence[str], outputs: Sequence[str]
) -> Machine:
    """The machine that goes as the observations do; where they differ as most of them.

    Args:
        seen, classes: what was observed, and its classes.
        inputs, outputs: names of what is read and said.
    """
    states = _in_order(classes.state)
    values = seen.shape.values
    used = [
        _in_order(
            [
                numbers[row]
                for row, node in enumerate(seen.nodes)
                if any(flag and values[k] == a for k, flag in enumerate(node.written))
            ]
        )
        for a, numbers in enumerate(classes.symbol)
    ]
    cases: dict[Case, list[int]] = defaultdict(list)
    for child in range(1, len(seen.nodes)):
        state, symbol, read = key_of(seen, classes, child)
        shown = tuple(
            None if number is None else used[seen.shape.slots[k]][number]
            for k, number in enumerate(read)
        )
        cases[(states[state], symbol, shown)].append(child)
    table = {}
    for case, children in cases.items():
        outcomes = [outcome_of(seen, classes, child) for child in children]
        usual: list[Any] = list(usual_of(outcomes))
        says, *done, after = usual
        count = len(seen.nodes[children[0]].actions)
        # What may be anything is nothing: no push, and the state that it begins in.
        actions = tuple(seen.shape.idle if act is None else act for act in done[:count])
        writes = tuple(
            None if symbol in (None, "") else used[values[k]][symbol]
            for k, symbol in enumerate(done[count:])
        )
        after = classes.state[0] if after is None else after
        table[case] = Step(states[after], actions, writes, says, len(children))
    names = tuple(
        _names(seen, a, classes.symbol[a], used[a], inputs) for a in range(len(classes.symbol))
    )
    return Machine(
        seen.shape,
        tuple(inputs),
        tuple(outputs),
        len(states),
        states[classes.state[0]],
        names,
        table,
    )


def _in_order(numbers: Sequence[int]) -> dict[int, int]:
    """Numbers from 0 on, in the order in which they first come."""
    return {number: place for place, number in enumerate(dict.fromkeys(numbers))}


def _names(
    seen: Observations,
    alphabet: int,
    symbol: Sequence[int],
    used: dict[int, int],
    inputs: Sequence[str],
) -> tuple[str, ...]:
    """Names of symbols: of the input at which one is written, if it is one; else letters."""
    at: dict[int, set[int]] = defaultdict(set)
    for row, node in enumerate(seen.nodes):
        if node.push_is_free or not seen.children[row]:
            continue
        if any(f and seen.shape.values[k] == alphabet for k, f in enumerate(node.written)):
            at[used[symbol[row]]].add(node.symbol)
    names: list[str] = []
    for number in range(len(used)):
        own = {inputs[place] for place in at[number]}
        name = own.pop() if len(own) == 1 else chr(ord("A") + number % 26) * (1 + number // 26)
        while name in names:
            name += "'"
        names.append(name)
    return tuple(names)
