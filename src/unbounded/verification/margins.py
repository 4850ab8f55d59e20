"""Margins, which are the distances of a network's answers, gates and read vectors from errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.memories import Memory
from unbounded.tasks import Batch, chunks
from unbounded.verification.network import Network, Steps, hardened_field

#: A component of the read vector counts only if its range is at least this share of the widest
#: range.
_STILL = 1e-3


class Margins(NamedTuple):
    """The margins of some sequences.

    Fields:
        answers: for each judged step the target's logit minus the greatest other logit; infinite at
            other steps; [B, T]. An answer is correct if it is above 0.
        certainty: for each step, of the least saturated gate, from 1/choices to 1; 1 beyond the
            sequence's end, [B, T]; None for a memory without gates.
        displaced: for each step, over all sequences, how far the read vector is from the read
            vector of hardened gates, as a share of the range of each component, [T]. From 0.5 on it
            is nearer to another one. None if it was not measured.
    """

    answers: Tensor
    certainty: Tensor | None
    displaced: Tensor | None


def answer_margins(logits: Tensor, targets: Tensor, mask: Tensor, objective: str) -> Tensor:
    """The margin of each answer, [B, T], which is infinite at steps that are not scored.

    Args:
        logits: [B, T, V]. targets: int64 [B, T]. mask: bool [B, T].
        objective: "cross_entropy", or "binary" for targets 0 and 1.
    Raises:
        ConfigError: the objective is another: its answers are not single choices.
    """
    if objective == "binary":
        margins = logits[..., 0] * (2 * targets - 1)
    elif objective == "cross_entropy":
        place = targets.unsqueeze(-1)
        target_logits = logits.gather(-1, place).squeeze(-1)
        margins = target_logits - logits.scatter(-1, place, -torch.inf).amax(dim=-1)
    else:
        raise ConfigError(f"objective {objective!r}: its answers are not single choices")
    return torch.where(mask, margins, torch.inf)


def margins_of(
    network: Network,
    batch: Batch,
    objective: str,
    *,
    read_vector: ReadVectorRange | None = None,
    chunk_steps: int = 1000,
) -> Iterator[Margins]:
    """The margins of a batch, chunk by chunk along time.

    Args:
        network: starts from its initial state with each sequence.
        batch: inputs, and the judged steps.
        objective: the task's objective.
        read_vector: holds the ranges of the read vector's components; None skips `displaced`.
        chunk_steps: steps of a chunk. A bidirectional network gets all steps as one chunk.
    """
    lengths: Tensor | None = None
    if network.in_one_call:
        chunk_steps, lengths = batch.inputs.shape[1], batch.lengths
    state = network.started(batch)
    memories: list[Any] = [None if state is None else state.memory] * 2
    for start, chunk in zip(
        range(0, batch.inputs.shape[1], chunk_steps), chunks(batch, chunk_steps), strict=True
    ):
        judged_steps = _judged(chunk)
        steps, state = network.run(
            chunk.inputs,
            state,
            lengths,
            logit_steps=judged_steps,
            gates_only=read_vector is None,
        )
        inside = torch.arange(chunk.inputs.shape[1]) < chunk.lengths.unsqueeze(1)
        answers = torch.full(chunk.mask.shape, torch.inf, dtype=steps.logits.dtype)
        answers[:, judged_steps] = answer_margins(
            steps.logits, chunk.targets[:, judged_steps], chunk.mask[:, judged_steps], objective
        )
        certainty = network.certainty(steps)
        if certainty is not None:
            certainty = torch.where(inside, certainty, 1.0)
        displaced = None
        if read_vector is not None and network.memory is not None:
            displaced = read_vector.displaced(network.memory, steps, memories, inside)
        yield Margins(answers, certainty, displaced)
        if start + chunk_steps >= batch.inputs.shape[1]:
            return


def _judged(chunk: Batch) -> slice:
    """The steps from the first to the last scored step of a sequence."""
    steps = chunk.mask.any(dim=0).nonzero()[:, 0].tolist()
    return slice(steps[0], steps[-1] + 1) if steps else slice(0, 0)


class ReadVectorRange:
    """The observed range of each component of the read vector, and displacements within it.

    The range is measured with hardened gates. The actual read vector differs by the remainders of
    rows that a strength of 0.999 leaves. These remainders add up.
    """

    def __init__(self) -> None:
        self._low: Tensor | None = None
        self._high: Tensor | None = None

    def displaced(
        self, memory: Memory[Any, Any], steps: Steps, states: list[Any], inside: Tensor
    ) -> Tensor | None:
        """The displacements of the read vectors of some steps, [T]; None without gates.

        Args:
            memory: the memory.
            steps: with the memory's instructions.
            states: the memory's actual and hardened state; replaced by those after the steps. None
                is the default initial state.
            inside: bool [B, T], the steps within the sequences.
        """
        if steps.instruction is None or not any(head.can_harden for head in memory.heads):
            return None
        saturated = (
            hardened_field(*pair) for pair in zip(memory.heads, steps.instruction, strict=True)
        )
        with torch.no_grad():
            instructions_of_both = (
                memory.Instruction(*steps.instruction),
                memory.Instruction(*saturated),
            )
            (read, states[0]), (expected, states[1]) = (
                memory.unroll(instructions, state)
                for instructions, state in zip(instructions_of_both, states, strict=True)
            )
        is_inside = inside.unsqueeze(-1)
        low = torch.where(is_inside, expected, torch.inf).flatten(0, 1).amin(dim=0)
        high = torch.where(is_inside, expected, -torch.inf).flatten(0, 1).amax(dim=0)
        self._low = low if self._low is None else torch.minimum(low, self._low)
        self._high = high if self._high is None else torch.maximum(high, self._high)
        width = self._high - self._low
        if not bool((width > 0).any()):
            return torch.zeros(inside.shape[1])
        error = torch.where(is_inside, (read - expected).abs(), 0).amax(dim=0)
        is_varying = width > _STILL * width.max()
        return (error[:, is_varying] / width[is_varying]).amax(dim=-1)
