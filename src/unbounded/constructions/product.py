"""A constructed network for a^n b^m c^(nm), which counts n down m times without losing it.

The task is the fifth in the program of Joulin & Mikolov 2015, but is not in their paper. The
network is not from that program.
"""

from __future__ import annotations

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble
from unbounded.models.memory_model import MemoryModel

# The tops of three stacks: of the a, of the stack into which they are poured, and of the b.
_FILLED, _POURED, _ROUNDS = "r:0", "r:1", "r:2"
#: Whether this step pours the second stack back into the first: the first one was emptied at the
#: previous step, or pouring back continues.
_POURS_BACK = {"turns": 1.0, "goes_on": 1.0}


def anbmc_product() -> MemoryModel:
    """Predict a^n b^m c^(nm): pour one stack into another or back, once for each b.

    Each c moves one element between the stacks. The first push in a run, or after the direction of
    pouring changes, is marked and ends the run. Older elements below the marked element are never
    read.
    """
    pours_forth = {name: -weight for name, weight in _POURS_BACK.items()}
    twice_forth = {name: 2 * weight for name, weight in pours_forth.items()}
    units = {
        "a": Unit({"x:a": 1.0}),
        "b": Unit({"x:b": 1.0}),
        "c": Unit({"x:c": 1.0}),
        "forth": Unit({"x:c": 1.0, **pours_forth}),
        "back": Unit({"x:c": 1.0, **_POURS_BACK}, above=1.5),
        # The last element is poured into the second stack, or back. In between, pouring back
        # continues.
        "turns": Unit({"x:c": 2.0, _FILLED: 1.0, **twice_forth}, above=2.5),
        "returns": Unit({"x:c": 1.0, _POURED: 1.0, **_POURS_BACK}, above=2.5),
        "goes_on": Unit({"x:c": 2.0, _POURED: -1.0, "turns": 2.0, "goes_on": 2.0}, above=3.5),
        # The same two units if no b is left.
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
        # The value is 1 for a marked element, otherwise 0.
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
