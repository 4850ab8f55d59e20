"""What a Stack RNN or List RNN does with an input: the table of its actions and tops.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from unbounded.errors import ConfigError
from unbounded.layers import MemoryRNN
from unbounded.memories import SuperpositionMemory
from unbounded.models import SequenceModel
from unbounded.tasks import StreamTask


class ActionRow(NamedTuple):
    """One step.

    Fields:
        current, following: the symbol that was read, and the one that comes next.
        predicted: the likeliest next symbol.
        probability: of the one that does come next.
        actions: the heaviest action of each stack or list.
        weights: their weights, 1 where an action is decided.
        tops: the top of each stack, or the cell at each list's HEAD, after the action.
    """

    current: str
    following: str
    predicted: str
    probability: float
    actions: tuple[str, ...]
    weights: tuple[float, ...]
    tops: tuple[float, ...]


def action_rows(model: SequenceModel, task: StreamTask, symbols: Iterable[str]) -> list[ActionRow]:
    """Run a model over symbols, from an empty memory, and say what it does at each step.

    Args:
        model: its layer is a MemoryRNN with superposition stacks or lists.
        task: knows the alphabet.
        symbols: at least two; a string is read letter by letter. The last one is only predicted.
    Raises:
        ConfigError: the model has another memory, or there are fewer than two symbols.
        ChoiceError: a symbol is not in the alphabet.
    """
    layer = model.layer
    if not isinstance(layer, MemoryRNN) or not isinstance(layer.memory, SuperpositionMemory):
        raise ConfigError(["model: expected a MemoryRNN with superposition stacks or lists"])
    tokens = task.encode(symbols)
    if len(tokens) < 2:
        raise ConfigError([f"symbols: expected at least two, got {len(tokens)}"])
    device = model.output.weight.device
    with torch.no_grad():
        embedded = model.embed(tokens[None, :-1].to(device))
        hidden, _, trace = layer(embedded, return_trace=True)
        chances = torch.softmax(model.output(hidden)[0], dim=-1).cpu()
    weights, actions = trace.arrays["instruction.action"][0].max(dim=-1)
    read = trace.arrays["reading"][0].unflatten(-1, (layer.memory.count, layer.memory.depth))
    names, alphabet = layer.memory.actions, task.output_vocabulary
    following = tokens[1:]
    return [
        ActionRow(
            alphabet[tokens[t]],
            alphabet[following[t]],
            alphabet[int(chances[t].argmax())],
            float(chances[t, following[t]]),
            tuple(names[action] for action in actions[t].tolist()),
            tuple(weights[t].tolist()),
            tuple(read[t, :, 0].tolist()),
        )
        for t in range(len(following))
    ]


def action_table(rows: Sequence[ActionRow]) -> str:
    """The rows as aligned text, with the columns of the paper's Table 3."""
    count = len(rows[0].actions) if rows else 0
    places = range(1, count + 1)
    lines = [
        (
            *("current", "next", "predicted", "p(next)"),
            *(f"action {place}" for place in places),
            *(f"top {place}" for place in places),
        )
    ]
    lines += [
        (
            *(row.current, row.following, row.predicted, f"{row.probability:.2f}"),
            *row.actions,
            *(f"{top:.2f}" for top in row.tops),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
