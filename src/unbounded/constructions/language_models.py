"""Constructed networks for two languages of DuSell & Chiang 2020 and 2023 whose middle is marked.

The languages are from arXiv:2010.04674 and arXiv:2210.01343. The networks are not from the papers.
"""

from __future__ import annotations

from typing import Final

from unbounded.checks import check_choice
from unbounded.constructions.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import make_task

_MARK: Final = "#"
_MEMORIES: Final = {"marked_reversal": "stack", "marked_copy": "queue"}


def stack_language(language: str = "marked_reversal", symbols: int = 2) -> MemoryModel:
    """Predict w # w^R with a stack, or w # w with a queue: push w, then pop and output.

    Before the mark all symbols have the same logit. Only what follows is determined.

    Args:
        language: marked_reversal or marked_copy.
        symbols: kinds of symbols, at least 1.
    Raises:
        ChoiceError: the language is another. ConfigError: `symbols` is out of range.
    """
    check_choice("language", language, _MEMORIES)
    inputs = make_task("stack_language", language=language, symbols=symbols).input_vocabulary
    read = [f"x:{symbol}" for symbol in inputs[1:-1]]
    answers = {f"x:{_MARK}": 1.0, "answering": 1.0}
    units = {
        "answering": Unit(answers),
        "pushing": Unit({**either(read), "answering": -1.0}),
        **{f"push{i}": Unit({signal: 1.0}) for i, signal in enumerate(read)},
        **{f"say{i}": Unit({f"r:{i}": 1.0, **answers}, above=1.5) for i in range(symbols)},
    }
    heads: dict[str, list[Terms]] = {
        "value": [{f"push{i}": 1.0} for i in range(symbols)],
        "push": [is_on("pushing")],
        "pop": [is_on("answering")],
    }
    end: Terms = {ONE: -1.0, "answering": 1.0}
    symbol_logits: list[Terms] = [{"answering": -1.0, f"say{i}": 2.0} for i in range(symbols)]
    memory = {"name": _MEMORIES[language], "width": symbols}
    return assemble(inputs, memory, units, heads, [end, *symbol_logits, {"answering": -1.0}])
