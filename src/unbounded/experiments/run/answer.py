"""Answers of a trained model to a source, with the positions of its memory heads."""

from __future__ import annotations

from pathlib import Path

from unbounded.evaluation import answer_to, answers_of, read_symbols
from unbounded.evaluation.answers import answers_json
from unbounded.experiments.run.plan import Plan
from unbounded.figures import draw_keys
from unbounded.files import json_text, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.tasks import Batch, ProgramTask, Task

#: Examples per range in a run's answers.json.
_SHOWN = 2


def write_answers(model: MemoryModel, planned: Plan, path: Path) -> None:
    """Write a model's answers to some test examples of the training and test lengths.

    Raises:
        StorageError: the file cannot be written.
    """
    task, seed = planned.task, planned.config.seed
    ranges = dict.fromkeys((planned.train_lengths, task.test_lengths))
    named = {
        str(lengths): answers_of(model, task, task.batch(seed, "test", 0, _SHOWN, lengths))
        for lengths in ranges
    }
    write_text(path, json_text(answers_json(named), indent=1) + "\n")


def asked(model: MemoryModel, task: Task, text: str) -> Batch:
    """A typed source with the model's answer, as a batch of one example.

    Args:
        model: a trained model.
        task: defines the symbols. The text has one-letter symbols, or symbols between blanks. A
            program is read character by character, with # between its lines.
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
    """The answer of a batch from `asked`, and whether it has an end symbol."""
    predicted = batch.targets[0][batch.mask[0]].tolist()
    ended = predicted[-1] == task.end_token
    symbols = [task.output_vocabulary[token] for token in predicted[: len(predicted) - ended]]
    joined = ("" if max(map(len, symbols), default=0) == 1 else " ").join(symbols)
    return f"answer: {joined}{'' if ended else ' ... (no end)'}"


def step_lines(model: MemoryModel, task: Task, batch: Batch) -> list[tuple[str, ...]]:
    """A heading and a line per step, with the input and the output.

    For a Lie-access memory also the keys of its heads and the write strength.
    """
    steps = int(batch.lengths[0])
    head = ["step", "input", "output"]
    columns = [[str(step + 1) for step in range(steps)]]
    columns += [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    pairs = zip(batch.targets[0].tolist(), batch.mask[0].tolist(), strict=True)
    columns += [[task.output_vocabulary[token] if own else "" for token, own in pairs]]
    run = run_trace(model, task, batch)
    trace = None if run is None else run.steps
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
    """Draw the head positions of a Lie-access memory; draw nothing for other memories."""
    run = run_trace(model, task, batch)
    if run is None or "read_key" not in run.steps.arrays:
        return []
    return draw_keys(run.steps, folder, title=title)
