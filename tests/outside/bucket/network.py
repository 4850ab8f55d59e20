"""A memory that holds one vector, and a controller that forgets slowly."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.memories import Head, Memory, StateField, portable
from unbounded.rnn import Controller


@portable
class Drop(NamedTuple):
    value: Tensor
    keep: Tensor


@portable
class Content(NamedTuple):
    total: Tensor


class Bucket(Memory[Content, Drop]):
    """One vector: keep times the old vector, plus the new value."""

    Instruction = Drop
    State = Content

    def __init__(self, width: int, keep_bias: float = 1.0) -> None:
        self.width, self.keep_bias = width, keep_bias

    @property
    def heads(self) -> tuple[Head, ...]:
        return Head("value", (self.width,), "tanh"), Head("keep", (), "sigmoid", self.keep_bias)

    @property
    def read_vector_size(self) -> int:
        return self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        return (StateField("total", (self.width,)),)

    def step(self, state: Content, instruction: Drop) -> tuple[Tensor, Content]:
        total = instruction.keep.unsqueeze(-1) * state.total + instruction.value
        return total, Content(total)


class Leaky(Controller):
    """h_t = (1 - a) h_{t-1} + a tanh(W x_t)."""

    def __init__(self, input_size: int, hidden_size: int, leak: float = 0.5, **where: Any) -> None:
        super().__init__()
        self.hidden_size, self.leak = hidden_size, leak
        self.map = nn.Linear(input_size, hidden_size, **where)

    def forward(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return ((1 - self.leak) * state[0] + self.leak * torch.tanh(self.map(inputs)),)
