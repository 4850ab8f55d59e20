"""A constructed network for binary addition: two numbers on stacks, added digit by digit.

The task is from Joulin & Mikolov 2015, section 5.2. The network is not from the paper.
"""

from __future__ import annotations

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks.algorithmic import BinaryAddition

_DIGITS = {"x:0": 1.0, "x:1": 1.0}
_ANSWERS = {"x:=": 1.0, "answering": 1.0}
# Each number has two stacks: one for its digits, and one with a 1 for each digit, which
# distinguishes "no digit" from 0.
_FIRST, _FIRST_THERE, _SECOND, _SECOND_THERE = (f"r:{k}" for k in range(4))


def binary_addition() -> MemoryModel:
    """Add with a carry, lowest digit first, with four superposition stacks."""
    # An empty stack is read as -1. With the weight -0.5 of "there", an empty stack adds as much as
    # a digit 0.
    total = {
        **{_FIRST: 1.0, _FIRST_THERE: -0.5, _SECOND: 1.0, _SECOND_THERE: -0.5},
        "carry": 1.0,
    }
    # Only the symbols of the answer add 4 to a sum, so the units of the sum are on only while
    # answering.
    answer_total = {**total, **dict.fromkeys(_ANSWERS, 4.0)}
    units = {
        "second": Unit({"x:+": 1.0, "second": 1.0, "x:=": -2.0}),
        "answering": Unit({**_ANSWERS, "x:.": -2.0}),
        # The unit is off at the very first input, before which no unit was on, because a stream
        # starts with a symbol that does not belong to a sum.
        "push1": Unit({**_DIGITS, ONE: 1.0, "second": -1.0, "answering": -1.0}, above=1.5),
        "push2": Unit({**_DIGITS, "second": 1.0}, above=1.5),
        "digit": Unit({"x:1": 1.0}),
        # These units are on if the total of two digits and the carry exceeds 0, 1 or 2. The weights
        # of "there" reduce the sum by 1.
        **{f"above{k}": Unit(answer_total, above=4.0 - 1.0 + k + 0.5) for k in range(3)},
        "carry": Unit(answer_total, above=4.0 - 1.0 + 1.5),
        "done": Unit(
            {_FIRST_THERE: -1.0, _SECOND_THERE: -1.0, "carry": -3.0} | dict.fromkeys(_ANSWERS, 6.0),
            above=7.0,
        ),
    }
    actions: list[Terms] = []
    for push in ("push1", "push1", "push2", "push2"):
        actions += [{push: 1.0}, {"answering": 1.0}, {ONE: 1.0, push: -1.0, "answering": -1.0}]
    digit: Terms = {"digit": 2.0, ONE: -1.0}
    heads = {"action": actions, "value": [digit, {ONE: 1.0}, digit, {ONE: 1.0}]}
    logits: dict[str, Terms] = {
        "0": {"answering": 1.0},
        # The output digit is the parity of the total.
        "1": {"above0": 2.0, "above1": -2.0, "above2": 2.0},
        ".": {"done": 3.0},
    }
    memory = {"name": "superposition_stack", "count": 4, "depth": 1, "noop": True}
    alphabet = BinaryAddition.alphabet
    return assemble(alphabet, memory, units, heads, [logits.get(symbol, {}) for symbol in alphabet])
