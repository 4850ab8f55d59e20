"""Neural stack, queue and deque: rows of values with strengths between 0 and 1.

Source: Grefenstette et al. 2015, arXiv:1506.02516.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_number, check_positive
from unbounded.memories.core import (
    Head,
    InstructionT,
    Memory,
    StateField,
    StateT,
    live_rows,
    portable,
    read_rows,
)

End = Literal["top", "bottom"]


@portable
class PushPop(NamedTuple):
    """The instruction of a stack or queue.

    Fields:
        value: v_t, [B, M] in (-1, 1).
        push: d_t, [B] in [0, 1].
        pop: u_t, [B] in [0, 1].
    """

    value: Tensor
    push: Tensor
    pop: Tensor


def strength_nearer(strengths: Tensor, end: End) -> Tensor:
    """For each row, sum the strengths of the rows strictly nearer to `end`.

    The strengths are shifted first and then summed. Subtracting a row's own strength from an
    inclusive sum would leave rounding errors where sums are equal, and such ties select the
    gradients.

    Args:
        strengths: [B, N].
    Returns:
        sum_{j > i} s[j] for the top, sum_{j < i} s[j] for the bottom, [B, N].
    """
    if strengths.shape[-1] == 0:
        return strengths
    if end == "bottom":
        return F.pad(strengths[..., :-1], (1, 0)).cumsum(-1)
    return F.pad(strengths[..., 1:].flip(-1), (1, 0)).cumsum(-1).flip(-1)


def strengths_after_pop(strengths: Tensor, pop: Tensor, end: End) -> Tensor:
    """Remove the quantity `pop` from the strengths, starting at `end`.

    s_t[i] = max(0, s_{t-1}[i] - max(0, u_t - sum_{nearer j} s_{t-1}[j]))         (2), (4), (7), (8)

    relu has derivative 0 at 0, so at a tie the derivative goes to the left argument of max(0, z).

    Args:
        strengths: [B, N]. pop: [B].
    """
    left_to_pop = F.relu(pop.unsqueeze(-1) - strength_nearer(strengths, end))
    return F.relu(strengths - left_to_pop)


def read_weights(strengths: Tensor, end: End) -> Tensor:
    """Read weights of the rows that make up the first unit of strength from `end`.

    w_t[i] = min(s_t[i], max(0, 1 - sum_{nearer j} s_t[j]))                     (3), (5), (10), (11)

    At a tie the derivative goes to the left argument s_t[i]; torch.minimum would split it. The
    comparison keeps a NaN strength NaN.

    Args:
        strengths: [B, N].
    Returns:
        [B, N], summing to at most 1.
    """
    room = F.relu(1 - strength_nearer(strengths, end))
    return torch.where(strengths > room, room, strengths)


class RowMemory(Memory[StateT, InstructionT]):
    """A memory of rows with values and strengths.

    A subclass defines `Instruction`, `State` (a NamedTuple of values [B, N, M] and strengths
    [B, N]), `ends`, `growth`, `heads` and its equations in `step`.
    """

    #: The ends that are popped and read, in the order of the read vector.
    ends: ClassVar[tuple[End, ...]]
    #: Number of rows that a step adds at the bottom and at the top.
    growth: ClassVar[tuple[int, int]]
    width: int

    @property
    def read_vector_size(self) -> int:
        """The size is M for each end."""
        return len(self.ends) * self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Values [N, M] and strengths [N]. Initially there are no rows."""
        return (
            StateField("values", ("N", self.width), self.growth),
            StateField("strengths", ("N",), self.growth),
        )

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """The strengths, and the read weights of each end."""
        _, strengths = self.state_fields
        return strengths, *(strengths._replace(name=name) for name in self._weights)

    def observe(self, state: StateT) -> Mapping[str, Tensor]:
        """Return the strengths and the read weights of each end, each [B, N]."""
        _, strengths = state
        weights = {name: read_weights(strengths, end) for name, end in self._weights.items()}
        return {"strengths": strengths, **weights}

    @property
    def _weights(self) -> dict[str, End]:
        if len(self.ends) == 1:
            return {"read_weights": self.ends[0]}
        return {f"read_weights.{end}": end for end in self.ends}

    def trim(self, state: StateT) -> StateT:
        """Remove rows of strength 0; see `Memory.trim`."""
        values, strengths = state
        strengths, values = live_rows(strengths, values)
        make: type[Any] = self.State
        trimmed: StateT = make(values, strengths)
        return trimmed


