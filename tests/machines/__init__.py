"""Discrete machines whose weights were written by hand, for tests and pictures."""

from __future__ import annotations

from typing import Any

import torch

from unbounded.models import MemoryModel
from unbounded.old_models import upgraded_keywords

#: Columns a, b, then the two topmost cells of the stack; rows: a was read, b was read and more than
#: one cell is left, b was read and this pops the last one. A full cell holds 0.5, an empty one -1.
UNITS = [[40.0, -40.0, 0.0, 0.0], [-40.0, 10.0, 0.0, 40.0], [-60.0, -10.0, 0.0, -40.0]]
#: PUSH for the first unit, POP for the others.
ACTIONS = [[9.0, 0.0, 0.0], [0.0, 9.0, 9.0]]
#: The logits of a and b.
OUTPUT = [[9.0, 0.0, 9.0], [0.0, 9.0, 0.0]]


def stream_model(vocabulary: int, **flat: Any) -> MemoryModel:
    """A network of Joulin & Mikolov by the flat keywords of version 0.1: 40 units, 10 stacks."""
    return MemoryModel(**upgraded_keywords({"vocabulary": vocabulary, **flat}))


def counter(count: int = 1, place: int = 0, *, noop: bool = False) -> MemoryModel:
    """Predicts a^n b^n with one stack, for any n.

    Args:
        count: stacks; those that are not needed have random actions and values, unread.
        place: of the stack that is needed.
        noop: whether stacks have a third action, which this machine never takes.
    """
    torch.manual_seed(0)
    model = stream_model(
        2, hidden_size=3, count=count, noop=noop, backend="reference"
    ).requires_grad_(False)
    layer = model.sequence.layer
    actions = len(layer.memory.actions)
    own = slice(actions * place, actions * place + 2)
    layer.controller.weight_ih.zero_()
    layer.controller.weight_ih[:, :2] = torch.tensor(UNITS)[:, :2]
    layer.controller.weight_ih[:, 2 + 2 * place : 4 + 2 * place] = torch.tensor(UNITS)[:, 2:]
    layer.heads.weight.normal_()
    layer.heads.weight[own] = torch.tensor(ACTIONS)
    if noop:
        layer.heads.weight[own.stop] = -20.0
    layer.heads.weight[actions * count + place] = 0.0  # the value pushed is sigma(0)
    model.sequence.output.weight.copy_(torch.tensor(OUTPUT))
    return model.requires_grad_(True)
