"""A constructed network for Dyck words with any number of kinds of brackets.

The task is from Deleu & Dureau 2016, arXiv:1612.00827. The network is not from the paper.
"""

from __future__ import annotations

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import make_task


def dyck(kinds: int = 1) -> MemoryModel:
    """Classify each prefix as a Dyck word or not, with a stack of open brackets.

    The value pushed on the empty stack is marked, which shows when the last bracket is closed.

    Args:
        kinds: number of kinds of brackets, 1 to 64.
    Raises:
        ConfigError: `kinds` is out of range.
    """
    symbols = make_task("dyck", kinds=kinds).input_vocabulary
    opening = [f"x:{symbol}" for symbol in symbols[:kinds]]
    closing = [f"x:{symbol}" for symbol in symbols[kinds:]]
    shown = [f"r:{i}" for i in range(kinds)]
    marked = f"r:{kinds}"
    # An unmatched closing bracket is detected one step later, and remembered.
    wrong = either(["wrong", *(f"unmatched{i}" for i in range(kinds))])
    units = {
        "wrong": Unit(wrong),
        "pushing": Unit(either(opening)),
        "popping": Unit(either(closing)),
        "marking": Unit({**either(opening), **dict.fromkeys(shown, -1.0)}),
    }
    for i in range(kinds):
        units[f"push{i}"] = Unit({opening[i]: 1.0})
        units[f"unmatched{i}"] = Unit({closing[i]: 1.0, shown[i]: -1.0})
        closes_last = {closing[i]: 1.0, shown[i]: 1.0, marked: 1.0}
        units[f"done{i}"] = Unit({**closes_last, **dict.fromkeys(wrong, -3.0)}, above=2.5)
    heads: dict[str, list[Terms]] = {
        "value": [*({f"push{i}": 1.0} for i in range(kinds)), {"marking": 1.0}],
        "push": [is_on("pushing")],
        "pop": [is_on("popping")],
    }
    yes: Terms = {ONE: -1.0, **{f"done{i}": 2.0 for i in range(kinds)}}
    return assemble(symbols, {"name": "stack", "width": kinds + 1}, units, heads, [yes])
