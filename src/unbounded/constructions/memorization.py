"""A constructed network for memorization as a stream of sequences: 1 2 2 = 2 2 1, and so on.

The task is from Joulin & Mikolov 2015, arXiv:1503.01007, Table 1. The network is not from the
paper.
"""

from __future__ import annotations

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks.algorithmic import SEPARATOR, Memorization


def memorization(symbols: int = 2) -> MemoryModel:
    """Output n symbols in reverse after "=", with a stack; the answer ends with the empty stack.

    Args:
        symbols: size of the dictionary, at least 1.
    Raises:
        ConfigError: `symbols` is out of range.
    """
    alphabet = Memorization(symbols).alphabet
    source_symbols = alphabet[1:]
    shown = either([f"r:{i}" for i in range(symbols)])
    separator = f"x:{SEPARATOR}"
    # Source symbols are pushed. Answer symbols are not pushed, nor is the very first input, because
    # a stream starts with a symbol that does not belong to a sequence. (Before the first step, no
    # unit was on.)
    in_source = {ONE: 1.0, "answering": -1.0}
    units = {
        "answering": Unit({separator: 2.0, "answering": 1.0, **shown}, above=1.5),
        "pushing": Unit(
            {**either([f"x:{symbol}" for symbol in source_symbols]), **in_source}, above=1.5
        ),
    }
    for i, symbol in enumerate(source_symbols):
        units[f"push{i}"] = Unit({f"x:{symbol}": 1.0, **in_source}, above=1.5)
        units[f"say{i}"] = Unit({f"r:{i}": 1.0, separator: 1.0, "answering": 1.0}, above=1.5)
    heads: dict[str, list[Terms]] = {
        "value": [{f"push{i}": 1.0} for i in range(symbols)],
        "push": [is_on("pushing")],
        "pop": [is_on("answering")],
    }
    logits: list[Terms] = [{ONE: 1.0}, *({f"say{i}": 2.0} for i in range(symbols))]
    return assemble(alphabet, {"name": "stack", "width": symbols}, units, heads, logits)
