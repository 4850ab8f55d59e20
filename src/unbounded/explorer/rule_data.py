"""The rule of a task as plain data, from which a page computes the target of a typed source."""

from __future__ import annotations

from typing import Any, Final

from unbounded.explorer.bare_model import NumberedSymbols, NumberedYesNo
from unbounded.tasks import DyckMembership, LengthRange, ProgramTask, Task
from unbounded.tasks.addition import BinaryAddition
from unbounded.tasks.arithmetic import Added, Doubled
from unbounded.tasks.counting import Counting
from unbounded.tasks.derivation import GrammarPairs
from unbounded.tasks.dyck import DyckPrefixes
from unbounded.tasks.grammar import Grammar
from unbounded.tasks.grammars import GENDER, SVO_SOV
from unbounded.tasks.marks import PrioritySort, RepeatedSymbols
from unbounded.tasks.memorization import Memorization
from unbounded.tasks.pair_file import FilePairs
from unbounded.tasks.streams import SequenceSource, StreamTask
from unbounded.tasks.symbols import RandomSymbols
from unbounded.tasks.transduction import PairSource, TransductionTask

#: Grammars with one target per source, so the page may use any derivation.
_DETERMINED: Final = (SVO_SOV, GENDER)


def rule_of(task: Task) -> dict[str, Any] | None:
    """The rule by which the page computes the target of a typed source; None if it cannot.

    explorer/src/machine/rules/ implements each kind; "name" is a variant of it.
    """
    if isinstance(task, TransductionTask):
        return _of_pairs(task.pairs)
    if isinstance(task, StreamTask):
        return _of_stream(task.source)
    if isinstance(task, DyckPrefixes):
        return {"kind": "dyck", "name": task.name, "kinds": 1}
    if isinstance(task, DyckMembership):
        last = not _every_prefix(task)
        return {"kind": "dyck", "name": task.name, "kinds": task.kinds, "last": last}
    return None


def no_rule(task: Task) -> str:
    """The reason why the page knows no target of a typed source, as the end of a sentence."""
    if isinstance(task, ProgramTask):
        return "the page runs no programs; the samples have their truth."
    if isinstance(task, TransductionTask) and isinstance(task.pairs, FilePairs):
        return "the pairs of this task come from a file; the samples have their truth."
    if isinstance(task, TransductionTask) and isinstance(task.pairs, GrammarPairs):
        return "in this grammar a source may have several targets; the samples have their truth."
    if isinstance(task, NumberedSymbols | NumberedYesNo):
        return "the model came without its task; ub.explore(model, task) has one."
    return "the page does not know the rule of this task; the samples have their truth."


def _of_pairs(pairs: PairSource) -> dict[str, Any] | None:
    if isinstance(pairs, RandomSymbols):
        return {"kind": "order", "name": pairs.order}
    if isinstance(pairs, Doubled):
        return {"kind": "digits", "name": "double"}
    if isinstance(pairs, Added):
        return {"kind": "digits", "name": "addition"}
    if isinstance(pairs, RepeatedSymbols):
        return {"kind": "marks", "name": "repeat", "said": pairs.said}
    if isinstance(pairs, PrioritySort):
        return {"kind": "marks", "name": "sort"}
    if isinstance(pairs, GrammarPairs) and pairs.grammar in _DETERMINED:
        return {"kind": "grammar", "name": pairs.grammar.name, "grammar": _rules(pairs.grammar)}
    return None


def _of_stream(source: SequenceSource) -> dict[str, Any] | None:
    if isinstance(source, Counting):
        sizes = {"letters": len(source.alphabet), "repeats": source.repeats}
        return {"kind": "counting", "name": source.form, **sizes}
    if isinstance(source, Memorization):
        return {"kind": "backwards", "name": "memorization"}
    if isinstance(source, BinaryAddition):
        return {"kind": "sum", "name": "binary"}
    return None


def _rules(grammar: Grammar) -> dict[str, Any]:
    """A grammar for the page: rules (left, source, target) and word classes."""
    return {
        "root": grammar.root,
        "rules": [[rule.left, rule.source, rule.target] for rule in grammar.rules],
        "classes": [[part.name, part.source, part.target, part.count] for part in grammar.classes],
    }


def _every_prefix(task: DyckMembership) -> bool:
    """Whether each prefix of a string has a label, not only the whole string."""
    return bool(task.batch(0, "test", 0, 1, LengthRange(2, 2)).mask.all())
