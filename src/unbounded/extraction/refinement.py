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
from collections.abc import Hashable
from typing import Final

import torch
from torch import Tensor

from unbounded.extraction.classes import Classes, conflicts_of, length_of
from unbounded.extraction.observation import Observations

#: More states and symbols than these are no machine to be read.
MOST_CLASSES: Final = 80
#: Of one conflict, more cases than these say nothing more.
_CASES: Final = 600
#: How well vectors must tell cases apart, from 0 to 1.1, for a split to be clear, and to be tried.
_CLEAR: Final = 0.9
_FAINT: Final = 0.5
_SYMBOLS_FIRST: Final = 0.15
#: So many different vectors are values, and more are not.
_FEW: Final = 8
_REPEATED: Final = 3
#: Numbers that are as near as this are equal.
_ALIKE: Final = 1e-4


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
        conflicts = conflicts_of(seen, classes)
        if not conflicts:
            classes.closed, classes.determined = True, 1.0
            return classes
        length, classes.determined = length_of(seen, classes)
        if length < least:
            best, least = copy.deepcopy(classes), length
        if classes.count >= most or not _split_one(seen, classes, conflicts, most):
            return best


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
    return any(_split_by_values(seen, classes, group, most) for group, _ in conflicts)


def _split_by_values(seen: Observations, classes: Classes, group: list[int], most: int) -> bool:
    """Make as many of a symbol or of a state as it has vectors, where these are few.

    What is done may depend on several symbols at once, none of which tells the cases apart.
    """
    parents = [seen.nodes[child].parent for child in group]
    for slot, row in enumerate(seen.nodes[parents[0]].read):
        if row is None:
            continue
        values = _values(_read(seen, parents, slot))
        if values is not None and _split_symbol(seen, classes, parents, values, slot, most):
            return True
    state = classes.state[parents[0]]
    members = [number for number, other in enumerate(classes.state) if other == state]
    values = _values(seen.control[members])
    return values is not None and _rename(classes.state, members, values, most)


def _values(vectors: Tensor) -> list[int] | None:
    """Which of their few values each vector has; None where they have one, or hardly repeat."""
    places, numbers = torch.unique((vectors / _ALIKE).round(), dim=0, return_inverse=True)
    most = min(_FEW, len(vectors) // _REPEATED)
    return numbers.tolist() if 1 < len(places) <= most else None


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
