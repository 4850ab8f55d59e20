"""A machine for a^n b^m c^(nm): n is counted down m times, and not lost.

The task is the fifth of the program of Joulin & Mikolov 2015, and not in their paper; the machine
is ours.
"""

from __future__ import annotations

from unbounded.machines.assembly import ONE, Terms, Unit, assemble
from unbounded.models.memory_model import MemoryModel

# The top of each stack: a, to which and from which they are poured, and b.
_FILLED, _POURED, _ROUNDS = "r:0", "r:1", "r:2"
#: Whether at this step the second stack is poured back into the first: at the step before the first
#: one was emptied, or this went on.
_POURS_BACK = {"turns": 1.0, "goes_on": 1.0}


def anbmc_product() -> MemoryModel:
    """Say how a^n b^m c^(nm) goes on: a stack is poured into another and back, once for each b.

    Each c moves one from stack to stack. What is pushed first in a run, or when the pouring turns,
    is marked, and so ends it; what lies below from sequences before is never seen.
    """
    pours_forth = {name: -weight for name, weight in _POURS_BACK.items()}
    twice_forth = {name: 2 * weight for name, weight in pours_forth.items()}
    units = {
        "a": Unit({"x:a": 1.0}),
        "b": Unit({"x:b": 1.0}),
        "c": Unit({"x:c": 1.0}),
        "forth": Unit({"x:c": 1.0, **pours_forth}),
        "back": Unit({"x:c": 1.0, **_POURS_BACK}, above=1.5),
        # The last one is poured forth, or back; between them the pouring back goes on.
        "turns": Unit({"x:c": 2.0, _FILLED: 1.0, **twice_forth}, above=2.5),
        "returns": Unit({"x:c": 1.0, _POURED: 1.0, **_POURS_BACK}, above=2.5),
        "goes_on": Unit({"x:c": 2.0, _POURED: -1.0, "turns": 2.0, "goes_on": 2.0}, above=3.5),
        # The same two, and no b is left.
        "last_forth": Unit({"x:c": 2.0, _FILLED: 1.0, _ROUNDS: 1.0, **twice_forth}, above=3.5),
        "last_back": Unit({"x:c": 1.0, _POURED: 1.0, _ROUNDS: 1.0, **_POURS_BACK}, above=3.5),
        "first_a": Unit({"x:a": 1.0, "a": -1.0}),
        "first_b": Unit({"x:b": 1.0, "b": -1.0}),
        "first_forth": Unit({"x:c": 2.0, "c": -1.0, "returns": 1.0, **twice_forth}, above=1.5),
        "first_back": Unit({"x:c": 1.0, "turns": 1.0}, above=1.5),
    }

    def actions(push: Terms, pop: Terms) -> list[Terms]:
        stays = {name: -weight for name, weight in (*push.items(), *pop.items())}
        return [push, pop, {ONE: 1.0, **stays}]

    heads: dict[str, list[Terms]] = {
        "action": [
            *actions({"a": 1.0, "back": 1.0}, {"forth": 1.0}),
            *actions({"forth": 1.0}, {"back": 1.0}),
            *actions({"b": 1.0}, {"turns": 1.0, "returns": 1.0}),
        ],
        # 1 where it is marked, else 0.
        "value": [
            {"first_a": 2.0, "first_back": 2.0, ONE: -1.0},
            {"first_forth": 2.0, ONE: -1.0},
            {"first_b": 2.0, ONE: -1.0},
        ],
    }
    memory = {"name": "superposition_stack", "count": 3, "depth": 1, "noop": True}
    over = {"last_forth": 2.0, "last_back": 2.0}
    logits: list[Terms] = [{"a": 1.0, **over}, {"b": 1.0}, {"c": 1.0}]
    return assemble("abc", memory, units, heads, logits)
