"""Constructed networks for copy, reversal and bigram flip.

The tasks are from Grefenstette et al. 2015, arXiv:1506.02516, section 4.1. The networks are not
from the paper.
"""

from __future__ import annotations

from typing import Final

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.errors import ConfigError
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import make_task
from unbounded.tasks.transduction import SEPARATOR, TransductionTask

#: Signals that are on in the answer: ||| or a step after it.
ANSWERS: Final = {f"x:{SEPARATOR}": 1.0, "answering": 1.0}


def copy(symbols: int = 128) -> MemoryModel:
    """Repeat the source with a queue: push the input, then pop and output the front.

    Args:
        symbols: number of symbols in the task, at least 1.
    Raises:
        ConfigError: `symbols` is out of range.
    """
    return _first_in_memory("copy", "queue", symbols)


def reversal(symbols: int = 128) -> MemoryModel:
    """Reverse the source with a stack: as in `copy`, but the top is the last symbol.

    Args and errors are as for `copy`.
    """
    return _first_in_memory("reversal", "stack", symbols)


def bigram_flip(symbols: int = 128) -> MemoryModel:
    """Swap the two symbols of each pair, with a queue into which the second is pushed first.

    The first of a pair waits in the controller for two steps. Args and errors are as for `copy`.
    """
    task = transduction_task("bigram_flip", symbols)
    places = range(symbols)
    read = reads(task)
    units = {
        "answering": Unit(ANSWERS),
        # The unit "within" is on after the first symbol of a pair.
        "within": Unit({**either(read), "within": -1.0}),
        **_output_units(symbols),
    }
    for i in places:
        units[f"first{i}"] = Unit({read[i]: 1.0, "within": -1.0})
        units[f"waiting{i}"] = Unit({f"first{i}": 1.0})
        # Push the second symbol of a pair at once, and the first after the second has been pushed.
        units[f"push{i}"] = Unit({read[i]: 1.0, "within": 1.0, f"waiting{i}": 2.0}, above=1.5)
    units["pushing"] = Unit(
        {**either(read), "within": 1.0, **{f"waiting{i}": 2.0 for i in places}}, above=1.5
    )
    return _with_one_memory(task, "queue", symbols, units)


def _first_in_memory(name: str, memory: str, symbols: int) -> MemoryModel:
    """Make a network that pushes during the source, then outputs the read vector and pops."""
    task = transduction_task(name, symbols)
    read = reads(task)
    units = {
        "answering": Unit(ANSWERS),
        "pushing": Unit(either(read)),
        **{f"push{i}": Unit({read[i]: 1.0}) for i in range(symbols)},
        **_output_units(symbols),
    }
    return _with_one_memory(task, memory, symbols, units)


def _output_units(symbols: int) -> dict[str, Unit]:
    """Units that output a symbol.

    Such a unit is on if the read vector is its symbol during the answer.
    """
    return {f"say{i}": Unit({f"r:{i}": 1.0, **ANSWERS}, above=1.5) for i in range(symbols)}


def _with_one_memory(
    task: TransductionTask, memory: str, symbols: int, units: dict[str, Unit]
) -> MemoryModel:
    """Assemble a network.

    Units "push0", ... select the value, "pushing" pushes, "answering" pops.
    """
    heads: dict[str, list[Terms]] = {
        "value": [{f"push{i}": 1.0} for i in range(symbols)],
        "push": [is_on("pushing")],
        "pop": [is_on("answering")],
    }
    # Without an active symbol, the end token has the largest logit.
    logits: list[Terms] = [{ONE: 1.0}, *({f"say{i}": 2.0} for i in range(symbols))]
    return assemble(input_names(task), {"name": memory, "width": symbols}, units, heads, logits)


def input_names(task: TransductionTask) -> list[str]:
    """Names of the input symbols. Target symbols that are fed back have separate names."""
    source, target = len(task.source_vocabulary), len(task.target_vocabulary)
    feedback_symbols = len(task.input_vocabulary) - 2 - source
    names = [*task.input_vocabulary[: 2 + source]]
    assert feedback_symbols in (0, target)
    return [*names, *(f"{name} again" for name in task.input_vocabulary[2 + source :])]


def reads(task: TransductionTask) -> list[str]:
    """The signals of the source's symbols."""
    return [f"x:{symbol}" for symbol in task.source_vocabulary]


def transduction_task(name: str, symbols: int) -> TransductionTask:
    """The task of a network. Errors are as for `copy`."""
    task = make_task(name, symbols=symbols)
    if not isinstance(task, TransductionTask):
        raise ConfigError(f"{name}: expected a task with sources and targets")
    return task
