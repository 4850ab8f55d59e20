"""A network taken some steps at a time, with what its memory is told in view."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.layers import MemoryRNN, MemoryRNNState
from unbounded.memories import Memory
from unbounded.memories.head import Head
from unbounded.memories.state import index_state, map_state
from unbounded.models.decisions import controller_outputs
from unbounded.models.discrete import sequence_model


class Steps(NamedTuple):
    """What a network did over some steps.

    Fields:
        hidden: of the controller, [B, T, H].
        logits: [B, T, V].
        instruction: what the memory was told, a field [B, T, ...] for each of its heads; None
            without a memory.
    """

    hidden: Tensor
    logits: Tensor
    instruction: tuple[Tensor, ...] | None


class Network:
    """A copy of a model, in evaluation mode, that shows its hidden units and instructions.

    Args:
        model: a MemoryModel or SequenceModel; it stays as it is.
    Raises:
        ConfigError: `model` is neither.
    """

    def __init__(self, model: nn.Module) -> None:
        self._sequence = copy.deepcopy(sequence_model(model)).eval().requires_grad_(False)
        layer = self._sequence.layer
        self.memory: Memory[Any, Any] | None = (
            layer.memory if isinstance(layer, MemoryRNN) else None
        )

    @property
    def decisions(self) -> tuple[Head, ...]:
        """The memory's heads that are decisions."""
        heads = () if self.memory is None else self.memory.heads
        return tuple(head for head in heads if head.can_harden)

    @torch.no_grad()
    def run(self, inputs: Tensor, state: Any = None) -> tuple[Steps, Any]:
        """Take the next steps.

        Args:
            inputs: tokens, int64 [B, T].
            state: as an earlier call returned it; None begins anew.
        """
        layer = self._sequence.layer
        hidden, state = controller_outputs(self._sequence, inputs, state)
        output = hidden
        if isinstance(layer, MemoryRNN):
            output = layer.read_out(hidden.transpose(0, 1), None).transpose(0, 1)
        steps = Steps(hidden, self._sequence.output(output), self._instruction(hidden, inputs))
        return steps, state

    def certainty(self, steps: Steps) -> Tensor | None:
        """How sure the least decided of the memory's decisions is at each step, [B, T].

        1 where all of them are made wholly; None where a memory makes none, or there is none.
        """
        if steps.instruction is None or self.memory is None:
            return None
        sure = [
            head.certainty(field).reshape(*field.shape[:2], -1).amin(dim=2)
            for head, field in zip(self.memory.heads, steps.instruction, strict=True)
            if head.can_harden
        ]
        return torch.stack(sure).amin(dim=0) if sure else None

    def _instruction(self, hidden: Tensor, inputs: Tensor) -> tuple[Tensor, ...] | None:
        layer = self._sequence.layer
        if not isinstance(layer, MemoryRNN):
            return None
        fields: tuple[Tensor, ...] = tuple(
            field.unflatten(0, hidden.shape[:2]) for field in layer.heads(hidden.flatten(0, 1))
        )
        token = self._sequence.read_only_token
        if token is None:
            return fields
        silent = inputs == token
        return tuple(
            field.masked_fill(silent.view(*silent.shape, *(1,) * (field.dim() - 2)), 0)
            if head.name in layer.memory.write_strengths
            else field
            for head, field in zip(layer.memory.heads, fields, strict=True)
        )


def pick(state: Any, rows: Tensor) -> Any:
    """The rows of a state, of a layer with a memory or of one without."""
    if isinstance(state, MemoryRNNState):
        return index_state(state, rows)
    # A deep LSTM has the layer first: [L, B, H].
    return map_state(lambda part: part[:, rows] if part.dim() == 3 else part[rows], state)


def whole(head: Head, field: Tensor) -> Tensor:
    """The field of a head with each decision made wholly: 0 or 1, or one choice of a softmax."""
    if not head.can_harden:
        return field
    if head.activation == "softmax":
        return F.one_hot(field.argmax(dim=-1), field.shape[-1]).to(field.dtype)
    return (field > 0.5).to(field.dtype)
