"""The Neural DeQue: a queue with two ends, both pushed, popped and read at each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from unbounded import kernels
from unbounded.checks import check_number, check_positive
from unbounded.memories.base import Memory
from unbounded.memories.head import Head
from unbounded.memories.state import portable
from unbounded.memories.state_field import StateField
from unbounded.memories.strengths import pop_strengths, read_rows, read_weights, row_fields
from unbounded.memories.trimming import live_rows


@portable
class TwoEndedPushPop(NamedTuple):
    """The instruction of a deque: that of a stack for each of the two ends.

    Fields:
        top_value, bottom_value: v_t of each end, [B, M] in (-1, 1).
        top_push, bottom_push: d_t of each end, [B] in [0, 1].
        top_pop, bottom_pop: u_t of each end, [B] in [0, 1].
    """

    top_value: Tensor
    top_push: Tensor
    top_pop: Tensor
    bottom_value: Tensor
    bottom_push: Tensor
    bottom_pop: Tensor


@portable
class DequeState(NamedTuple):
    """Rows of a deque and their strengths; row 0 is the bottom.

    Fields:
        values: V_t, [B, N, M].
        strengths: s_t, [B, N], in [0, 1].
    """

    values: Tensor
    strengths: Tensor


class NeuralDeque(Memory[DequeState, TwoEndedPushPop]):
    """A double-ended queue of vectors whose pushes and pops have a strength between 0 and 1.

    Args:
        width: M, size of the stored vectors.
        pop_bias: initial bias of both pop heads (Appendix B).
        bottom_push_bias: initial bias of the bottom's push head; None keeps the random draw. If
            both ends push equally, the bottom's values bury the first values of the top. A deque
            is then hard to use as a queue; -3 reduces pushes at the bottom until training needs
            them.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 6-11.
    """

    Instruction = TwoEndedPushPop
    State = DequeState
    write_strengths = ("top_push", "bottom_push")

    def __init__(
        self, width: int, pop_bias: float = -1.0, bottom_push_bias: float | None = None
    ) -> None:
        check_positive("width", width)
        check_number("pop_bias", pop_bias)
        if bottom_push_bias is not None:
            check_number("bottom_push_bias", bottom_push_bias)
        self.width = width
        self.pop_bias = pop_bias
        self.bottom_push_bias = bottom_push_bias

    def __repr__(self) -> str:
        bias = self.bottom_push_bias
        return f"NeuralDeque(width={self.width}" + (
            ")" if bias is None else f", bottom_push_bias={bias})"
        )

    @property
    def kernel(self) -> kernels.Structure:
        """The deque of the fused kernels."""
        return kernels.structures.Deque(self.width)

    @property
    def heads(self) -> tuple[Head, ...]:
        """For each end: value (tanh), push strength and pop strength (sigmoid)."""
        return tuple(
            head
            for end, push_bias in (("top", None), ("bottom", self.bottom_push_bias))
            for head in (
                Head(f"{end}_value", (self.width,), "tanh"),
                Head(f"{end}_push", (), "sigmoid", push_bias, gate=True),
                Head(f"{end}_pop", (), "sigmoid", self.pop_bias, gate=True),
            )
        )

    @property
    def read_vector_size(self) -> int:
        """2M: the read vector of the top, then of the bottom."""
        return 2 * self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Values and strengths; each step adds a row at either end."""
        return row_fields(self.width, (1, 1))

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """Strengths and the read weights of both ends."""
        _, strengths = self.state_fields
        names = ("strengths", "read_weights.top", "read_weights.bottom")
        return tuple(strengths._replace(name=name) for name in names)

    def step(self, state: DequeState, instruction: TwoEndedPushPop) -> tuple[Tensor, DequeState]:
        """Pop the top, pop the bottom, push both, then read both, for one time step.

        V_t[1] = v_t^bot;  V_t[2t] = v_t^top;  V_t[i] = V_{t-1}[i-1] between                     (6)
        s_t^top[i] = max(0, s_{t-1}[i] - max(0, u_t^top - sum_{j>i} s_{t-1}[j]))                 (7)
        s_t^both[i] = max(0, s_t^top[i] - max(0, u_t^bot - sum_{j<i} s_t^top[j]))                (8)
        s_t[1] = d_t^bot;  s_t[2t] = d_t^top;  s_t[i] = s_t^both[i-1] between                    (9)
        r_t^top, r_t^bot: the first unit of strength from the top, from the bottom        (10), (11)

        Args:
            state: values [B, N, M]; strengths [B, N] in [0, 1].
            instruction: values [B, M]; pushes and pops [B] in [0, 1].
        Returns:
            read vector [B, 2M], top then bottom, and the next state, two rows longer.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 6-11. As printed, (7) and (8) range
            over i < 2(t-1) and omit the top row that (9) uses; here i runs over all 2(t-1) rows.
        """
        self.check_kinds(state, instruction)
        self.check_instruction(instruction, state.strengths.shape[0])
        self.check_state(state, state.strengths.shape[0], instruction.top_value)
        popped = pop_strengths(state.strengths, instruction.top_pop, "top")
        popped = pop_strengths(popped, instruction.bottom_pop, "bottom")
        values = torch.cat(
            [
                instruction.bottom_value.unsqueeze(1),
                state.values,
                instruction.top_value.unsqueeze(1),
            ],
            dim=1,
        )
        strengths = torch.cat(
            [instruction.bottom_push.unsqueeze(1), popped, instruction.top_push.unsqueeze(1)], dim=1
        )
        top = read_rows(read_weights(strengths, "top"), values)
        bottom = read_rows(read_weights(strengths, "bottom"), values)
        return torch.cat([top, bottom], dim=-1), DequeState(values, strengths)

    def trim(self, state: DequeState) -> DequeState:
        """Remove rows of strength 0; see `Memory.trim`."""
        strengths, values = live_rows(state.strengths, state.values)
        return DequeState(values, strengths)

    def observe(self, state: DequeState) -> Mapping[str, Tensor]:
        """Return the strengths and the read weights of both ends, each [B, N]."""
        return {
            "strengths": state.strengths,
            "read_weights.top": read_weights(state.strengths, "top"),
            "read_weights.bottom": read_weights(state.strengths, "bottom"),
        }


def quiet_deque(width: int, pop_bias: float = -1.0) -> NeuralDeque:
    """A deque whose initial bias makes pushes at the bottom weak, so that it can learn copying."""
    return NeuralDeque(width, pop_bias=pop_bias, bottom_push_bias=-3.0)