class PushPopMemory(RowMemory[StateT, PushPop]):
    """A stack or queue: each step pops one amount, pushes one row and reads once."""

    Instruction = PushPop
    write_strengths = ("push",)
    growth = (0, 1)

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


@portable
class StackState(NamedTuple):
    """Rows of a stack and their strengths. Row 0, the oldest, is the bottom.

    Fields:
        values: V_t, [B, N, M].
        strengths: s_t, [B, N], in [0, 1].
    """

    values: Tensor
    strengths: Tensor


class NeuralStack(PushPopMemory[StackState]):
    """A stack of vectors whose pushes and pops have a strength between 0 and 1.

    Args:
        width: M, size of the stored vectors.
        pop_bias: initial bias of the pop head. At -1, pushed values live long enough for push and
            pop to receive gradients (Appendix B).
        push_bias: initial bias of the push head. None keeps the random draw: initial pushes are
            near 0.5. With 3 they are near 1, and a network learns less often to push strength 0.5
            and read two rows at once, which cannot be hardened.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 1-3.
    """

    State = StackState
    ends = ("top",)

    def step(self, state: StackState, instruction: PushPop) -> tuple[Tensor, StackState]:
        """Pop, push, then read, for one time step.

        V_t[i] = V_{t-1}[i] for i < t;  V_t[t] = v_t                                             (1)
        s_t[i] = max(0, s_{t-1}[i] - max(0, u_t - sum_{j>i} s_{t-1}[j]));  s_t[t] = d_t          (2)
        r_t = sum_i min(s_t[i], max(0, 1 - sum_{j>i} s_t[j])) V_t[i]                             (3)

        Args:
            state: values [B, N, M]; strengths [B, N] in [0, 1].
            instruction: value [B, M]; push and pop [B] in [0, 1].
        Returns:
            read vector [B, M] and the next state, one row longer.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 1-3; ties as in footnote 1. The
            diagonal of the printed derivative (16) is a slip: its first case is i <= n.
        """
        self.check_kinds(state, instruction)
        self.check_instruction(instruction, state.strengths.shape[0])
        self.check_state(state, state.strengths.shape[0], instruction.value)
        remaining = strengths_after_pop(state.strengths, instruction.pop, "top")
        values = torch.cat([state.values, instruction.value.unsqueeze(1)], dim=1)
        strengths = torch.cat([remaining, instruction.push.unsqueeze(1)], dim=1)
        read_vector = read_rows(read_weights(strengths, "top"), values)
        return read_vector, StackState(values, strengths)


@portable
class QueueState(NamedTuple):
    """Rows of a queue and their strengths. Row 0 is the oldest.

    Fields:
        values: V_t, [B, N, M].
        strengths: s_t, [B, N], in [0, 1].
    """

    values: Tensor
    strengths: Tensor


class NeuralQueue(PushPopMemory[QueueState]):
    """A queue of vectors whose pushes and pops have a strength between 0 and 1.

    Args:
        width: M, size of the stored vectors.
        pop_bias: initial bias of the pop head. At -1, pushed values live long enough for push and
            pop to receive gradients (Appendix B).
        push_bias: initial bias of the push head. None keeps the random draw: initial pushes are
            near 0.5. With 3 they are near 1, and a network learns less often to push strength 0.5
            and read two rows at once, which cannot be hardened.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 1, 4, 5.
    """

    State = QueueState
    ends = ("bottom",)

    def step(self, state: QueueState, instruction: PushPop) -> tuple[Tensor, QueueState]:
        """Pop, push, then read, for one time step.

        V_t[i] = V_{t-1}[i] for i < t;  V_t[t] = v_t                                             (1)
        s_t[i] = max(0, s_{t-1}[i] - max(0, u_t - sum_{j<i} s_{t-1}[j]));  s_t[t] = d_t          (4)
        r_t = sum_i min(s_t[i], max(0, 1 - sum_{j<i} s_t[j])) V_t[i]                             (5)

        Args:
            state: values [B, N, M]; strengths [B, N] in [0, 1].
            instruction: value [B, M]; push and pop [B] in [0, 1].
        Returns:
            read vector [B, M] and the next state, one row longer.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 1, 4, 5; ties as in footnote 1.
        """
        self.check_kinds(state, instruction)
        self.check_instruction(instruction, state.strengths.shape[0])
        self.check_state(state, state.strengths.shape[0], instruction.value)
        remaining = strengths_after_pop(state.strengths, instruction.pop, "bottom")
        values = torch.cat([state.values, instruction.value.unsqueeze(1)], dim=1)
        strengths = torch.cat([remaining, instruction.push.unsqueeze(1)], dim=1)
        read_vector = read_rows(read_weights(strengths, "bottom"), values)
        return read_vector, QueueState(values, strengths)


