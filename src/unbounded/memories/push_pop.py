"""Base class of stack and queue: each step pushes one value, pops one amount and reads once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from unbounded.checks import check_number, check_positive
from unbounded.memories.base import Memory, StateT
from unbounded.memories.head import Head
from unbounded.memories.state_field import StateField
from unbounded.memories.strengths import End, PushPop, read_weights, row_fields
from unbounded.memories.trimming import live_rows


class PushPopMemory(Memory[StateT, PushPop]):
    """Rows of values with strengths; each step adds one row.

    A subclass defines `State` (a NamedTuple of values [B, N, M] and strengths [B, N]), `first_read`
    and its equations in `step`.
    """

    Instruction = PushPop
    write_strengths = ("push",)
    #: The end at which popping and reading start.
    first_read: ClassVar[End]

    def __init__(self, width: int, pop_bias: float = -1.0, push_bias: float | None = None) -> None:
        check_positive("width", width)
        check_number("pop_bias", pop_bias)
        if push_bias is not None:
            check_number("push_bias", push_bias)
        self.width = width
        self.pop_bias = pop_bias
        self.push_bias = push_bias

    def __repr__(self) -> str:
        return f"{type(self).__name__}(width={self.width})"

    @property
    def heads(self) -> tuple[Head, ...]:
        """Value v_t (tanh), push strength d_t and pop strength u_t (sigmoid)."""
        return (
            Head("value", (self.width,), "tanh"),
            Head("push", (), "sigmoid", self.push_bias, gate=True),
            Head("pop", (), "sigmoid", self.pop_bias, gate=True),
        )

    @property
    def read_vector_size(self) -> int:
        """M."""
        return self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Values and strengths; each step adds a row at the end."""
        return row_fields(self.width, (0, 1))

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """Strengths and read weights."""
        _, strengths = self.state_fields
        return strengths, strengths._replace(name="read_weights")

    def trim(self, state: StateT) -> StateT:
        """Remove rows of strength 0; see `Memory.trim`."""
        values, strengths = state
        strengths, values = live_rows(strengths, values)
        make: type[Any] = self.State
        trimmed: StateT = make(values, strengths)
        return trimmed

    def observe(self, state: StateT) -> Mapping[str, Tensor]:
        """Return the strengths and the read weights, each [B, N]."""
        _, strengths = state
        weights = read_weights(strengths, self.first_read)
        return {"strengths": strengths, "read_weights": weights}
