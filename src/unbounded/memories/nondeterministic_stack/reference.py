"""A nondeterministic stack, which represents all runs of a weighted pushdown automaton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_positive, check_size
from unbounded.memories.core import (
    Constant,
    FirstOne,
    Head,
    Initializer,
    Learned,
    Memory,
    StateField,
    portable,
)
from unbounded.memories.core.state_field import Device, DType, Shape

#: Rows before the first step: the time before the bottom symbol is pushed, and the time after.
FIRST_ROWS: Final = 2


@portable
class NondeterministicInstruction(NamedTuple):
    """The instruction of a pushdown automaton with Q states and S symbols.

    Fields:
        action: log weights of the transitions from a state and a top symbol, [B, Q, S, A]. The
            A = 2 Q S + Q transitions are pushes of a symbol into a state [Q, S], replacements of
            the top symbol [Q, S], and pops [Q].
        value: logits of the pushed vector, whose elements are in (0, 1), [B, W].
    """

    action: Tensor
    value: Tensor


@portable
class NondeterministicState(NamedTuple):
    """The runs so far, as sums over the runs between two times.

    Times are rows. Row N - 1 is the current time, and row 0 is the oldest time in the window.

    Fields:
        runs: entry [b, i, j, q, x, r, y] sums the weights of some runs. Such a run is in state q
            with top x at time i, and then pushes. At time j it is in state r, and its top is y, at
            the place of that push. Channel 0 is the log of their weights, channel 1 + m the log of
            their weights times element m of the vector at that place; [B, N, N, Q, S, Q, S, 1 + W].
        weights: log of the weight of all runs in a state with a top symbol, [B, N, Q, S].
        start: 1 in the row before the bottom symbol, 0 in the others, [B, N].
        bottom: logits of the vector of the bottom symbol, [B, W].
    """

    runs: Tensor
    weights: Tensor
    start: Tensor
    bottom: Tensor


@dataclass(frozen=True)
class LogOne(Initializer):
    """Return 0 at some places and -inf elsewhere, which are the logs of 1 and of 0.

    Args:
        places: indices after the batch; a shorter index means all indices that begin with it.
    """

    places: tuple[tuple[int, ...], ...]

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`."""
        tensor = torch.full(shape, -inf, dtype=dtype, device=device)
        for place in self.places:
            tensor.permute(*range(1, tensor.dim()), 0)[place] = 0
        return tensor


