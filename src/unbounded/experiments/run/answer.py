"""A trained model that is asked something: what it says, where its heads are, and how that came."""

from __future__ import annotations

import tempfile
from pathlib import Path

from unbounded.evaluation import answer_to, answers_of, read_symbols
from unbounded.evaluation.answers import answers_json
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.traces import trace_of, write_trace
from unbounded.figures import draw_keys
from unbounded.files import json_text, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Batch, ProgramTask, Task

#: Examples of each range in a run's answers.json.
_SHOWN = 2


def write_answers(model: MemoryModel, planned: Plan, path: Path) -> None:
    """Write what a model says to some test examples of the lengths of training and of the test.

    Raises:
        StorageError: the disk refused.
    """
    task, seed = planned.task, planned.config.seed
    ranges = dict.fromkeys((planned.train_lengths, task.test_lengths))
    named = {
        str(lengths): answers_of(model, task, task.batch(seed, "test", 0, _SHOWN, lengths))
        for lengths in ranges
    }
    write_text(path, json_text(answers_json(named), indent=1) + "\n")


def asked(model: MemoryModel, task: Task, text: str) -> Batch:
    """A source that a person typed with what a model answers, as a batch of one example.

    Args:
        model: a trained one.
        task: knows the symbols; each is a letter, or they stand between blanks. A program is taken
            character by character, with # between its lines.
    Raises:
        ConfigError: the task has no answer phase, the source is empty or has an unknown symbol.
    """
    if isinstance(task, ProgramTask):
        return answer_to(model, task, text)
    if task.answer_token is None:
        return answer_to(model, task, ())
    symbols = text.split() if len(text.split()) > 1 else [text]
    if symbols[0] not in task.input_vocabulary:
        symbols = read_symbols(task, text)
    return answer_to(model, task, symbols)


def answer_text(task: Task, batch: Batch) -> str:
    """The answer of a batch that `asked` made, and whether it has an end."""
    said = batch.targets[0][batch.mask[0]].tolist()
    ended = said[-1] == task.end_token
    symbols = [task.output_vocabulary[token] for token in said[: len(said) - ended]]
    joined = ("" if max(map(len, symbols), default=0) == 1 else " ").join(symbols)
    return f"answer: {joined}{'' if ended else ' ... (no end)'}"


def step_lines(model: MemoryModel, task: Task, batch: Batch) -> list[tuple[str, ...]]:
    """A line for each step, headings first: what is read and what is said.

    Of a Lie-access memory also where its heads are and how strongly it writes.
    """
    steps = int(batch.lengths[0])
    head = ["step", "read", "said"]
    columns = [[str(step + 1) for step in range(steps)]]
    columns += [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    pairs = zip(batch.targets[0].tolist(), batch.mask[0].tolist(), strict=True)
    columns += [[task.output_vocabulary[token] if own else "" for token, own in pairs]]
    trace = trace_of(model, task, batch)
    if trace is not None and "read_key" in trace.arrays:
        for name, title in (("read_key", "read at"), ("write_key", "written at")):
            head.append(title)
            keys = trace.arrays[name][0].tolist()
            columns.append([" ".join(f"{number:.2f}" for number in key) for key in keys])
        head.append("strength")
        strengths = trace.arrays["instruction.strength"][0].tolist()
        columns.append([f"{strength:.3f}" for strength in strengths])
    return [tuple(head), *zip(*columns, strict=True)]


def draw_answer_keys(
    model: MemoryModel, task: Task, batch: Batch, folder: Path, title: str
) -> list[Path]:
    """Draw where the heads of a Lie-access memory were; nothing of another memory."""
    with tempfile.TemporaryDirectory() as scratch:
        trace = trace_of(model, task, batch)
        file = write_trace(model, task, batch, Path(scratch) / "answer")
        if trace is None or file is None or "read_key" not in trace.arrays:
            return []
        return draw_keys(file, folder, title=title)
