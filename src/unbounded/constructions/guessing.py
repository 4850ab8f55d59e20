"""A constructed network that guesses the middle of w w^R with a nondeterministic stack.

The language is from Butoi et al. 2025, arXiv:2411.07107. DuSell & Chiang 2020, arXiv:2010.04674,
describe the automaton. The network is not from these papers.
"""

from __future__ import annotations

from typing import Final

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import make_task
from unbounded.tasks.recognition import START

#: States of the automaton. Stack symbol 0 is on the bottom, and the others are the bits.
_FIRST_HALF, _SECOND_HALF = 0, 1
_STATES, _SYMBOLS = 2, 3
#: A string of at most this many symbols has fewer runs.
_MOST_RUNS: Final = 2.0**20


def unmarked_reversal() -> MemoryModel:
    """Recognise w w^R with a nondeterministic stack, which runs all guesses of the middle at once.

    In its first half a run pushes each bit, and in its second half it pops the same bit. Any pop
    may be the first. All runs have the same weight, and a forbidden transition has the weight
    e^-2048, which is 0. A string is in the language if a run has emptied its stack. The probability
    of this run is 1 / (number of runs), which is above 2^-20 for strings of up to 2^20 symbols.
    """
    inputs = make_task("flare", language="unmarked_reversal").input_vocabulary
    tops = _STATES * _SYMBOLS
    # From each state and top: pushes into a state, replacements of the top, pops into a state.
    allowed: dict[tuple[int, int], str] = {(0, tops): START}
    for bit, name in enumerate(inputs[1:], start=1):
        for below in range(_SYMBOLS):
            allowed[_FIRST_HALF * _SYMBOLS + below, _FIRST_HALF * _SYMBOLS + bit] = name
        for state in (_FIRST_HALF, _SECOND_HALF):
            allowed[state * _SYMBOLS + bit, 2 * tops + _SECOND_HALF] = name
    heads: dict[str, list[Terms]] = {
        "action": [
            {ONE: -1.0, **({allowed[top, move]: 1.0} if (top, move) in allowed else {})}
            for top in range(tops)
            for move in range(2 * tops + _STATES)
        ]
    }
    # The stack is empty in the first half before the first symbol.
    is_empty = {f"r:{state * _SYMBOLS}": _MOST_RUNS for state in (_FIRST_HALF, _SECOND_HALF)}
    return assemble(
        inputs,
        {"name": "nondeterministic_stack", "states": _STATES, "symbols": _SYMBOLS},
        {symbol: Unit({f"x:{symbol}": 1.0}) for symbol in inputs},
        heads,
        [{ONE: -1.0, **is_empty}],
        output_read_vector=True,
    )