class NondeterministicStack(Memory[NondeterministicState, NondeterministicInstruction]):
    """A stack in all states that a weighted pushdown automaton can reach.

    The instruction of a step assigns a weight to each transition of the automaton. The number of
    runs of the automaton grows exponentially with the steps. The memory sums the weights of all
    runs in polynomial time. Without vectors on the stack (`width` 0, RNS-RNN), the read vector is
    the probability of each state and top symbol, [Q S]. With vectors of W numbers on the stack
    (VRNS-RNN), it is the mean top vector of each state and top symbol, times their probability, [Q
    S W].

    T steps take O(Q^3 S^3 T^2 + Q^3 S^2 T^3) time and O(Q^2 S^2 T^2) numbers, each times 1 + W. A
    window of D makes both linear in T, because a run is dropped D steps after its topmost push.

    Args:
        states: Q, number of states of the automaton, at least 1.
        symbols: S, number of stack symbols, at least 1. Symbol 0 is on the bottom of the stack, and
            may be pushed too.
        width: W, numbers in a vector on the stack; 0 for symbols alone.
        window: D, steps after its topmost push at which a run is dropped, at least 2; None keeps
            all runs.
        normalized: whether the weights of the transitions from a state and top symbol sum to 1
            (NS-RNN), in place of any positive weights (RNS-RNN).
    Raises:
        ShapeError: a size is out of range.
    Source: DuSell & Chiang 2020, arXiv:2010.04674 (NS-RNN); 2022, arXiv:2109.01982 (RNS-RNN); 2023,
    arXiv:2210.01343 (VRNS-RNN, window).
    """

    Instruction, State = NondeterministicInstruction, NondeterministicState

    def __init__(
        self,
        states: int = 2,
        symbols: int = 3,
        width: int = 0,
        *,
        window: int | None = None,
        normalized: bool = False,
    ) -> None:
        check_positive("states", states)
        check_positive("symbols", symbols)
        check_size("width", width)
        if window is not None:
            check_size("window", window, FIRST_ROWS)
        self.states, self.symbols, self.width = states, symbols, width
        self.window, self.normalized = window, normalized

    def __repr__(self) -> str:
        return (
            f"NondeterministicStack(states={self.states}, symbols={self.symbols}, "
            f"width={self.width}, window={self.window}, normalized={self.normalized})"
        )

    @property
    def heads(self) -> tuple[Head, ...]:
        """Action (log weights) and value (logits)."""
        tops = self.states * self.symbols
        return (
            Head("action", (self.states, self.symbols, 2 * tops + self.states), "identity"),
            Head("value", (self.width,), "identity"),
        )

    @property
    def read_vector_size(self) -> int:
        """The size is Q S, or Q S W with vectors."""
        return self.states * self.symbols * max(1, self.width)

    @property
    def read_vector_initializer(self) -> Initializer:
        """The reading of the initial stack: state 0 with symbol 0 on top."""
        return FirstOne()

    def initial_read_vector(
        self,
        batch_size: int,
        dtype: DType = None,
        device: Device = None,
        learned: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return the reading of the initial stack; see `Memory.initial_read_vector`.

        With vectors, it has the bottom vector in state 0 with symbol 0.
        """
        if not self.width:
            return super().initial_read_vector(batch_size, dtype, device, learned)
        bottom = self._initial_tensor(self.state_fields[-1], batch_size, dtype, device, learned)
        return F.pad(bottom.sigmoid(), (0, self.read_vector_size - self.width))

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Runs, weights and the bottom vector.

        Initially there is one run, in state 0 with symbol 0.
        """
        top = (self.states, self.symbols)
        rows = partial(StateField, growth=(1, 0), rows=FIRST_ROWS, most_rows=self.window)
        bottom = Learned(partial(nn.init.normal_, std=1.0)) if self.width else Constant()
        return (
            rows(
                "runs",
                ("N", "N", *top, *top, 1 + self.width),
                empty=-inf,
                initializer=LogOne(((0, 1, 0, 0, 0, 0),)),
            ),
            rows("weights", ("N", *top), empty=-inf, initializer=LogOne(((0, 0, 0), (1, 0, 0)))),
            rows("start", ("N",), initializer=FirstOne()),
            StateField("bottom", (self.width,), initializer=bottom),
        )

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """The probability of each state and top symbol, [Q, S]."""
        return (StateField("top", (self.states, self.symbols)),)

    def observe(self, state: NondeterministicState) -> Mapping[str, Tensor]:
        """See `Memory.observe`."""
        now = state.weights[:, -1]
        return {"top": now.flatten(1).softmax(1).view_as(now)}

    def step(
        self, state: NondeterministicState, instruction: NondeterministicInstruction
    ) -> tuple[Tensor, NondeterministicState]:
        """Apply all transitions at once, and read the tops.

        With runs g[i -> j], weights a[j], log weights D of the transitions of step j, and z the
        vector at the top of a run, all sums over logs:

            g[j-1 -> j][q,x -> r,y] = D[q,x -> push r,y], with the vector v = sigmoid(value)
            g[i -> j][q,x -> r,y] = sum_{s,z} g[i -> j-1][q,x -> s,z] D[s,z -> replace r,y]
                + sum_{k,u} g[i -> k][q,x -> u,y] p[k][u,y -> r]
            p[k][u,y -> r] = sum_{s,z} g[k -> j-1][u,y -> s,z] D[s,z -> pop r]
            a[j][r,y] = sum_{i,q,x} a[i][q,x] g[i -> j][q,x -> r,y]
            r_t = a[j] / sum a[j]
            with vectors r_t = sum_{i,q,x} a[i][q,x] g[i -> j][q,x -> r,y] z / sum a[j]

        Args:
            state: runs [B, N, N, Q, S, Q, S, 1 + W], weights [B, N, Q, S], start [B, N], bottom
                [B, W].
            instruction: action [B, Q, S, 2 Q S + Q], value [B, W].
        Returns:
            read vector [B, Q S max(1, W)], and the next state.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        """
        self.check_step(state, instruction)
        push, replace, pop = self._transitions(instruction.action)
        runs, present = state.runs, state.runs[:, :, -1]
        # The axes are [B, i, q, x, s, z, r, y, channel]. The sum is over s and z.
        replaced = log_sum_exp(
            present[..., None, None, :] + replace[:, None, None, None, ..., None], 4, 5
        )
        # The axes are [B, k, u, y, s, z, r].
        popped = log_sum_exp(present[..., :1] + pop[:, None, None, None], 4, 5)
        # The axes are [B, i, k, q, x, u, y, r, channel]. The sum is over k and u.
        below = log_sum_exp(
            runs[..., None, :] + popped[:, None, :, None, None, ..., None], 2, 5
        ).transpose(4, 5)
        column = log_sum_exp(torch.stack([replaced, below]), 0)
        pushed = F.pad(F.logsigmoid(instruction.value), (1, 0))[:, None, None, None, None]
        column = torch.cat([column[:, :-1], (push[..., None] + pushed)[:, None]], dim=1)
        # The symbol pushed at the start is the bottom symbol, even after it has been replaced.
        bottom = F.logsigmoid(state.bottom)[:, None, None, None, None, None]
        is_start = state.start[..., None, None, None, None, None] > 0
        vectors = torch.where(is_start, column[..., :1] + bottom, column[..., 1:])
        column = torch.cat([column[..., :1], vectors], dim=-1)
        tops = log_sum_exp(state.weights[..., None, None, None] + column, 1, 2, 3)
        runs = torch.cat([runs, column[:, :, None]], dim=2)
        runs = F.pad(runs, (0, 0) * 6 + (0, 1), value=-inf)
        weights = torch.cat([state.weights, tops[:, None, ..., 0]], dim=1)
        start = F.pad(state.start, (0, 1))
        if self.window is not None and runs.shape[1] > self.window:
            runs, weights, start = runs[:, 1:, 1:], weights[:, 1:], start[:, 1:]
        total = log_sum_exp(tops[..., 0], 1, 2)
        read = tops[..., 1:] if self.width else tops
        read_vector = (read - total[:, None, None, None]).exp().flatten(1)
        return read_vector, NondeterministicState(runs, weights, start, state.bottom)

    def _transitions(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log weights of pushes and replacements [B, Q, S, Q, S], and of pops [B, Q, S, Q]."""
        if self.normalized:
            action = action.log_softmax(-1)
        tops = self.states * self.symbols
        push, replace, pop = action.split([tops, tops, self.states], dim=-1)
        shape = (self.states, self.symbols)
        return push.unflatten(-1, shape), replace.unflatten(-1, shape), pop


def log_sum_exp(tensor: Tensor, *axes: int) -> Tensor:
    """Log of the sum of exponentials. If all terms are -inf, it is -inf with gradient 0."""
    highest = tensor.detach().amax(axes, keepdim=True)
    highest = torch.where(highest > -inf, highest, torch.zeros_like(highest))
    total = (tensor - highest).exp().sum(axes)
    empty = total == 0  # False for NaN, which is kept
    log = torch.where(empty, torch.ones_like(total), total).log()
    return torch.where(empty, torch.full_like(total, -inf), log + highest.squeeze(axes))
