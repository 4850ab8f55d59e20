"""Agreement of an extracted automaton with its network."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from unbounded.extraction.automaton import Automaton
from unbounded.extraction.program import Program
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, chunks
from unbounded.verification.network import Network


class Agreement(NamedTuple):
    """The agreement of an automaton and its network on some strings.

    Fields:
        strings: number of strings.
        equal: strings with equal outputs wherever an answer is judged.
        left: strings with a case that is not in the automaton's table.
        erring: strings on which the network itself is wrong.
        first: row of the first string with a difference; None for none.
    """

    strings: int
    equal: int
    left: int
    erring: int
    first: int | None


def agreement(automaton: Automaton | Program, model: nn.Module, batch: Batch) -> Agreement:
    """Compare an automaton with a network.

    Args:
        automaton: an automaton or a program; it reads the numbers of the batch's inputs.
        model: the network.
        batch: strings, and the judged steps.
    """
    roomy, _ = with_room(model, batch.inputs.shape[1])
    network = Network(roomy)
    outputs, state = [], None
    for chunk in chunks(batch, 1000):
        steps, state = network.run(chunk.inputs, state, gates_only=True)
        logits = steps.logits
        binary = logits.shape[-1] == 1
        outputs.append((logits[..., 0] > 0).long() if binary else logits.argmax(dim=-1))
    answers = torch.cat(outputs, dim=1).tolist()
    wrong = (torch.cat(outputs, dim=1) != batch.targets) & batch.mask
    incorrect = int(wrong.any(dim=1).sum())
    equal, uncovered, first = 0, 0, None
    for row, length in enumerate(batch.lengths.tolist()):
        steps_of: list[Any] = automaton.run(batch.inputs[row, :length].tolist())
        judged = batch.mask[row].nonzero()[:, 0].tolist()
        is_equal = all(
            place < len(steps_of) and steps_of[place].output == answers[row][place]
            for place in judged
        )
        equal += is_equal
        uncovered += len(steps_of) < length
        if not is_equal and first is None:
            first = row
    return Agreement(len(answers), equal, uncovered, incorrect, first)
