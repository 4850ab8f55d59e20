"""Find the fewest control states and symbols of an automaton that determine all steps.

Initially all prefixes have one state and all values are one symbol. If the same state, symbol read
and input have different outcomes, the state or the symbol is split. The state is split if the
controllers' vectors separate the cases, and the symbol if the read vectors do. Splits of states
propagate backward from step to step, as in the minimisation of automata (Moore 1956). Prefixes and
values that no observation separates join their nearest class.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from typing import Final

import torch
from torch import Tensor

from unbounded.extraction.classes import Classes, conflicts_of, length_of
from unbounded.extraction.observation import Observations

#: Greatest number of states and of symbols in a readable automaton.
MOST_CLASSES: Final = 80
#: At most this many cases of each conflict are used.
_CASES: Final = 600
#: Least separation of cases by vectors, from 0 to 1.1, for a clear split, and for a split that is
#: tried.
_CLEAR: Final = 0.9
_FAINT: Final = 0.5
_SYMBOLS_FIRST: Final = 0.15
#: Greatest number of distinct vectors that count as values, and their least mean frequency.
_FEW: Final = 8
_REPEATED: Final = 3
#: Distance up to which numbers are equal.
_ALIKE: Final = 1e-4


def refine(
    observations: Observations,
    most: int = MOST_CLASSES,
    look: Callable[[int], None] = lambda count: None,
) -> Classes:
    """Find the classes.

    Args:
        seen: the observations of a network.
        most: most states and symbols.
        look: called with the number of states and symbols so far.
    Returns:
        closed classes, if the allowed number suffices; else the classes with the shortest
        description. A description has a line for each case of the table and for each step that
        deviates from it.
    """
    count = len(observations.nodes)
    alphabets = max(observations.shape.values, default=-1) + 1
    classes = Classes([0] * count, [[0] * count for _ in range(alphabets)])
    best, least = classes, float("inf")
    while True:
        look(classes.count)
        conflicts = conflicts_of(observations, classes)
        if not conflicts:
            classes.closed, classes.determined = True, 1.0
            return classes
        length, classes.determined = length_of(observations, classes)
        if length < least:
            best, least = copy.deepcopy(classes), length
        if classes.count >= most or not _split_one(observations, classes, conflicts, most):
            return best


def _split_one(
    observations: Observations,
    classes: Classes,
    conflicts: list[tuple[list[int], list[Hashable]]],
    most: int,
) -> bool:
    """Split a state or a symbol at a clear conflict. Return False if that is not possible.

    A conflict without a clear separation may disappear when another conflict is resolved.
    """
    weak: list[tuple[float, int]] = []
    for number, conflict in enumerate(conflicts):
        best = _split(observations, classes, *conflict, most, _CLEAR)
        if best is None:
            return True
        weak.append((-best, number))
    for _, number in sorted(weak):
        if _split(observations, classes, *conflicts[number], most, _FAINT) is None:
            return True
    return any(_split_by_values(observations, classes, group, most) for group, _ in conflicts)


def _split_by_values(
    observations: Observations, classes: Classes, group: list[int], most: int
) -> bool:
    """Split a symbol or a state by its distinct vectors, if these are few.

    An outcome may depend on several symbols together, of which none separates the cases.
    """
    parents = [observations.nodes[child].parent for child in group]
    for slot, row in enumerate(observations.nodes[parents[0]].read):
        if row is None:
            continue
        values = _values(_read(observations, parents, slot))
        if values is not None and _split_symbol(observations, classes, parents, values, slot, most):
            return True
    state = classes.state[parents[0]]
    members = [number for number, other in enumerate(classes.state) if other == state]
    values = _values(observations.control[members])
    return values is not None and _rename(classes.state, members, values, most)


def _values(vectors: Tensor) -> list[int] | None:
    """The number of each vector's value; None for one value, or if values hardly repeat."""
    places, numbers = torch.unique((vectors / _ALIKE).round(), dim=0, return_inverse=True)
    most = min(_FEW, len(vectors) // _REPEATED)
    return numbers.tolist() if 1 < len(places) <= most else None


def _split(
    observations: Observations,
    classes: Classes,
    group: list[int],
    cases: list[Hashable],
    most: int,
    least: float,
) -> float | None:
    """Split a state or a symbol, if its vectors separate the cases well enough.

    Returns:
        None if it was split; else the best separation.
    """
    every = max(1, len(group) // _CASES)
    group, cases = group[::every], cases[::every]
    numbers: dict[Hashable, int] = {}
    labels = [numbers.setdefault(case, len(numbers)) for case in cases]
    parents = [observations.nodes[child].parent for child in group]
    # The controller knows the top of a stack too, because it has just written the top. So a state
    # is split instead of a symbol only if the separation by states is better by this margin.
    candidates = [(_separation(observations.control[parents], labels) - _SYMBOLS_FIRST, -1)]
    for slot, row in enumerate(observations.nodes[parents[0]].read):
        if row is not None:
            candidates.append((_separation(_read(observations, parents, slot), labels), slot))
    for score, slot in sorted(candidates, reverse=True):
        if score + (_SYMBOLS_FIRST if slot < 0 else 0) < least:
            continue
        if slot >= 0:
            is_split = _split_symbol(observations, classes, parents, labels, slot, most)
        else:
            state = classes.state[parents[0]]
            members = [n for n, other in enumerate(classes.state) if other == state]
            new = _nearest(observations.control, members, _votes(parents, labels))
            is_split = _rename(classes.state, members, new, most)
        if is_split:
            return None
    return max(score for score, _ in candidates)


def _votes(rows: list[int], labels: list[int]) -> dict[int, Counter[int]]:
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for row, label in zip(rows, labels, strict=True):
        votes[row][label] += 1
    return votes


def _read(observations: Observations, parents: list[int], slot: int) -> Tensor:
    """The vectors that nodes read in a slot."""
    rows = [observations.nodes[parent].read[slot] for parent in parents]
    return torch.stack([observations.values[row[1]][row[0]] for row in rows if row is not None])


def _separation(vectors: Tensor, labels: list[int]) -> float:
    """The separation of cases: the share of vectors whose nearest other vector has the same case.

    Cases with a single vector count half. The gap between cases, relative to their width, is added
    to the share.
    """
    cases = torch.tensor(labels)
    distance = torch.cdist(vectors.double(), vectors.double())
    same = cases.unsqueeze(0) == cases.unsqueeze(1)
    nearest_same = torch.where(same, distance, torch.inf).fill_diagonal_(torch.inf).amin(dim=1)
    other = torch.where(same, torch.inf, distance).amin(dim=1)
    is_single = nearest_same.isinf()
    separated = torch.where(is_single, (other > 0).double() / 2, (nearest_same < other).double())
    typical = distance.median().clamp(min=1e-12)
    gap = (other.amin() / typical).clamp(max=1.0)
    return float(separated.mean() + 0.1 * gap)


def _nearest(vectors: Tensor, members: list[int], known: dict[int, Counter[int]]) -> list[int]:
    """The case of each member: the case of the nearest vector with a known case.

    Equal vectors have their most frequent case.
    """
    rows = list(known)
    places, same = torch.unique(
        (vectors[rows].double() / _ALIKE).round() * _ALIKE, dim=0, return_inverse=True
    )
    votes: list[Counter[int]] = [Counter() for _ in places]
    for row, place in zip(rows, same.tolist(), strict=True):
        votes[place] += known[row]
    cases = [counter.most_common(1)[0][0] for counter in votes]
    near = torch.cdist(vectors[members].double(), places).argmin(dim=1)
    return [cases[place] for place in near.tolist()]


def _rename(numbers: list[int], members: list[int], cases: list[int], most: int) -> bool:
    """Give each case its own number. The most frequent case keeps the old number."""
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
    observations: Observations,
    classes: Classes,
    parents: list[int],
    labels: list[int],
    slot: int,
    most: int,
) -> bool:
    """Split the symbol in a slot."""
    written = [observations.nodes[parent].read[slot] for parent in parents]
    known = _votes([row[0] for row in written if row is not None], labels)
    row, value = next(row for row in written if row is not None)
    alphabet = observations.shape.slots[slot]
    numbers = classes.symbol[alphabet]
    symbol = numbers[row]
    # A deque writes one alphabet at both ends.
    ends = [k for k, of in enumerate(observations.shape.values) if of == alphabet]
    vectors = observations.values[value]
    if len(ends) > 1:
        vectors = torch.stack(
            [
                observations.values[next((k for k in ends if node.written[k]), ends[0])][number]
                for number, node in enumerate(observations.nodes)
            ]
        )
    members = [
        number
        for number, node in enumerate(observations.nodes)
        if numbers[number] == symbol and any(node.written[k] for k in ends)
    ]
    return _rename(numbers, members, _nearest(vectors, members, known), most)
