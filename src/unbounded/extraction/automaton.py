"""An automaton with finitely many states and a stack, a queue or another structure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from unbounded.extraction.classes import Classes, key_of, outcome_of, usual_of
from unbounded.extraction.memories import Shape
from unbounded.extraction.observation import Observations


class Step(NamedTuple):
    """The behaviour of an automaton at one step.

    Fields:
        state: the next state.
        actions: the structure's actions.
        writes: for each value the number of the written symbol, None if nothing is written.
        output: number of the output; None if no output was judged in this case.
        seen: how often this was observed.
    """

    state: int
    actions: tuple[Any, ...]
    writes: tuple[int | None, ...]
    output: int | None
    seen: int


#: State, number of the input, and the symbol read in each slot.
Case = tuple[int, int, tuple[int | None, ...]]


class Automaton(NamedTuple):
    """An automaton.

    Fields:
        shape: its structure.
        inputs, outputs: names of the inputs and outputs.
        states: number of states; `start` is the initial one.
        symbols: names of the symbols of each alphabet of the structure.
        table: the step of each case.
    """

    shape: Shape
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: int
    start: int
    symbols: tuple[tuple[str, ...], ...]
    table: dict[Case, Step]

    def run(self, string: Sequence[int]) -> list[Step]:
        """Read a string, starting with an empty structure.

        Args:
            string: numbers of the inputs.
        Returns:
            a step for each input; fewer if a case is not in the table.
        """
        structure, state = self.shape.new(), self.start
        steps: list[Step] = []
        for symbol in string:
            step = self.table.get((state, symbol, structure.read()))
            if step is None:
                break
            structure.step(step.actions, step.writes)
            state = step.state
            steps.append(step)
        return steps


def automaton_of(
    observations: Observations, classes: Classes, inputs: Sequence[str], outputs: Sequence[str]
) -> Automaton:
    """Build the automaton of observations. If outcomes differ, the most frequent is used.

    Args:
        seen, classes: the observations and their classes.
        inputs, outputs: names of the inputs and outputs.
    """
    states = _in_order(classes.state)
    values = observations.shape.values
    numbering = [
        _in_order(
            [
                numbers[row]
                for row, node in enumerate(observations.nodes)
                if any(flag and values[k] == a for k, flag in enumerate(node.written))
            ]
        )
        for a, numbers in enumerate(classes.symbol)
    ]
    cases: dict[Case, list[int]] = defaultdict(list)
    for child in range(1, len(observations.nodes)):
        state, symbol, read = key_of(observations, classes, child)
        shown = tuple(
            None if number is None else numbering[observations.shape.slots[k]][number]
            for k, number in enumerate(read)
        )
        cases[(states[state], symbol, shown)].append(child)
    table = {}
    for case, children in cases.items():
        outcomes = [outcome_of(observations, classes, child) for child in children]
        usual: list[Any] = list(usual_of(outcomes))
        output, *performed, after = usual
        count = len(observations.nodes[children[0]].actions)
        # An undetermined entry has a default value: no push, and the initial state.
        actions = tuple(
            observations.shape.idle if act is None else act for act in performed[:count]
        )
        writes = tuple(
            None if symbol in (None, "") else numbering[values[k]][symbol]
            for k, symbol in enumerate(performed[count:])
        )
        after = classes.state[0] if after is None else after
        table[case] = Step(states[after], actions, writes, output, len(children))
    names = tuple(
        _names(observations, a, classes.symbol[a], numbering[a], inputs)
        for a in range(len(classes.symbol))
    )
    return Automaton(
        observations.shape,
        tuple(inputs),
        tuple(outputs),
        len(states),
        states[classes.state[0]],
        names,
        table,
    )


def _in_order(numbers: Sequence[int]) -> dict[int, int]:
    """Assign numbers from 0 on, in order of first occurrence."""
    return {number: place for place, number in enumerate(dict.fromkeys(numbers))}


def _names(
    observations: Observations,
    alphabet: int,
    symbol: Sequence[int],
    numbering: dict[int, int],
    inputs: Sequence[str],
) -> tuple[str, ...]:
    """Names of symbols.

    A symbol's name is the input at which it is written, if unique; else a letter.
    """
    inputs_of_symbol: dict[int, set[int]] = defaultdict(set)
    for row, node in enumerate(observations.nodes):
        if node.push_is_free or not observations.children[row]:
            continue
        if any(
            is_written and observations.shape.values[k] == alphabet
            for k, is_written in enumerate(node.written)
        ):
            inputs_of_symbol[numbering[symbol[row]]].add(node.symbol)
    names: list[str] = []
    for number in range(len(numbering)):
        input_name_set = {inputs[place] for place in inputs_of_symbol[number]}
        name = (
            input_name_set.pop()
            if len(input_name_set) == 1
            else chr(ord("A") + number % 26) * (1 + number // 26)
        )
        while name in names:
            name += "'"
        names.append(name)
    return tuple(names)
