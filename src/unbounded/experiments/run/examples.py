"""Run a trained model on one example, for its answer, its labels and its trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.evaluation import answer_to, answers_of, read_symbols
from unbounded.evaluation.answers import answers_json
from unbounded.evaluation.following import head_position
from unbounded.evaluation.gate_columns import gate_columns
from unbounded.evaluation.typed_symbols import with_start
from unbounded.experiments.config.check import evaluation_of
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.run_folder import AnyPath, RunFolder, read_checkpoint
from unbounded.figures import draw_keys, draw_path, draw_tape
from unbounded.files import json_text, storage_errors, write_text
from unbounded.memories.as_data import has_name
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.rnn import Trace, save_trace
from unbounded.rnn.trace import RunTrace, save_run_trace
from unbounded.tasks import Batch, LengthRange, ProgramTask, Task

#: Length of the longest test example that is shown step by step.
_LONGEST = 10_000
#: Number of examples for each range in a run's answers.json.
_SHOWN = 2


def write_answers(model: MemoryModel, planned: Plan, path: Path) -> None:
    """Write a model's answers to some test examples of the training and test lengths.

    The task's test lengths are omitted if the evaluation has only shorter strings, because the time
    and memory of a longer string may be too much.

    Raises:
        StorageError: the file cannot be written.
    """
    task, seed = planned.task, planned.config.seed
    ranges = [planned.train_lengths]
    scored = [LengthRange.parse(text) for text in evaluation_of(planned.config).lengths or ()]
    if not scored or max(each.maximum for each in scored) >= task.test_lengths.minimum:
        ranges.append(task.test_lengths)
    named = {
        str(lengths): answers_of(model, task, task.batch(seed, "test", 0, _SHOWN, lengths))
        for lengths in dict.fromkeys(ranges)
    }
    write_text(path, json_text(answers_json(named), indent=1) + "\n")


def asked(model: MemoryModel, task: Task, text: str) -> Batch:
    """Return a typed source with the model's answer, as a batch of one example.

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
    """The text of the answer in a batch from `asked`, with a note if the end symbol is missing."""
    predicted = batch.targets[0][batch.mask[0]].tolist()
    ended = task.end_token is not None and predicted[-1] == task.end_token
    symbols = [task.output_vocabulary[token] for token in predicted[: len(predicted) - ended]]
    joined = ("" if max(map(len, symbols), default=0) == 1 else " ").join(symbols)
    return f"answer: {joined}{'' if ended or task.end_token is None else ' ... (no end)'}"


