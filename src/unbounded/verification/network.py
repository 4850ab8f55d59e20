"""A network that runs some steps at a time and shows its memory's instructions."""

from __future__ import annotations

import copy
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.memories import Memory
from unbounded.memories.core import Head
from unbounded.models.discrete import sequence_model
from unbounded.models.gates import controller_outputs
from unbounded.rnn import MemoryLayer, MemoryRNN
from unbounded.rnn.heads import apply_heads
from unbounded.rnn.on_device import on_device
from unbounded.rnn.read_only import silent_steps
from unbounded.tasks import Batch

_ALL: Final = slice(None)


class Steps(NamedTuple):
    """A network's outputs over some steps.

    Fields:
        hidden: of the controller, [B, T, H].
        logits: [B, T, V], of the requested steps.
        instruction: the memory's instruction, a field [B, T, ...] for each of its heads; None
            without a memory, or if only the gates were requested.
        gates: the fields of the gates alone, in their order.
    """

    hidden: Tensor
    logits: Tensor
    instruction: tuple[Tensor, ...] | None
    gates: tuple[Tensor, ...]


class Network:
    """A copy of a model in evaluation mode on the CPU, which records units and instructions.

    Args:
        model: a MemoryModel or SequenceModel; it is not changed.
    Raises:
        ConfigError: `model` is neither.
    """

    def __init__(self, model: nn.Module) -> None:
        sequence = on_device(copy.deepcopy(sequence_model(model)), torch.device("cpu"))
        self._sequence = sequence.eval().requires_grad_(False)
        layer = self._sequence.layer
        self.memory: Memory[Any, Any] | None = (
            layer.memory if isinstance(layer, MemoryRNN) else None
        )

    @property
    def gates(self) -> tuple[Head, ...]:
        """The memory's heads that are gates."""
        heads = () if self.memory is None else self.memory.heads
        return tuple(head for head in heads if head.can_harden)

    @property
    def in_one_call(self) -> bool:
        """Whether `run` needs all steps of a sequence at once, as a bidirectional layer does."""
        return bool(getattr(self._sequence.layer, "bidirectional", False))

    def started(self, batch: Batch) -> Any:
        """The state with which the sequences of a batch start; None for the default initial state.

        A memory that uses the lengths of its sequences needs this state if the first call of `run`
        has not all their steps.
        """
        return self._sequence.started(batch.inputs, batch.lengths)

    @torch.no_grad()
    def run(
        self,
        inputs: Tensor,
        state: Any = None,
        lengths: Tensor | None = None,
        *,
        logit_steps: slice = _ALL,
        gates_only: bool = False,
    ) -> tuple[Steps, Any]:
        """Run the next steps.

        Args:
            inputs: tokens, int64 [B, T].
            state: of an earlier call, or `started`; None is the default initial state.
            lengths: int64 [B], which `in_one_call` needs: padding would change earlier outputs.
            logit_steps: the steps whose logits are returned.
            gates_only: whether to compute only the gates of the instruction. The other heads are
                most of the work, apart from the recurrence.
        """
        layer, token = self._sequence.layer, self._sequence.read_only_token
        silent = None if token is None else silent_steps(inputs == token, state)
        hidden, state = controller_outputs(self._sequence, inputs, state, lengths)
        output = hidden[:, logit_steps]
        if isinstance(layer, MemoryRNN):
            hidden = hidden[..., : layer.hidden_size]
            part = layer.only_layer()
            output = part.read_out(output.transpose(0, 1), None).transpose(0, 1)
        logits = self._sequence.logits(output)
        if not isinstance(layer, MemoryRNN):
            return Steps(hidden, logits, None, ()), state
        heads = self.gates if gates_only else layer.memory.heads
        fields = self._head_fields(layer.only_layer(), heads, hidden, silent)
        gates = tuple(field for head, field in zip(heads, fields, strict=True) if head.can_harden)
        return Steps(hidden, logits, None if gates_only else fields, gates), state

    def certainty(self, steps: Steps) -> Tensor | None:
        """The certainty of the least saturated gate at each step, [B, T].

        The certainty is 1 if all gates are saturated, and None without a memory or without gates.
        """
        certainties = [
            head.certainty(field).reshape(*field.shape[:2], -1).amin(dim=2)
            for head, field in zip(self.gates, steps.gates, strict=True)
        ]
        return torch.stack(certainties).amin(dim=0) if certainties else None

    def _head_fields(
        self, layer: MemoryLayer, heads: tuple[Head, ...], hidden: Tensor, silent: Tensor | None
    ) -> tuple[Tensor, ...]:
        """The fields of some heads at each step, [B, T, ...].

        Write strengths are 0 where `silent`.
        """
        weight: Tensor = layer.heads.weight
        bias: Tensor | None = layer.heads.bias
        if len(heads) < len(layer.memory.heads):
            rows = [layer.heads.rows(head.name) for head in heads]
            weight = torch.cat([weight[head_rows] for head_rows in rows]) if rows else weight[:0]
            bias = (
                None
                if bias is None
                else torch.cat([bias[head_rows] for head_rows in rows] or [bias[:0]])
            )
        fields: tuple[Tensor, ...] = tuple(
            field.unflatten(0, hidden.shape[:2])
            for field in apply_heads(heads, hidden.flatten(0, 1), weight, bias)
        )
        if silent is None:
            return fields
        return tuple(
            field.masked_fill(silent.view(*silent.shape, *(1,) * (field.dim() - 2)), 0)
            if head.name in layer.memory.write_strengths
            else field
            for head, field in zip(heads, fields, strict=True)
        )


def hardened_field(head: Head, field: Tensor) -> Tensor:
    """A head's field with hardened gates, which is 0 or 1, or one choice of a softmax."""
    if not head.can_harden:
        return field
    if head.activation == "softmax":
        return F.one_hot(field.argmax(dim=-1), field.shape[-1]).to(field.dtype)
    return (field > 0.5).to(field.dtype)
