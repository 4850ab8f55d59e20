"""The table of the actions and tops of a Stack RNN or List RNN on an input, or of any gates.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import nn

from unbounded.checks import check_symbols
from unbounded.errors import ConfigError
from unbounded.evaluation.gate_columns import choice_text, gate_columns
from unbounded.evaluation.typed_symbols import NOTHING, typed_steps
from unbounded.models.discrete import deciding_layers, sequence_model, superposition_layer
from unbounded.models.memory_room import with_room
from unbounded.rnn import MemoryRNN, Trace
from unbounded.tasks import StreamTask, Task
from unbounded.tasks.task import check_task

#: Number of columns before the columns of the stacks, and the separator of columns.
_SYMBOL_COLUMNS, _GAP = 4, "  "


class _Step(NamedTuple):
    """The prediction of one step; see `ActionRow`."""

    current: str
    following: str
    predicted: str
    probability: float


class ActionRow(NamedTuple):
    """One step.

    Fields:
        current, following: the input symbol, and the next symbol.
        predicted: the likeliest next symbol; "" where the task predicts nothing.
        probability: of the actual next symbol; NaN where the task predicts nothing.
        actions: the heaviest action of each stack or list.
        weights: their weights, 1 for a saturated action.
        tops: the top of each stack, or the cell at each list's HEAD, after the action; of a vector
            its first number.
    """

    current: str
    following: str
    predicted: str
    probability: float
    actions: tuple[str, ...]
    weights: tuple[float, ...]
    tops: tuple[float, ...]


def action_rows(model: nn.Module, task: Task, symbols: Iterable[str]) -> list[ActionRow]:
    """Run a model over symbols, from an empty memory, and record its actions at each step.

    As in training, a stream is preceded by the symbol in
    `StreamTask.before`. A memory with a capacity gets room for all symbols (`with_room`), as in
    scoring. On a running text, the memory keeps its capacity, as in scoring.

    Args:
        model: a MemoryModel or SequenceModel with superposition stacks or lists, hardened
            (`unbounded.models.discretized`) or not.
        task: has the alphabet: a stream, a text, or pairs whose answer is fed back.
        symbols: at least two, from `read_symbols`; a string is read letter by letter. The last one
            is only predicted. For pairs: <s> SOURCE ||| TARGET </s>, or a prefix of it; only the
            symbols after ||| are predicted.
    Raises:
        ConfigError: the model has another memory or alphabet, the task is another one, there are
            fewer than two symbols, or a symbol of a pair is in the wrong place.
        ChoiceError: a symbol is not in the alphabet.
    """
    _, memory = superposition_layer(model)
    steps, trace = _recorded(model, task, symbols)
    weights, actions = trace.arrays["instruction.action"][0].max(dim=-1)
    read = trace.arrays["read_vector"][0].unflatten(-1, (memory.count, -1))
    return [
        ActionRow(
            *step,
            tuple(memory.actions[action] for action in actions[t].tolist()),
            tuple(weights[t].tolist()),
            tuple(read[t, :, 0].tolist()),
        )
        for t, step in enumerate(steps)
    ]


def gate_rows(model: nn.Module, task: Task, symbols: Iterable[str]) -> list[tuple[str, ...]]:
    """Run a model over symbols, and return a heading and a row for each step with all gates.

    Args and errors are as for `action_rows`, but the model may have any memory with gates.
    """
    memory = deciding_layers(model)[0].memory
    steps, trace = _recorded(model, task, symbols)
    fields = {head.name: trace.arrays[f"instruction.{head.name}"][0] for head in memory.heads}
    columns = gate_columns(memory, fields)
    headings = ("current", "next", "predicted", "p(next)", *(title for title, _ in columns))
    gates = zip(*(texts for _, texts in columns), strict=True)
    return [
        headings,
        *((*_cells(*step), *of_step) for step, of_step in zip(steps, gates, strict=True)),
    ]


def _recorded(model: nn.Module, task: Task, symbols: Iterable[str]) -> tuple[list[_Step], Trace]:
    """Run a model over typed symbols: the prediction of each step, and the trace."""
    check_task(task)
    names = list(check_symbols("symbols", symbols))
    sequence = sequence_model(model)
    if sequence.input_vocabulary != len(task.input_vocabulary):
        raise ConfigError(
            f"model: it reads {sequence.input_vocabulary} symbols, but task {task.name} has "
            f"{len(task.input_vocabulary)}"
        )
    if not isinstance(sequence.layer, MemoryRNN):
        raise ConfigError(
            "model: expected a controller with a memory; unbounded explore RUN shows others"
        )
    inputs, targets = typed_steps(task, names)
    symbol_count = len(names)
    if isinstance(task, StreamTask):
        names = [task.before, *names]
        inputs, targets = typed_steps(task, names)
    if task.layout != "text":
        sequence, _ = with_room(sequence, symbol_count - 1)
    tokens = inputs[None].to(sequence.output.weight.device)
    with torch.no_grad():
        hidden, _, trace = sequence.layer(
            sequence.embed(tokens), sequence.started(tokens), return_trace=True
        )
        probabilities = torch.softmax(sequence.logits(hidden)[0], dim=-1).cpu()
    steps = [
        _Step(
            names[t],
            names[t + 1],
            "" if target == NOTHING else task.output_vocabulary[int(probabilities[t].argmax())],
            float("nan") if target == NOTHING else float(probabilities[t, target]),
        )
        for t, target in enumerate(targets.tolist())
    ]
    return steps, trace


def _cells(current: str, following: str, predicted: str, probability: float) -> tuple[str, ...]:
    """The first cells of a row. The probability of a step without a prediction is empty."""
    shown = "" if math.isnan(probability) else f"{probability:.2f}"
    return current, following, predicted, shown


def action_cells(rows: Sequence[ActionRow]) -> list[tuple[str, ...]]:
    """The headings and rows as text, with the columns of the paper's Table 3.

    A soft action is followed by its weight. The probability of a step without a prediction is
    empty.
    """
    count = len(rows[0].actions) if rows else 0
    places = range(1, count + 1)
    headings = (
        *("current", "next", "predicted", "p(next)"),
        *(f"action {place}" for place in places),
        *(f"top {place}" for place in places),
    )
    return [
        headings,
        *(
            (
                *_cells(*row[:4]),
                *map(choice_text, row.actions, row.weights),
                *(f"{top:.2f}" for top in row.tops),
            )
            for row in rows
        ),
    ]


def action_table(rows: Sequence[ActionRow], width: int | None = None) -> str:
    """The headings and rows as aligned text, with the columns of the paper's Table 3.

    Args:
        rows: from `action_rows`.
        width: longest line; further stacks follow in blocks below, with the symbols repeated.
            None for lines of any length.
    """
    lines = action_cells(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    stacks = range((len(widths) - _SYMBOL_COLUMNS) // 2)

    def columns(block: Sequence[int]) -> list[int]:
        actions = [_SYMBOL_COLUMNS + stack for stack in block]
        return [*range(_SYMBOL_COLUMNS), *actions, *(len(stacks) + action for action in actions)]

    blocks: list[list[int]] = [[]]
    for stack in stacks:
        needed = sum(widths[column] + len(_GAP) for column in columns([*blocks[-1], stack]))
        if blocks[-1] and width is not None and needed - len(_GAP) > width:
            blocks.append([])
        blocks[-1].append(stack)
    return "\n\n".join(
        "\n".join(
            _GAP.join(line[column].ljust(widths[column]) for column in columns(block)).rstrip()
            for line in lines
        )
        for block in blocks
    )
