"""Classes of observations: group steps into kinds, and check that a kind has one outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from unbounded.extraction.observation import Observations

#: State, number of the input, and the symbol read in each slot.
Key = tuple[int, int, tuple[int | None, ...]]


@dataclass
class Classes:
    """The classes of a tree of observations.

    Fields:
        state: the control state of each node, by number.
        symbol: for each alphabet, the symbol that each node would write, by number.
        closed: whether every step is determined.
        determined: the share of steps with the most frequent outcome of their kind.
    """

    state: list[int]
    symbol: list[list[int]]
    closed: bool = False
    determined: float = 0.0

    @property
    def count(self) -> int:
        """The number of states and symbols."""
        return len(set(self.state)) + sum(len(set(numbers)) for numbers in self.symbol)


def key_of(observations: Observations, classes: Classes, child: int) -> Key:
    """State, input and read symbols at the step that led to a node."""
    node = observations.nodes[child]
    return classes.state[node.parent], node.symbol, shown(observations, classes, node.parent)


def shown(observations: Observations, classes: Classes, number: int) -> tuple[int | None, ...]:
    """The symbols that a node reads."""
    values = observations.shape.values
    return tuple(
        None if slot is None else classes.symbol[values[slot[1]]][slot[0]]
        for slot in observations.nodes[number].read
    )


def outcome_of(observations: Observations, classes: Classes, child: int) -> tuple[Hashable, ...]:
    """The parts of the outcome of the step that led to a node. An undetermined part is None.

    The parts are the output, the actions, for each value the written symbol ("" for none), and the
    state.
    """
    node, values = observations.nodes[child], observations.shape.values
    if not observations.children[child]:
        # At the last symbol, only the output shows the outcome.
        return (node.output, *(None for _ in node.actions), *(None for _ in values), None)
    written = [
        classes.symbol[values[k]][child] if flag else "" for k, flag in enumerate(node.written)
    ]
    if node.push_is_free:
        return (node.output, None, *node.actions[1:], *(None for _ in values), classes.state[child])
    return (node.output, *node.actions, *written, classes.state[child])


def differs(outcomes: Sequence[tuple[Hashable, ...]]) -> int | None:
    """The first part in which outcomes contradict each other; None without a contradiction."""
    for part, values in enumerate(zip(*outcomes, strict=True)):
        if len(set(values) - {None}) > 1:
            return part
    return None


def usual_of(outcomes: Sequence[tuple[Hashable, ...]]) -> tuple[Hashable, ...]:
    """The most frequent value of each part of the outcomes; None if all are undetermined."""
    counts = (Counter(part) for part in zip(*outcomes, strict=True))
    return tuple(
        next((value for value, _ in count.most_common() if value is not None), None)
        for count in counts
    )


def _grouped(observations: Observations, classes: Classes) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = defaultdict(list)
    for child in range(1, len(observations.nodes)):
        groups[key_of(observations, classes, child)].append(child)
    return groups


def conflicts_of(
    observations: Observations, classes: Classes
) -> list[tuple[list[int], list[Hashable]]]:
    """Yield the steps of one kind with different outcomes, and these outcomes, for each kind.

    Conflicts in outputs and actions precede conflicts in the next state, because splits propagate
    backward from them.
    """
    conflicts = []
    for group in _grouped(observations, classes).values():
        outcomes = [outcome_of(observations, classes, child) for child in group]
        part = differs(outcomes)
        if part is not None:
            determined_places = [
                k for k, outcome in enumerate(outcomes) if outcome[part] is not None
            ]
            cases = [outcomes[k][part] for k in determined_places]
            conflicts.append(
                (part == len(outcomes[0]) - 1, [group[k] for k in determined_places], cases)
            )
    conflicts.sort(key=lambda conflict: (conflict[0], -len(conflict[1])))
    return [(group, cases) for _, group, cases in conflicts]


def length_of(observations: Observations, classes: Classes) -> tuple[int, float]:
    """Number of cases in the table plus deviating steps, and the share of steps that agree."""
    groups, wrong = _grouped(observations, classes), 0
    for group in groups.values():
        outcomes = [outcome_of(observations, classes, child) for child in group]
        usual = usual_of(outcomes)
        wrong += sum(differs([outcome, usual]) is not None for outcome in outcomes)
    return len(groups) + wrong, 1 - wrong / max(1, len(observations.nodes) - 1)
