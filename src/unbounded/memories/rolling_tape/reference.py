"""Tapes that roll under a fixed head: the memory of Tape-RNN."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from unbounded.checks import check_choice, check_positive
from unbounded.memories.core import ACTIVATIONS, Head, Memory, StateField, portable

#: The moves of a tape, in the order of an action's weights.
ACTIONS: Final = ("stay", "next", "previous", "jump_forward", "jump_back")
#: "paper": jumps move without writing. "code": every action writes first, as in the released code.
VARIANTS: Final = ("paper", "code")


@portable
class RollInstruction(NamedTuple):
    """The instruction of K tapes.

    Fields:
        action: weights of the moves in the order of `ACTIONS`, [B, K, 5], which sum to 1.
        value: the written cell, [B, K, W].
    """

    action: Tensor
    value: Tensor


@portable
class RollState(NamedTuple):
    """The tapes, and the length of a jump.

    Fields:
        cells: the ring from the head on, [B, K, N, W].
        jump: cells of a jump, a whole number, [B].
    """

    cells: Tensor
    jump: Tensor


class RollingTape(Memory[RollState, RollInstruction]):
    """K rings of N cells of W numbers, which move under a fixed head.

    A step writes the cell under the head, then moves the ring forward or back by one cell or by the
    length of the input, or does not move it. The read vector is the cell that is under the head
    after the move.

    A layer sets `jump` to the length of each sequence, unless a state is passed to the layer.
    In a model, this length is the number of symbols of the source, with its start symbol if any.

    Args:
        slots: N, number of cells of a ring. The released code trains with 256 and tests with more.
        width: W, numbers in a cell.
        tapes: K, number of rings.
        variant: "paper", in which jumps move without writing, or "code", in which every action
            writes first, as in the released code.
        activation: of the written value.
    Raises:
        ShapeError: a size is not a positive integer. ChoiceError: an unknown choice.
    Source: Delétang et al. 2023, arXiv:2207.02098, appendix A; their program, models/tape_rnn.py.
    """

    Instruction, State = RollInstruction, RollState
    uses_lengths = True

    def __init__(
        self,
        slots: int = 256,
        width: int = 8,
        tapes: int = 1,
        *,
        variant: str = "paper",
        activation: str = "identity",
    ) -> None:
        check_positive("slots", slots)
        check_positive("width", width)
        check_positive("tapes", tapes)
        check_choice("variant", variant, VARIANTS)
        check_choice("activation", activation, ACTIVATIONS)
        self.slots, self.width, self.tapes = slots, width, tapes
        self.variant, self.activation = variant, activation

    def __repr__(self) -> str:
        return (
            f"RollingTape(slots={self.slots}, width={self.width}, tapes={self.tapes}, "
            f"variant={self.variant!r}, activation={self.activation!r})"
        )

    @property
    def jumps_write(self) -> bool:
        """Whether a jump writes before it moves."""
        return self.variant == "code"

    @property
    def capacity(self) -> int:
        """N, because a longer input may need more cells."""
        return self.slots

    def with_capacity(self, capacity: int) -> RollingTape:
        """Return the same tapes with another number of cells.

        Args:
            capacity: N, at least 1.
        """
        return RollingTape(
            capacity, self.width, self.tapes, variant=self.variant, activation=self.activation
        )

    @property
    def heads(self) -> tuple[Head, ...]:
        """Action (softmax of 5, a gate) and value of each tape."""
        return (
            Head("action", (self.tapes, len(ACTIONS)), "softmax", gate=True, choices=ACTIONS),
            Head("value", (self.tapes, self.width), self.activation),
        )

    @property
    def read_vector_size(self) -> int:
        """K W."""
        return self.tapes * self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Cells [K, N, W] and the jump, which are initially 0."""
        return (
            StateField("cells", (self.tapes, self.slots, self.width)),
            StateField("jump", ()),
        )

    def started(self, state: RollState, lengths: Tensor) -> RollState:
        """Return the state with jumps as long as the sequences.

        Args:
            state: before the first step. lengths: int64 [B].
        """
        return state._replace(jump=lengths.to(state.jump))

    def step(self, state: RollState, instruction: RollInstruction) -> tuple[Tensor, RollState]:
        """Write under the head, move, and read.

        M' = M_{t-1} with cell 0 replaced by v_t
        M_t(i) = a_1 M'(i) + a_2 M'(i + 1) + a_3 M'(i - 1) + a_4 M(i + l) + a_5 M(i - l)
        r_t = M_t(0); places are modulo N. For jumps, M is M_{t-1}, but M' with variant "code".

        Args:
            state: cells [B, K, N, W]; jump l, [B].
            instruction: action a, [B, K, 5]; value v, [B, K, W].
        Returns:
            read vector [B, K W], tape by tape, and the next state.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        """
        self.check_step(state, instruction)
        cells = state.cells
        written = torch.cat([instruction.value.unsqueeze(2), cells[:, :, 1:]], dim=2)
        jumping = written if self.jumps_write else cells
        places = torch.arange(self.slots, device=cells.device)
        jump = state.jump.detach().round().long().unsqueeze(1)
        moved = (
            written,
            written.roll(-1, dims=2),
            written.roll(1, dims=2),
            self._at(jumping, places + jump),
            self._at(jumping, places - jump),
        )
        weights = instruction.action.unbind(-1)
        after = sum(
            weight[..., None, None] * cells_of
            for weight, cells_of in zip(weights[1:], moved[1:], strict=True)
        )
        after = weights[0][..., None, None] * moved[0] + after
        return after[:, :, 0].flatten(1), RollState(after, state.jump)

    def _at(self, cells: Tensor, places: Tensor) -> Tensor:
        """Select the cells [B, K, N, W] at places [B, N], modulo N."""
        index = (places % self.slots)[:, None, :, None].expand_as(cells)
        return cells.gather(2, index)
