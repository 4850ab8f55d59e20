"""What stack and queue share: one value pushed and one amount popped a step, one reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from unbounded.checks import check_positive
from unbounded.memories.base import Head, Memory, StateT, check_batch_size
from unbounded.memories.strengths import End, PushPop, read_weights


class PushPopMemory(Memory[StateT, PushPop]):
    """Rows of values with strengths, to which a step adds one.

    A memory says `State`, a NamedTuple of values [B, N, M] and strengths [B, N], at which end it is
    read, and its equations in `step`.
    """

    Instruction = PushPop
    growth = (0, 1)
    #: The end that is popped and read first.
    first_read: ClassVar[End]

    def __init__(self, width: int, pop_bias: float = -1.0) -> None:
        check_positive("width", width)
        self.width = width
        self.pop_bias = pop_bias

    def __repr__(self) -> str:
        return f"{type(self).__name__}(width={self.width})"

    @property
    def heads(self) -> tuple[Head, ...]:
        """Value v_t (tanh), push strength d_t and pop strength u_t (sigmoid)."""
        return (
            Head("value", (self.width,), "tanh"),
            Head("push", (), "sigmoid"),
            Head("pop", (), "sigmoid", self.pop_bias),
        )

    @property
    def reading_size(self) -> int:
        """M."""
        return self.width

    def initial_state(
        self,
        batch_size: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> StateT:
        """Return the empty memory: values [B, 0, M], strengths [B, 0]."""
        check_batch_size(batch_size)
        empty: tuple[Tensor, ...] = (
            torch.zeros(batch_size, 0, self.width, dtype=dtype, device=device),
            torch.zeros(batch_size, 0, dtype=dtype, device=device),
        )
        return self.State(*empty)

    def observe(self, state: StateT) -> Mapping[str, Tensor]:
        """Return the strengths and the read weights, each [B, N]."""
        _, strengths = state
        weights = read_weights(strengths, self.first_read)
        return {"strengths": strengths, "read_weights": weights}