@portable
class TwoEndedPushPop(NamedTuple):
    """The instruction of a deque: for each of the two ends, the instruction of a stack.

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
    """Rows of a deque and their strengths. Row 0 is the bottom.

    Fields:
        values: V_t, [B, N, M].
        strengths: s_t, [B, N], in [0, 1].
    """

    values: Tensor
    strengths: Tensor


class NeuralDeque(RowMemory[DequeState, TwoEndedPushPop]):
    """A double-ended queue of vectors whose pushes and pops have a strength between 0 and 1.

    Args:
        width: M, size of the stored vectors.
        pop_bias: initial bias of both pop heads (Appendix B), or of the top's alone.
        bottom_push_bias: initial bias of the bottom's push head; None keeps the random draw. If
            both ends push equally, the bottom's values bury the first values of the top. A deque
            is then hard to use as a queue; -3 reduces pushes at the bottom until training needs
            them.
        bottom_pop_bias: initial bias of the bottom's pop head; None for that of the top.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 6-11.
    """

    Instruction = TwoEndedPushPop
    State = DequeState
    write_strengths = ("top_push", "bottom_push")
    ends = ("top", "bottom")
    growth = (1, 1)

    def __init__(
        self,
        width: int,
        pop_bias: float = -1.0,
        bottom_push_bias: float | None = None,
        bottom_pop_bias: float | None = None,
    ) -> None:
        check_positive("width", width)
        check_number("pop_bias", pop_bias)
        for name, bias in (
            ("bottom_push_bias", bottom_push_bias),
            ("bottom_pop_bias", bottom_pop_bias),
        ):
            if bias is not None:
                check_number(name, bias)
        self.width = width
        self.pop_bias = pop_bias
        self.bottom_push_bias = bottom_push_bias
        self.bottom_pop_bias = bottom_pop_bias

    def __repr__(self) -> str:
        biases = {
            "bottom_push_bias": self.bottom_push_bias,
            "bottom_pop_bias": self.bottom_pop_bias,
        }
        own = "".join(f", {name}={bias}" for name, bias in biases.items() if bias is not None)
        return f"NeuralDeque(width={self.width}{own})"

    @property
    def heads(self) -> tuple[Head, ...]:
        """For each end: value (tanh), push strength and pop strength (sigmoid)."""
        bottom_pop = self.pop_bias if self.bottom_pop_bias is None else self.bottom_pop_bias
        return tuple(
            head
            for end, push_bias, pop_bias in (
                ("top", None, self.pop_bias),
                ("bottom", self.bottom_push_bias, bottom_pop),
            )
            for head in (
                Head(f"{end}_value", (self.width,), "tanh"),
                Head(f"{end}_push", (), "sigmoid", push_bias, gate=True),
                Head(f"{end}_pop", (), "sigmoid", pop_bias, gate=True),
            )
        )

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
        remaining = strengths_after_pop(state.strengths, instruction.top_pop, "top")
        remaining = strengths_after_pop(remaining, instruction.bottom_pop, "bottom")
        values = torch.cat(
            [
                instruction.bottom_value.unsqueeze(1),
                state.values,
                instruction.top_value.unsqueeze(1),
            ],
            dim=1,
        )
        strengths = torch.cat(
            [instruction.bottom_push.unsqueeze(1), remaining, instruction.top_push.unsqueeze(1)],
            dim=1,
        )
        top = read_rows(read_weights(strengths, "top"), values)
        bottom = read_rows(read_weights(strengths, "bottom"), values)
        return torch.cat([top, bottom], dim=-1), DequeState(values, strengths)


def quiet_deque(width: int, pop_bias: float = -1.0) -> NeuralDeque:
    """A deque whose initial bias makes pushes at the bottom weak, so that it can learn copying.

    Args:
        width: M, size of the stored vectors.
        pop_bias: initial bias of both pop heads (Appendix B).
    """
    return NeuralDeque(width, pop_bias=pop_bias, bottom_push_bias=-3.0)
