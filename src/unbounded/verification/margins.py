"""How far a network is from an error: of its answers, of its decisions, of what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.memories import Memory
from unbounded.tasks import Batch, pieces
from unbounded.verification.network import Network, Steps, whole

#: A number of the reading that varies by less than this share of the one that varies most says
#: nothing.
_STILL = 1e-3


class Margins(NamedTuple):
    """The margins of some sequences.

    Fields:
        answers: of each step that is judged, the logit of the right answer less that of the best
            other one; infinite at other steps; [B, T]. An answer is right where it is above 0.
        certainty: of each step, of the least decided decision, from 1/choices to 1; 1 beyond the
            sequence's end, [B, T]; None where a memory decides nothing.
        displaced: of each step, over all sequences, how far what is read is from what would be read
            if every decision had been made wholly, as a share of the range of each number that is
            read, [T]; from a half on it is nearer to something else. None where it is not known.
    """

    answers: Tensor
    certainty: Tensor | None
    displaced: Tensor | None


def answer_margins(logits: Tensor, targets: Tensor, mask: Tensor, objective: str) -> Tensor:
    """The margin of each answer, [B, T], infinite where none is judged.

    Args:
        logits: [B, T, V]. targets: int64 [B, T]. mask: bool [B, T].
        objective: "cross_entropy", or "binary" for targets 0 and 1.
    Raises:
        ConfigError: the objective is another: an answer is then not one choice.
    """
    if objective == "binary":
        margins = logits[..., 0] * (2 * targets - 1)
    elif objective == "cross_entropy":
        place = targets.unsqueeze(-1)
        own = logits.gather(-1, place).squeeze(-1)
        margins = own - logits.scatter(-1, place, -torch.inf).amax(dim=-1)
    else:
        raise ConfigError([f"objective {objective!r}: its answers are no single choices"])
    return torch.where(mask, margins, torch.inf)


def margins_of(
    network: Network,
    batch: Batch,
    objective: str,
    *,
    reading: ReadingRange | None = None,
    piece_steps: int = 1000,
) -> Iterator[Margins]:
    """The margins of a batch, piece by piece along time.

    Args:
        network: begins anew with each sequence.
        batch: what it reads, and what is judged.
        objective: of the task.
        reading: says in what range each number read is; None leaves `displaced` out.
        piece_steps: of one piece.
    """
    state: Any = None
    memories: list[Any] = [None, None]
    for start, piece in zip(
        range(0, batch.inputs.shape[1], piece_steps), pieces(batch, piece_steps), strict=True
    ):
        said = _judged(piece)
        steps, state = network.run(piece.inputs, state, said=said, decisions_only=reading is None)
        inside = torch.arange(piece.inputs.shape[1]) < piece.lengths.unsqueeze(1)
        answers = torch.full(piece.mask.shape, torch.inf, dtype=steps.logits.dtype)
        answers[:, said] = answer_margins(
            steps.logits, piece.targets[:, said], piece.mask[:, said], objective
        )
        certainty = network.certainty(steps)
        if certainty is not None:
            certainty = torch.where(inside, certainty, 1.0)
        displaced = None
        if reading is not None and network.memory is not None:
            displaced = reading.displaced(network.memory, steps, memories, inside)
        yield Margins(answers, certainty, displaced)
        if start + piece_steps >= batch.inputs.shape[1]:
            return


def _judged(piece: Batch) -> slice:
    """The steps from the first to the last that is judged in some sequence."""
    steps = piece.mask.any(dim=0).nonzero()[:, 0].tolist()
    return slice(steps[0], steps[-1] + 1) if steps else slice(0, 0)


class ReadingRange:
    """The range of each number that is read, as far as it was seen, and what is displaced in it.

    A number that comes from whole decisions alone has its range; what is read beside them differs
    from that by the rest of a row that a strength of 0.999 leaves, and these rests add up.
    """

    def __init__(self) -> None:
        self._low: Tensor | None = None
        self._high: Tensor | None = None

    def displaced(
        self, memory: Memory[Any, Any], steps: Steps, states: list[Any], inside: Tensor
    ) -> Tensor | None:
        """How far the readings of some steps are displaced, [T]; None where no decision is.

        Args:
            memory: that read.
            steps: with what it was told.
            states: the memory's state as it is and as it would be; those after the steps come in
                their place. None each before the first step.
            inside: bool [B, T], the steps that are there.
        """
        if steps.instruction is None or not any(head.can_harden for head in memory.heads):
            return None
        decided = (whole(*pair) for pair in zip(memory.heads, steps.instruction, strict=True))
        with torch.no_grad():
            told = (memory.Instruction(*steps.instruction), memory.Instruction(*decided))
            (read, states[0]), (wanted, states[1]) = (
                memory.unroll(instructions, state)
                for instructions, state in zip(told, states, strict=True)
            )
        there = inside.unsqueeze(-1)
        low = torch.where(there, wanted, torch.inf).flatten(0, 1).amin(dim=0)
        high = torch.where(there, wanted, -torch.inf).flatten(0, 1).amax(dim=0)
        self._low = low if self._low is None else torch.minimum(low, self._low)
        self._high = high if self._high is None else torch.maximum(high, self._high)
        width = self._high - self._low
        if not bool((width > 0).any()):
            return torch.zeros(inside.shape[1])
        error = torch.where(there, (read - wanted).abs(), 0).amax(dim=0)
        lively = width > _STILL * width.max()
        return (error[:, lively] / width[lively]).amax(dim=-1)
