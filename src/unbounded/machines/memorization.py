"""A machine for memorization as a stream: 1 2 2 = 2 2 1, one after the other.

The task is that of Joulin & Mikolov 2015, arXiv:1503.01007, Table 1; the machine is ours.
"""

from __future__ import annotations

from unbounded.machines.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks.memorization import SEPARATOR, Memorization


def memorization(symbols: int = 2) -> MemoryModel:
    """Say n symbols backwards after "=", with a stack; the answer is over when the stack is empty.

    Args:
        symbols: size of the dictionary, at least 1.
    Raises:
        ConfigError: `symbols` is out of range.
    """
    alphabet = Memorization(symbols).alphabet
    words = alphabet[1:]
    shown = either([f"r:{i}" for i in range(symbols)])
    separator = f"x:{SEPARATOR}"
    # A word's symbol is pushed, but not an answer's, nor what is read first of all: a stream
    # begins with a symbol of no word. (At the first step no unit was on before.)
    of_word = {ONE: 1.0, "answering": -1.0}
    units = {
        "answering": Unit({separator: 2.0, "answering": 1.0, **shown}, above=1.5),
        "pushing": Unit({**either([f"x:{word}" for word in words]), **of_word}, above=1.5),
    }
    for i, word in enumerate(words):
        units[f"push{i}"] = Unit({f"x:{word}": 1.0, **of_word}, above=1.5)
        units[f"say{i}"] = Unit({f"r:{i}": 1.0, separator: 1.0, "answering": 1.0}, above=1.5)
    heads: dict[str, list[Terms]] = {
        "value": [{f"push{i}": 1.0} for i in range(symbols)],
        "push": [is_on("pushing")],
        "pop": [is_on("answering")],
    }
    logits: list[Terms] = [{ONE: 1.0}, *({f"say{i}": 2.0} for i in range(symbols))]
    return assemble(alphabet, {"name": "stack", "width": symbols}, units, heads, logits)
