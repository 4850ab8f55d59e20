"""Instructions and state of a Lie-access memory."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from torch import Tensor

from unbounded.memories.state import portable


@portable
class LieAccessInstruction(NamedTuple):
    """The instruction of a read head, a write head and the new row.

    Fields:
        read_key: candidate key, [B, n]. read_key_gate: g, [B] in [0, 1]; 1 takes the candidate.
        read_action: candidate action, [B, A]. read_action_gate: h, [B] in [0, 1], likewise.
        write_key, write_key_gate, write_action, write_action_gate: likewise.
        value: v, [B, M] in (-1, 1). strength: s, [B] in [0, 1]; 0 writes nothing.
    """

    read_key: Tensor
    read_key_gate: Tensor
    read_action: Tensor
    read_action_gate: Tensor
    write_key: Tensor
    write_key_gate: Tensor
    write_action: Tensor
    write_action_gate: Tensor
    value: Tensor
    strength: Tensor


@portable
class SoftmaxInstruction(NamedTuple):
    """LieAccessInstruction with the temperature T, [B], at least 0, of the softmax."""

    read_key: Tensor
    read_key_gate: Tensor
    read_action: Tensor
    read_action_gate: Tensor
    write_key: Tensor
    write_key_gate: Tensor
    write_action: Tensor
    write_action_gate: Tensor
    value: Tensor
    strength: Tensor
    temperature: Tensor


@portable
class KeyGatedInstruction(NamedTuple):
    """A LieAccessInstruction without gates of actions."""

    read_key: Tensor
    read_key_gate: Tensor
    read_action: Tensor
    write_key: Tensor
    write_key_gate: Tensor
    write_action: Tensor
    value: Tensor
    strength: Tensor


@portable
class SoftmaxKeyGatedInstruction(NamedTuple):
    """A SoftmaxInstruction without gates of actions."""

    read_key: Tensor
    read_key_gate: Tensor
    read_action: Tensor
    write_key: Tensor
    write_key_gate: Tensor
    write_action: Tensor
    value: Tensor
    strength: Tensor
    temperature: Tensor


@portable
class ActionGatedInstruction(NamedTuple):
    """A LieAccessInstruction without gates of keys."""

    read_key: Tensor
    read_action: Tensor
    read_action_gate: Tensor
    write_key: Tensor
    write_action: Tensor
    write_action_gate: Tensor
    value: Tensor
    strength: Tensor


@portable
class SoftmaxActionGatedInstruction(NamedTuple):
    """A SoftmaxInstruction without gates of keys."""

    read_key: Tensor
    read_action: Tensor
    read_action_gate: Tensor
    write_key: Tensor
    write_action: Tensor
    write_action_gate: Tensor
    value: Tensor
    strength: Tensor
    temperature: Tensor


@portable
class UngatedInstruction(NamedTuple):
    """A LieAccessInstruction without gates."""

    read_key: Tensor
    read_action: Tensor
    write_key: Tensor
    write_action: Tensor
    value: Tensor
    strength: Tensor


@portable
class SoftmaxUngatedInstruction(NamedTuple):
    """A SoftmaxInstruction without gates."""

    read_key: Tensor
    read_action: Tensor
    write_key: Tensor
    write_action: Tensor
    value: Tensor
    strength: Tensor
    temperature: Tensor


#: Instruction types by (has key gates, has action gates, has a temperature).
INSTRUCTIONS: Final[dict[tuple[bool, bool, bool], type[Any]]] = {
    (True, True, False): LieAccessInstruction,
    (True, True, True): SoftmaxInstruction,
    (True, False, False): KeyGatedInstruction,
    (True, False, True): SoftmaxKeyGatedInstruction,
    (False, True, False): ActionGatedInstruction,
    (False, True, True): SoftmaxActionGatedInstruction,
    (False, False, False): UngatedInstruction,
    (False, False, True): SoftmaxUngatedInstruction,
}


@portable
class LieAccessState(NamedTuple):
    """Rows, the oldest first, and the positions of the heads.

    Fields:
        keys: k, [B, N, n]. values: v, [B, N, M]. strengths: s, [B, N] in [0, 1].
        read_key: q, [B, n]. read_action: a, [B, A], as it was applied. write_key, write_action:
            likewise.
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor
    read_key: Tensor
    read_action: Tensor
    write_key: Tensor
    write_action: Tensor
