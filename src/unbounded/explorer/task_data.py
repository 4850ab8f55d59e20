"""A task's data for a page: symbols, layout of a typed source, rule and samples."""

from __future__ import annotations

from typing import Any, Final

from unbounded.errors import ConfigError
from unbounded.explorer.bare_model import NumberedSymbols, NumberedYesNo
from unbounded.tasks import (
    Batch,
    DyckMembership,
    LengthRange,
    ProgramTask,
    QuestionTask,
    Task,
)
from unbounded.tasks.algorithmic import BinaryAddition, Counting, Memorization
from unbounded.tasks.bit_tasks import BitTask
from unbounded.tasks.derivation import GrammarPairs
from unbounded.tasks.dyck import DyckPrefixes
from unbounded.tasks.grammar import GENDER, SVO_SOV, Grammar
from unbounded.tasks.pair_file import FilePairs
from unbounded.tasks.streams import SequenceSource, StreamTask
from unbounded.tasks.symbols import Added, Doubled, PrioritySort, RandomSymbols, RepeatedSymbols
from unbounded.tasks.transduction import PairSource, TransductionTask

#: Grammars with one target per source, so the page may use any derivation.
_DETERMINED: Final = (SVO_SOV, GENDER)


def rule_of(task: Task) -> dict[str, Any] | None:
    """The rule by which the page computes the target of a typed source; None without a rule.

    Each kind is implemented in explorer/src/machine/rules/, and "name" is a variant of a kind.
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
    """Why the page cannot compute the target of a typed source, as the end of a sentence."""
    if isinstance(task, ProgramTask):
        return "the page runs no programs; the samples have targets."
    if isinstance(task, TransductionTask) and isinstance(task.pairs, FilePairs):
        return "the pairs of this task come from a file; the samples have targets."
    if isinstance(task, TransductionTask) and isinstance(task.pairs, GrammarPairs):
        return "in this grammar a source may have several targets; the samples have targets."
    if isinstance(task, NumberedSymbols | NumberedYesNo):
        return "the model came without its task; ub.explore(model, task) has one."
    return "the page does not know the rule of this task; the samples have targets."


def _of_pairs(pairs: PairSource) -> dict[str, Any] | None:
    if isinstance(pairs, RandomSymbols):
        return {"kind": "order", "name": pairs.order}
    if isinstance(pairs, Doubled):
        return {"kind": "digits", "name": "double"}
    if isinstance(pairs, Added):
        return {"kind": "digits", "name": "addition"}
    if isinstance(pairs, RepeatedSymbols):
        return {"kind": "marks", "name": "repeat", "sequence_length": pairs.sequence_length}
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
    """Whether each prefix of a string has a label, and not only the full string."""
    return bool(task.batch(0, "test", 0, 1, LengthRange(2, 2)).mask.all())


#: Largest vocabulary in a page.
MOST_SYMBOLS: Final = 4096


def task_data(task: Task, longest: int) -> dict[str, Any]:
    """A task as plain data.

    Args:
        task: a task of any layout but "text".
        longest: longest length that the page proposes.
    Raises:
        ConfigError: the page cannot show the task.
    """
    symbols = max(len(task.input_vocabulary), len(task.output_vocabulary))
    if task.layout == "text" or symbols > MOST_SYMBOLS:
        raise ConfigError(
            f"task {task.name}: {symbols} symbols are too many for a page, which holds "
            f"{MOST_SYMBOLS}; `unbounded evaluate` scores such a run"
        )
    before, after, source = _laid_out(task)
    fed_back = None
    if isinstance(task, TransductionTask) and task.layout == "pairs":
        fed_back = task.output_to_input.tolist()
    return {
        "name": task.name,
        "layout": task.layout,
        "objective": task.objective,
        "inputs": list(task.input_vocabulary),
        "outputs": list(task.output_vocabulary),
        "before": before,
        "after": after,
        "source": source,
        "end_token": task.end_token,
        "output_to_input": fed_back,
        "answer_token": task.answer_token,
        "lengths": [task.train_lengths.minimum, longest],
        # The page generates up to an end symbol, which answers of a known length do not have.
        "typed": not isinstance(task, BitTask | QuestionTask),
        "rule": rule_of(task),
        "no_rule": "" if rule_of(task) else no_rule(task),
    }


def _laid_out(task: Task) -> tuple[list[int], list[int], list[int]]:
    """Tokens before and after a typed source, first source token, and number of source tokens."""
    if isinstance(task, TransductionTask):
        return [0], [1], [2, len(task.source_vocabulary)]
    size = len(task.input_vocabulary)
    if isinstance(task, StreamTask):
        return [size - 1], [], [0, size]
    if isinstance(task, ProgramTask) and task.answer_token is not None:
        return [], [task.answer_token], [0, size]
    if isinstance(task, QuestionTask):
        return [], [task.answer_token], [0, len(task.source_vocabulary)]
    return [], [], [0, size]


def samples_of(task: Task, seed: int, lengths: LengthRange, count: int) -> list[dict[str, Any]]:
    """Test examples as plain data.

    Args:
        seed: the run's seed.
        lengths: range of lengths.
        count: number of examples.
    """
    if isinstance(task, StreamTask):
        return [_stream_sample(task, seed, index, lengths) for index in range(count)]
    batch = task.batch(seed, "test", 0, count, lengths)
    return [_sample(task, batch, row) for row in range(count)]


def _sample(task: Task, batch: Batch, row: int) -> dict[str, Any]:
    steps = int(batch.lengths[row])
    mask = batch.mask[row, :steps]
    first = int(mask.nonzero()[0]) if bool(mask.any()) else steps
    return {
        "inputs": batch.inputs[row, :steps].tolist(),
        "targets": batch.targets[row, :steps].tolist(),
        "mask": mask.int().tolist(),
        # The input of the first answering step belongs to the prompt.
        "prompt": steps if task.layout == "labels" else first + 1,
    }


def _stream_sample(task: StreamTask, seed: int, index: int, lengths: LengthRange) -> dict[str, Any]:
    """Two consecutive sequences; only determined symbols are scored."""
    judged = task.with_sequences(2).judged(seed, "test", index, 1, lengths)
    batch = judged.batch
    steps = int(batch.lengths[0])
    return {
        "inputs": batch.inputs[0, :steps].tolist(),
        "targets": batch.targets[0, :steps].tolist(),
        "mask": (judged.judged[0, :steps] >= 0).int().tolist(),
        "prompt": steps,
    }
