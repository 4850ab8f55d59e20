"""States that nothing contradicts are one: the same table with fewer of them, and fewer gaps.

A split goes by the vectors that tell a conflict apart, and may part more than it had to. Here each
two states are taken for one on trial, and with them those to which they then lead (as automata are
learned from examples: Oncina & García 1992).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from unbounded.extraction.classes import Classes, Key, differs, key_of, outcome_of, usual_of
from unbounded.extraction.observation import Observations

Outcome = tuple[Hashable, ...]
#: Of more states not every two are tried.
MOST_TRIED = 40


def merge_states(seen: Observations, classes: Classes) -> Classes:
    """The same classes with as few states as trials find.

    Args:
        seen: what a network did.
        classes: closed; others stay as they are.
    """
    states = sorted(set(classes.state))
    if not classes.closed or len(states) > MOST_TRIED:
        return classes
    groups: dict[Key, list[Outcome]] = defaultdict(list)
    for child in range(1, len(seen.nodes)):
        groups[key_of(seen, classes, child)].append(outcome_of(seen, classes, child))
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
    """The names of the states when two are one; None where that contradicts the table."""
    name = _joined(name, first, second)
    while True:
        seen: dict[Key, Outcome] = {}
        again = False
        for (state, symbol, read), outcome in table.items():
            key = (name[state], symbol, read)
            after = outcome[-1]
            named = (*outcome[:-1], name[after] if isinstance(after, int) else None)
            other = seen.setdefault(key, named)
            part = differs([other, named])
            if part is None:
                # What the one leaves open the other may say.
                both = zip(other, named, strict=True)
                seen[key] = tuple(b if a is None else a for a, b in both)
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
    kept, gone = sorted((name[first], name[second]))
    return {state: kept if own == gone else own for state, own in name.items()}