def step_lines(model: MemoryModel, task: Task, batch: Batch) -> list[tuple[str, ...]]:
    """Return a heading, and a line for each step with input, output and the memory's gates.

    For a Lie-access memory, the lines also have the keys of the heads.
    """
    steps = int(batch.lengths[0])
    head = ["step", "input", "output"]
    columns = [[str(step + 1) for step in range(steps)]]
    columns += [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    pairs = zip(batch.targets[0].tolist(), batch.mask[0].tolist(), strict=True)
    columns += [[task.output_vocabulary[token] if own else "" for token, own in pairs]]
    run = run_trace(model, task, batch)
    if run is not None and "read_key" in run.steps.arrays:
        for name, title in (("read_key", "read at"), ("write_key", "written at")):
            head.append(title)
            columns.append([_numbers(key) for key in run.steps.arrays[name][0].tolist()])
    _append_gates(run, head, columns)
    return [tuple(head), *zip(*columns, strict=True)]


def _append_gates(run: RunTrace | None, head: list[str], columns: list[list[str]]) -> None:
    """Append a title and a column for each gate of the memory."""
    for title, texts in [] if run is None else gate_columns(run.memory, run.instructions):
        head.append(title)
        columns.append(texts)


def _numbers(value: Any) -> str:
    """Format a number, or numbers separated by blanks. Bars separate several heads."""
    if not isinstance(value, list):
        return f"{value:.2f}"
    bar = any(isinstance(one, list) for one in value)
    return (" | " if bar else " ").join(map(_numbers, value))


def draw_answer_keys(
    model: MemoryModel, task: Task, batch: Batch, folder: Path, title: str
) -> list[Path]:
    """Draw the head positions of a Lie-access memory; draw nothing for other memories."""
    run = run_trace(model, task, batch)
    if run is None or "read_key" not in run.steps.arrays:
        return []
    return draw_keys(run.steps, folder, title=title)


def drawn_text(task: Task, seed: int, length: int) -> str:
    """The first test example of a length, as a person would type its source.

    Args:
        task: has labels or an answer phase.
        seed: of the example. length: in the unit of the task's ranges.
    Raises:
        ConfigError: the length is out of range, or the task has no example of it.
    """
    if not 1 <= length <= _LONGEST:
        raise ConfigError(f"--length: expected 1 to {_LONGEST}, got {length}")
    source = task.example(seed, "test", 0, LengthRange(length, length)).source
    return ("" if isinstance(task, ProgramTask) else " ").join(source)


def typed_word(task: Task, text: str) -> Batch:
    """A typed string as a batch of one example; it need not be balanced.

    Args:
        task: defines the symbols. The text has one-letter symbols, or symbols between blanks.
    Raises:
        ChoiceError: the task does not have a symbol.
        ConfigError: the text has no symbol, and the task does not have the empty string.
    """
    symbols = read_symbols(task, text)
    if not symbols and not task.has_empty:
        raise ConfigError("input: expected at least one symbol, got none")
    symbols = with_start(task, symbols)
    tokens = torch.tensor([[task.input_vocabulary.index(symbol) for symbol in symbols]])
    lengths = torch.tensor([len(symbols)])
    return Batch(tokens, torch.zeros_like(tokens), torch.ones_like(tokens).bool(), lengths)


def prefix_lines(model: MemoryModel, task: Task, word: Batch) -> list[tuple[str, ...]]:
    """Return a heading, and a line for each prefix: last symbol, height and probability of yes.

    With several classes, a line has the likeliest class and its probability. For a tape, a line
    also has the position of each head, which is the location of its greatest weight. The gates of
    the memory follow.
    """
    with torch.no_grad():
        logits = model(word.inputs)[0][0]
    is_binary = task.objective == "binary"
    shares = torch.sigmoid(logits[:, :1]) if is_binary else torch.softmax(logits, dim=-1)
    chances, classes = (values.tolist() for values in shares.max(dim=-1))
    head = ["step", "symbol"]
    columns = [[str(step + 1) for step in range(len(chances))]]
    columns += [[task.input_vocabulary[token] for token in word.inputs[0].tolist()]]
    heights = task.heights(word.inputs)
    if heights is not None:
        head.append("height")
        columns.append([str(height) for height in heights[0].tolist()])
    if not is_binary:
        head.append("output")
        columns.append([task.output_vocabulary[token] for token in classes])
    head.append(f"chance: {task.output_vocabulary[0]}" if is_binary else "chance")
    columns.append([f"{chance:.4f}" for chance in chances])
    run = run_trace(model, task, word)
    for name, positions in _positions(run):
        head.append(name)
        columns.append([f"{position:.1f}" for position in positions.tolist()])
    _append_gates(run, head, columns)
    return [tuple(head), *zip(*columns, strict=True)]


def draw_word(model: MemoryModel, task: Task, word: Batch, folder: Path, title: str) -> list[Path]:
    """Draw the path of a string if its task has heights, and the heads of a tape."""
    paths: list[Path] = []
    heights = task.heights(word.inputs)
    if heights is not None:
        symbols = [task.input_vocabulary[token] for token in word.inputs[0].tolist()]
        paths += draw_path(symbols, heights[0].tolist(), folder, title=title)
    run = run_trace(model, task, word)
    if run is not None and "write_weights" in run.steps.arrays:
        paths += draw_tape(run.steps, folder, title=title)
    return paths


def _positions(run: RunTrace | None) -> list[tuple[str, Tensor]]:
    """The heads of a tape by name, with their positions at each step [T]."""
    if run is None or "write_weights" not in run.steps.arrays:
        return []
    trace = run.steps
    heads = []
    for kind in ("read", "write"):
        positions = head_position(trace.arrays[f"{kind}_weights"][0])
        for number in range(positions.shape[1]):
            name = f"{kind} head {number + 1}" if positions.shape[1] > 1 else f"{kind} head"
            heads.append((name, positions[:, number]))
    return heads


def write_trace(model: MemoryModel, task: Task, batch: Batch, path: Path) -> Path | None:
    """Write the trace of an example as JSON.

    The states are written as safetensors if the memory is custom and so has no registered name.

    Args:
        model, task, batch: as for `run_trace`.
        path: the file without its suffix; its folder is created.
    Returns:
        The file; None for a model without a memory.
    Raises:
        StorageError: the file cannot be written.
    """
    trace = run_trace(model, task, batch)
    if trace is None:
        return None
    with storage_errors(path, "writing trace"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if has_name(trace.memory):
            file = path.with_name(f"{path.name}.json")
            save_run_trace(file, trace)
            return file
        file = path.with_name(f"{path.name}.safetensors")
        save_trace(file, trace.steps)
        return file


FrameT = TypeVar("FrameT")


def course_of(
    run: AnyPath,
    task: Task,
    batch_of: Callable[[MemoryModel], Batch],
    read: Callable[[Trace], FrameT],
) -> dict[int, FrameT]:
    """Return the memory heads on one example at each kept checkpoint, by number of batches.

    Args:
        run: the run's folder, with kept checkpoints (training.keep_checkpoints).
        batch_of: returns the example, which may include the checkpoint's answer.
        read: `figures.read_tape` or `figures.read_keys`.
    Raises:
        ConfigError: the run has no checkpoint, or `read` does not support the memory.
        CheckpointError: a checkpoint cannot be used.
    """
    frames = {}
    for batches, folder in RunFolder(run).kept_checkpoints().items():
        model = read_checkpoint(folder)
        trace = run_trace(model, task, batch_of(model))
        if trace is not None:
            frames[batches] = read(trace.steps)
    return frames
