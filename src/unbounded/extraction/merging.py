"""Merging of states without contradictions: fewer states and fewer gaps in the table.

A split follows the vectors that separate a conflict, and may separate too much. Here each pair of
states is merged on trial, and with it the states to which they then lead (as in learning automata
from examples: Oncina & García 1992).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from unbounded.extraction.classes import Classes, Key, differs, key_of, outcome_of, usual_of
from unbounded.extraction.observation import Observations

Outcome = tuple[Hashable, ...]
#: With more states no pairs are tried.
MOST_TRIED = 40


def merge_states(observations: Observations, classes: Classes) -> Classes:
    """The same classes with as few states as trials find.

    Args:
        seen: the observations of a network.
        classes: closed; others are returned unchanged.
    """
    states = sorted(set(classes.state))
    if not classes.closed or len(states) > MOST_TRIED:
        return classes
    groups: dict[Key, list[Outcome]] = defaultdict(list)
    for child in range(1, len(observations.nodes)):
        groups[key_of(observations, classes, child)].append(
            outcome_of(observations, classes, child)
        )
    table = {key: usual_of(outcomes) for key, outcomes in groups.items()}
    name = {state: state for state in states}
    for place, first in enumerate(states):
        for second in states[place + 1 :]:
            if name[first] != name[second]:
                name = _folded(table, name, first, second) or name
    return Classes([name[state] for state in classes.state], classes.symbol, True, 1.0)


def _folded(
    table: dict[Key, Outcome], name: dict[int, int], first: int, second: int
) -> dict[int, int] | None:
    """The names of the states after a merge; None if it contradicts the table."""
    name = _joined(name, first, second)
    while True:
        outcomes_so_far: dict[Key, Outcome] = {}
        again = False
        for (state, symbol, read), outcome in table.items():
            key = (name[state], symbol, read)
            after = outcome[-1]
            named = (*outcome[:-1], name[after] if isinstance(after, int) else None)
            other = outcomes_so_far.setdefault(key, named)
            part = differs([other, named])
            if part is None:
                # Undetermined parts of one are taken from the other.
                both = zip(other, named, strict=True)
                outcomes_so_far[key] = tuple(b if a is None else a for a, b in both)
                continue
            if part < len(named) - 1:
                return None
            a, b = other[-1], named[-1]
            assert isinstance(a, int)
            assert isinstance(b, int)
            name, again = _joined(name, a, b), True
            break
        if not again:
            return name


def _joined(name: dict[int, int], first: int, second: int) -> dict[int, int]:
    kept, merged = sorted((name[first], name[second]))
    return {state: kept if current == merged else current for state, current in name.items()}
