"""A register, a memory with one value that is overwritten."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from unbounded.checks import check_positive
from unbounded.memories.core import Head, Memory, StateField, portable


@portable
class Write(NamedTuple):
    """The instruction: value [B, M] in (-1, 1) and write [B] in [0, 1]."""

    value: Tensor
    write: Tensor


@portable
class Held(NamedTuple):
    """The state: value [B, M]."""

    value: Tensor


class Register(Memory[Held, Write]):
    """One value [M] with a write gate; `width` is M, at least 1."""

    Instruction, State = Write, Held

    def __init__(self, width: int) -> None:
        check_positive("width", width)
        self.width = width

    @property
    def heads(self) -> tuple[Head, ...]:
        """Value (tanh) and write (sigmoid)."""
        return Head("value", (self.width,), "tanh"), Head("write", (), "sigmoid", gate=True)

    @property
    def read_vector_size(self) -> int:
        """M."""
        return self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """The value [M], which is initially 0."""
        return (StateField("value", (self.width,)),)

    def step(self, state: Held, instruction: Write) -> tuple[Tensor, Held]:
        """Overwrite and read: v_t = (1 - w_t) v_{t-1} + w_t x_t; the read vector [B, M] is v_t."""
        self.check_kinds(state, instruction)
        self.check_instruction(instruction, state.value.shape[0])
        self.check_state(state, state.value.shape[0], instruction.value)
        write = instruction.write.unsqueeze(-1)
        value = (1 - write) * state.value + write * instruction.value
        return value, Held(value)
