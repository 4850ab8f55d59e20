"""Classes of what was observed: which steps are of one kind, and whether they come to one thing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from unbounded.extraction.observation import Observations

#: State, number of the input, and for each slot the symbol that is read.
Key = tuple[int, int, tuple[int | None, ...]]


@dataclass
class Classes:
    """The classes of a tree of observations.

    Fields:
        state: of each node, the number of its control state.
        symbol: for each alphabet and node, the number of the symbol that it would write.
        closed: whether every step is determined.
        determined: the share of the steps that go as the most frequent one of their kind.
    """

    state: list[int]
    symbol: list[list[int]]
    closed: bool = False
    determined: float = 0.0

    @property
    def count(self) -> int:
        """How many states and symbols there are."""
        return len(set(self.state)) + sum(len(set(numbers)) for numbers in self.symbol)


def key_of(seen: Observations, classes: Classes, child: int) -> Key:
    """State, input and symbols read of the step that led to a node."""
    node = seen.nodes[child]
    return classes.state[node.parent], node.symbol, shown(seen, classes, node.parent)


def shown(seen: Observations, classes: Classes, number: int) -> tuple[int | None, ...]:
    """The symbols that a node reads."""
    values = seen.shape.values
    return tuple(
        None if slot is None else classes.symbol[values[slot[1]]][slot[0]]
        for slot in seen.nodes[number].read
    )


def outcome_of(seen: Observations, classes: Classes, child: int) -> tuple[Hashable, ...]:
    """What came of the step that led to a node, part by part: None where that may be anything.

    The answer; the actions; for each value the symbol that is written, or "" for none; the state.
    """
    node, values = seen.nodes[child], seen.shape.values
    if not seen.children[child]:
        # After the last symbol nothing shows what was done at it, but what was said.
        return (node.says, *(None for _ in node.actions), *(None for _ in values), None)
    written = [
        classes.symbol[values[k]][child] if flag else "" for k, flag in enumerate(node.written)
    ]
    if node.push_is_free:
        return (node.says, None, *node.actions[1:], *(None for _ in values), classes.state[child])
    return (node.says, *node.actions, *written, classes.state[child])


def differs(outcomes: Sequence[tuple[Hashable, ...]]) -> int | None:
    """The first part in which outcomes contradict each other; None where they do not."""
    for part, values in enumerate(zip(*outcomes, strict=True)):
        if len(set(values) - {None}) > 1:
            return part
    return None


def usual_of(outcomes: Sequence[tuple[Hashable, ...]]) -> tuple[Hashable, ...]:
    """What most of the outcomes are, part by part; None where all may be anything."""
    counts = (Counter(part) for part in zip(*outcomes, strict=True))
    return tuple(
        next((value for value, _ in count.most_common() if value is not None), None)
        for count in counts
    )


def _grouped(seen: Observations, classes: Classes) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = defaultdict(list)
    for child in range(1, len(seen.nodes)):
        groups[key_of(seen, classes, child)].append(child)
    return groups


def conflicts_of(seen: Observations, classes: Classes) -> list[tuple[list[int], list[Hashable]]]:
    """Steps of one kind that come to different things, kind by kind, with what they come to.

    What is said and done comes first, then to which state it leads: splits go back from the former.
    """
    conflicts = []
    for group in _grouped(seen, classes).values():
        outcomes = [outcome_of(seen, classes, child) for child in group]
        part = differs(outcomes)
        if part is not None:
            sure = [k for k, outcome in enumerate(outcomes) if outcome[part] is not None]
            cases = [outcomes[k][part] for k in sure]
            conflicts.append((part == len(outcomes[0]) - 1, [group[k] for k in sure], cases))
    conflicts.sort(key=lambda conflict: (conflict[0], -len(conflict[1])))
    return [(group, cases) for _, group, cases in conflicts]


def length_of(seen: Observations, classes: Classes) -> tuple[int, float]:
    """Cases of the table and steps that do not go as it says; and the share of those that do."""
    groups, wrong = _grouped(seen, classes), 0
    for group in groups.values():
        outcomes = [outcome_of(seen, classes, child) for child in group]
        usual = usual_of(outcomes)
        wrong += sum(differs([outcome, usual]) is not None for outcome in outcomes)
    return len(groups) + wrong, 1 - wrong / max(1, len(seen.nodes) - 1)
