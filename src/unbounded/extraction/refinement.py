"""Control states and symbols of a machine: the fewest classes in which every step is determined.

All beginnings are in one state and all values are one symbol at first. Where the same state, symbol
read and input come to different things, one of them is two: the state, if the controllers' vectors
tell the cases apart, or the symbol, if the vectors that were read do. Splits of states go back from
step to step, as in the minimisation of automata (Moore 1956). What no observation tells apart goes
with what is nearest to it.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from unbounded.extraction.observation import Observations

#: More states and symbols than these are no machine to be read.
MOST_CLASSES: Final = 80
#: Of one conflict, more cases than these say nothing more.
_CASES: Final = 600
#: How well vectors must tell cases apart, from 0 to 1.1, for a split to be clear, and to be tried.
_CLEAR: Final = 0.9
_FAINT: Final = 0.5
_SYMBOLS_FIRST: Final = 0.15
#: Numbers that are as near as this are equal.
_ALIKE: Final = 1e-4

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


def refine(seen: Observations, most: int = MOST_CLASSES) -> Classes:
    """Find the classes.

    Args:
        seen: what a network did.
        most: states and symbols at the most.
    Returns:
        classes that close, if there are so few; else those with the shortest description: a line
        for each case of the table and for each step that does not go as it says.
    """
    count = len(seen.nodes)
    alphabets = max(seen.shape.values, default=-1) + 1
    classes = Classes([0] * count, [[0] * count for _ in range(alphabets)])
    best, least = classes, float("inf")
    while True:
        conflicts = _conflicts(seen, classes)
        if not conflicts:
            classes.closed, classes.determined = True, 1.0
            return classes
        length, classes.determined = _length(seen, classes)
        if length < least:
            best, least = copy.deepcopy(classes), length
        if classes.count >= most or not _split_one(seen, classes, conflicts, most):
            return best


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


def _grouped(seen: Observations, classes: Classes) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = defaultdict(list)
    for child in range(1, len(seen.nodes)):
        groups[key_of(seen, classes, child)].append(child)
    return groups


def _conflicts(seen: Observations, classes: Classes) -> list[tuple[list[int], list[Hashable]]]:
    """Steps of one kind that come to different things, kind by kind, with what they come to.

    What is said and done comes first, then to which state it leads: splits go back from the former.
    """
    found = []
    for group in _grouped(seen, classes).values():
        outcomes = [outcome_of(seen, classes, child) for child in group]
        part = differs(outcomes)
        if part is not None:
            sure = [k for k, outcome in enumerate(outcomes) if outcome[part] is not None]
            cases = [outcomes[k][part] for k in sure]
            found.append((part == len(outcomes[0]) - 1, [group[k] for k in sure], cases))
    found.sort(key=lambda conflict: (conflict[0], -len(conflict[1])))
    return [(group, cases) for _, group, cases in found]


def _split_one(
    seen: Observations,
    classes: Classes,
    conflicts: list[tuple[list[int], list[Hashable]]],
    most: int,
) -> bool:
    """Split a state or a symbol where a conflict is clear; False where none is, or it is too many.

    A conflict that no vectors tell apart well may go away with another one.
    """
    weak: list[tuple[float, int]] = []
    for number, conflict in enumerate(conflicts):
        best = _split(seen, classes, *conflict, most, _CLEAR)
        if best is None:
            return True
        weak.append((-best, number))
    for _, number in sorted(weak):
        if _split(seen, classes, *conflicts[number], most, _FAINT) is None:
            return True
    return False


def _split(
    seen: Observations,
    classes: Classes,
    group: list[int],
    cases: list[Hashable],
    most: int,
    least: float,
) -> float | None:
    """Make two or more of a state or of a symbol, if its vectors tell the cases apart so well.

    Returns:
        None where it did; else how well they are told apart at best.
    """
    every = max(1, len(group) // _CASES)
    group, cases = group[::every], cases[::every]
    numbers: dict[Hashable, int] = {}
    labels = [numbers.setdefault(case, len(numbers)) for case in cases]
    parents = [seen.nodes[child].parent for child in group]
    # Of what is on top of a stack the controller knows too, since it has just written it: a state
    # is split and not a symbol only if it tells cases apart by so much better.
    candidates = [(_told_apart(seen.control[parents], labels) - _SYMBOLS_FIRST, -1)]
    for slot, row in enumerate(seen.nodes[parents[0]].read):
        if row is not None:
            candidates.append((_told_apart(_read(seen, parents, slot), labels), slot))
    for score, slot in sorted(candidates, reverse=True):
        if score + (_SYMBOLS_FIRST if slot < 0 else 0) < least:
            continue
        if slot >= 0:
            done = _split_symbol(seen, classes, parents, labels, slot, most)
        else:
            state = classes.state[parents[0]]
            members = [n for n, other in enumerate(classes.state) if other == state]
            new = _nearest(seen.control, members, _votes(parents, labels))
            done = _rename(classes.state, members, new, most)
        if done:
            return None
    return max(score for score, _ in candidates)


def _votes(rows: list[int], labels: list[int]) -> dict[int, Counter[int]]:
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for row, label in zip(rows, labels, strict=True):
        votes[row][label] += 1
    return votes


def _first(counter: Counter[int]) -> int:
    return counter.most_common(1)[0][0]


def _read(seen: Observations, parents: list[int], slot: int) -> Tensor:
    """The vectors that nodes read in a slot."""
    rows = [seen.nodes[parent].read[slot] for parent in parents]
    return torch.stack([seen.values[row[1]][row[0]] for row in rows if row is not None])


def _told_apart(vectors: Tensor, labels: list[int]) -> float:
    """How well vectors tell cases apart: the share whose nearest other one is of the same case.

    Cases of one vector alone count half, since nothing is near them. Beyond the share what counts
    is how far apart cases are against how wide they are.
    """
    cases = torch.tensor(labels)
    distance = torch.cdist(vectors.double(), vectors.double())
    same = cases.unsqueeze(0) == cases.unsqueeze(1)
    own = torch.where(same, distance, torch.inf).fill_diagonal_(torch.inf).amin(dim=1)
    other = torch.where(same, torch.inf, distance).amin(dim=1)
    alone = own.isinf()
    good = torch.where(alone, (other > 0).double() / 2, (own < other).double())
    typical = distance.median().clamp(min=1e-12)
    gap = (other.amin() / typical).clamp(max=1.0)
    return float(good.mean() + 0.1 * gap)


def _nearest(vectors: Tensor, members: list[int], known: dict[int, Counter[int]]) -> list[int]:
    """The case of each member: that of the nearest vector whose case is known.

    Equal vectors are of one case, that of most of them.
    """
    rows = list(known)
    places, same = torch.unique(
        (vectors[rows].double() / _ALIKE).round() * _ALIKE, dim=0, return_inverse=True
    )
    votes: list[Counter[int]] = [Counter() for _ in places]
    for row, place in zip(rows, same.tolist(), strict=True):
        votes[place] += known[row]
    cases = [_first(counter) for counter in votes]
    near = torch.cdist(vectors[members].double(), places).argmin(dim=1)
    return [cases[place] for place in near.tolist()]


def _rename(numbers: list[int], members: list[int], cases: list[int], most: int) -> bool:
    """Give the cases numbers of their own; the commonest keeps what all had."""
    counts = Counter(cases)
    if len(counts) < 2:
        return False
    highest = max(numbers)
    if highest + len(counts) > most:
        return False
    kept = counts.most_common(1)[0][0]
    new = {case: highest + k for k, case in enumerate((c for c in counts if c != kept), start=1)}
    for member, case in zip(members, cases, strict=True):
        if case != kept:
            numbers[member] = new[case]
    return True


def _split_symbol(
    seen: Observations,
    classes: Classes,
    parents: list[int],
    labels: list[int],
    slot: int,
    most: int,
) -> bool:
    """Make two or more of the symbol that stands in a slot."""
    written = [seen.nodes[parent].read[slot] for parent in parents]
    known = _votes([row[0] for row in written if row is not None], labels)
    row, value = next(row for row in written if row is not None)
    alphabet = seen.shape.slots[slot]
    numbers = classes.symbol[alphabet]
    symbol = numbers[row]
    # A deque writes one alphabet at both ends.
    ends = [k for k, of in enumerate(seen.shape.values) if of == alphabet]
    vectors = seen.values[value]
    if len(ends) > 1:
        vectors = torch.stack(
            [
                seen.values[next((k for k in ends if node.written[k]), ends[0])][number]
                for number, node in enumerate(seen.nodes)
            ]
        )
    members = [
        number
        for number, node in enumerate(seen.nodes)
        if numbers[number] == symbol and any(node.written[k] for k in ends)
    ]
    return _rename(numbers, members, _nearest(vectors, members, known), most)


def _length(seen: Observations, classes: Classes) -> tuple[int, float]:
    """Cases of the table and steps that do not go as it says; and the share of those that do."""
    groups, wrong = _grouped(seen, classes), 0
    for group in groups.values():
        outcomes = [outcome_of(seen, classes, child) for child in group]
        usual = usual_of(outcomes)
        wrong += sum(differs([outcome, usual]) is not None for outcome in outcomes)
    return len(groups) + wrong, 1 - wrong / max(1, len(seen.nodes) - 1)


def usual_of(outcomes: Sequence[tuple[Hashable, ...]]) -> tuple[Hashable, ...]:
    """What most of the outcomes are, part by part; None where all may be anything."""
    counts = (Counter(part) for part in zip(*outcomes, strict=True))
    return tuple(
        next((value for value, _ in count.most_common() if value is not None), None)
        for count in counts
    )
