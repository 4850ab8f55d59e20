"""A trained model's labels and memory heads for each prefix of a typed string."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.evaluation import read_symbols
from unbounded.evaluation.following import head_position
from unbounded.figures import draw_path, draw_tape
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.tasks import Batch, Task


def typed_word(task: Task, text: str) -> Batch:
    """A typed string as a batch of one example; it need not be balanced.

    Args:
        task: defines the symbols. The text has one-letter symbols, or symbols between blanks.
    Raises:
        ChoiceError: the task does not have a symbol.
        ConfigError: the text has no symbol.
    """
    symbols = read_symbols(task, text)
    if not symbols:
        raise ConfigError(["input: expected at least one symbol, got none"])
    tokens = torch.tensor([[task.input_vocabulary.index(symbol) for symbol in symbols]])
    lengths = torch.tensor([len(symbols)])
    return Batch(tokens, torch.zeros_like(tokens), torch.ones_like(tokens).bool(), lengths)


def prefix_lines(model: MemoryModel, task: Task, word: Batch) -> list[tuple[str, ...]]:
    """A heading and a line per prefix: its last symbol, its height, the probability of yes.

    For a tape also the position of each head: the location of its greatest weight.
    """
    with torch.no_grad():
        chances = torch.sigmoid(model(word.inputs)[0][0, :, 0]).tolist()
    head = ["step", "symbol"]
    columns = [[str(step + 1) for step in range(len(chances))]]
    columns += [[task.input_vocabulary[token] for token in word.inputs[0].tolist()]]
    heights = task.heights(word.inputs)
    if heights is not None:
        head.append("height")
        columns.append([str(height) for height in heights[0].tolist()])
    head.append(f"chance: {task.output_vocabulary[0]}")
    columns.append([f"{chance:.4f}" for chance in chances])
    for name, positions in _positions(model, task, word):
        head.append(name)
        columns.append([f"{position:.1f}" for position in positions.tolist()])
    return [tuple(head), *zip(*columns, strict=True)]


def draw_word(model: MemoryModel, task: Task, word: Batch, folder: Path, title: str) -> list[Path]:
    """Draw the path of a string, if it has one, and the heads of a tape."""
    paths: list[Path] = []
    heights = task.heights(word.inputs)
    if heights is not None:
        symbols = [task.input_vocabulary[token] for token in word.inputs[0].tolist()]
        paths += draw_path(symbols, heights[0].tolist(), folder, title=title)
    run = run_trace(model, task, word)
    if run is not None and "write_weights" in run.steps.arrays:
        paths += draw_tape(run.steps, folder, title=title)
    return paths


def _positions(model: MemoryModel, task: Task, word: Batch) -> list[tuple[str, Tensor]]:
    """The heads of a tape by name, with their positions at each step [T]."""
    run = run_trace(model, task, word)
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
