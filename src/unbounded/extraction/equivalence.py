"""Does an extracted machine say what its network says?"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from unbounded.extraction.machine import Machine
from unbounded.extraction.program import Program
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, pieces
from unbounded.verification.network import Network


class Agreement(NamedTuple):
    """How far a machine and its network agree on some words.

    Fields:
        words: how many.
        equal: those in which both say the same wherever an answer is judged.
        left: those in which the machine came to a case that its table does not have.
        erring: those in which the network itself is wrong.
        first: row of the first word in which they differ; None where there is none.
    """

    words: int
    equal: int
    left: int
    erring: int
    first: int | None


def agreement(machine: Machine | Program, model: nn.Module, batch: Batch) -> Agreement:
    """Compare a machine with a network.

    Args:
        machine: or a program; it reads the numbers of the batch's inputs.
        model: the network.
        batch: words, and where an answer is judged.
    """
    roomy, _ = with_room(model, batch.inputs.shape[1])
    network = Network(roomy)
    said, state = [], None
    for piece in pieces(batch, 1000):
        steps, state = network.run(piece.inputs, state, decisions_only=True)
        logits = steps.logits
        binary = logits.shape[-1] == 1
        said.append((logits[..., 0] > 0).long() if binary else logits.argmax(dim=-1))
    answers = torch.cat(said, dim=1).tolist()
    wrong = (torch.cat(said, dim=1) != batch.targets) & batch.mask
    erring = int(wrong.any(dim=1).sum())
    equal, left, first = 0, 0, None
    for row, length in enumerate(batch.lengths.tolist()):
        steps_of: list[Any] = machine.run(batch.inputs[row, :length].tolist())
        judged = batch.mask[row].nonzero()[:, 0].tolist()
        same = all(
            place < len(steps_of) and steps_of[place].says == answers[row][place]
            for place in judged
        )
        equal += same
        left += len(steps_of) < length
        if not same and first is None:
            first = row
    return Agreement(len(answers), equal, left, erring, first)
