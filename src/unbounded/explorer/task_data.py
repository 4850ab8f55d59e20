"""A task's data for a page: symbols, layout of a typed source, rule and samples."""

from __future__ import annotations

from typing import Any, Final

from unbounded.errors import ConfigError
from unbounded.explorer.rule_data import no_rule, rule_of
from unbounded.tasks import Batch, LengthRange, ProgramTask, Task
from unbounded.tasks.bit_tasks import BitTask
from unbounded.tasks.streams import StreamTask
from unbounded.tasks.transduction import TransductionTask

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
            [
                f"task {task.name}: {symbols} symbols are too many for a page, which holds "
                f"{MOST_SYMBOLS}; `unbounded evaluate` scores such a run"
            ]
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
        "typed": not isinstance(task, BitTask),
        "rule": rule_of(task),
        "no_rule": "" if rule_of(task) else no_rule(task),
    }


def _laid_out(task: Task) -> tuple[list[int], list[int], list[int]]:
    """Tokens before and after a typed source; the first source token and the number of them."""
    if isinstance(task, TransductionTask):
        return [0], [1], [2, len(task.source_vocabulary)]
    size = len(task.input_vocabulary)
    if isinstance(task, StreamTask):
        return [size - 1], [], [0, size]
    if isinstance(task, ProgramTask) and task.answer_token is not None:
        return [], [task.answer_token], [0, size]
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
