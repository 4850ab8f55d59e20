"""Rows of values with strengths, read and popped from an end: shared by stack, queue and deque."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.memories.state import portable
from unbounded.memories.state_field import StateField

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


def row_fields(width: int, growth: tuple[int, int]) -> tuple[StateField, StateField]:
    """Declare values [B, N, M] and strengths [B, N], initially without rows."""
    return (
        StateField("values", ("N", width), growth),
        StateField("strengths", ("N",), growth),
    )


def strength_nearer(strengths: Tensor, end: End) -> Tensor:
    """Sum, for each row, the strengths of the rows strictly nearer to `end`.

    The strengths are shifted and then summed. Subtracting a row's own strength from an inclusive
    sum would leave rounding errors where sums are equal, and such ties select the gradients.

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


def pop_strengths(strengths: Tensor, pop: Tensor, end: End) -> Tensor:
    """Remove the quantity `pop` from the strengths, starting at `end`.

    s_t[i] = max(0, s_{t-1}[i] - max(0, u_t - sum_{nearer j} s_{t-1}[j]))         (2), (4), (7), (8)

    relu has derivative 0 at 0: at a tie the derivative goes to the left argument of max(0, z).

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


def read_rows(weights: Tensor, values: Tensor) -> Tensor:
    """Return r_t = sum_i w_t[i] V_t[i], [B, M], from weights [B, N] and values [B, N, M]."""
    return torch.matmul(weights.unsqueeze(1), values).squeeze(1)
