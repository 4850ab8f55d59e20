"""The superposition stack of Joulin & Mikolov: scalar cells, mixed by the weights of actions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded import kernels
from unbounded.errors import DTypeError
from unbounded.memories.beginnings import Constant
from unbounded.memories.state import portable
from unbounded.memories.state_field import StateField
from unbounded.memories.superposition import (
    EMPTY,
    ActionValue,
    SuperpositionMemory,
    shifted,
)
from unbounded.memories.trimming import used_cells


@portable
class StackCells(NamedTuple):
    """The cells of every stack.

    Fields:
        cells: s_t, [B, S, N], cell 0 is the top; -1 where a cell is empty.
    """

    cells: Tensor


class SuperpositionStack(SuperpositionMemory[StackCells]):
    """Stacks of numbers; every cell is the mean of what PUSH, POP and NO-OP would leave there.

    Cell 0 is the top. All cells are empty (-1) at first, and so is what a POP brings up from below
    the last one. What is read are the k topmost cells after the action. The paper's controller
    reads them before it acts, h_t from s_{t-1}: that is the same, since the layer hands the
    reading of a step to the next one, and the first reading, of the empty stacks, is -1.

    Args:
        count: S, number of stacks.
        depth: k, topmost cells of each that are read.
        noop: whether NO-OP is a third action.
        capacity: most cells of a stack, at least `depth`; None for stacks that grow by a cell a
            step. The authors' program has 200.
        overflow: what a PUSH does to a full stack whose bottom cell is not empty: "error" raises,
            "drop_bottom" loses that cell, as the authors' program does without a word.
    Raises:
        ShapeError, ConfigError, ChoiceError: an argument is out of range; the message names it.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, eq. 3-6. NO-OP is printed for the top alone;
        here, as in the authors' program, it keeps every cell.
    """

    State = StackCells
    basic_actions = ("PUSH", "POP")
    overflows = ("error", "drop_bottom")

    def __init__(
        self,
        count: int,
        depth: int = 2,
        noop: bool = False,
        capacity: int | None = None,
        overflow: str = "error",
    ) -> None:
        super().__init__(count, depth, noop, capacity, overflow)

    @property
    def kernel(self) -> kernels.Structure:
        """The stack of the fused kernels."""
        return kernels.structures.SuperpositionStack(*self._kernel_options)

    @property
    def cells_field(self) -> StateField:
        """No cell at first; one more at the bottom a step, up to the capacity."""
        shape, begin = (self.count, "N"), Constant(EMPTY)
        return StateField("cells", shape, (0, 1), 0, self.capacity, empty=EMPTY, beginning=begin)

    def step(self, state: StackCells, instruction: ActionValue) -> tuple[Tensor, StackCells]:
        """Push, pop and keep at once, each to its weight, then read the top.

        s_t[0] = a_t[PUSH] sigma(D h_t) + a_t[POP] s_{t-1}[1] + a_t[NO-OP] s_{t-1}[0]            (4)
        s_t[i] = a_t[PUSH] s_{t-1}[i-1] + a_t[POP] s_{t-1}[i+1] + a_t[NO-OP] s_{t-1}[i]          (5)

        Args:
            state: cells [B, S, N].
            instruction: action [B, S, 2], with NO-OP [B, S, 3]; value [B, S].
        Returns:
            reading [B, S k], the k topmost cells stack by stack, and the next state, one cell
            longer unless the capacity is reached.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            MemoryOverflowError: a full stack would lose a cell, with overflow="error".
        Source: Joulin & Mikolov 2015, arXiv:1503.01007, eq. 4, 5.
        """
        self._check_step(state, instruction)
        weights = [weight.unsqueeze(-1) for weight in instruction.action.unbind(-1)]
        push, pop, *keep = weights
        old = self.cells_field.padded(state.cells, 1)
        if old.shape == state.cells.shape:
            pushes = instruction.action[..., 0]
            old = self._lose(old, old[..., -1], pushes, "the bottom cell of a full stack")
        pushed = torch.cat([instruction.value.unsqueeze(-1), old[..., :-1]], dim=-1)
        cells = push * pushed + pop * shifted(old, -1)
        for weight in keep:
            cells = cells + weight * old
        return self.read(cells), StackCells(cells)

    def trim(self, state: StackCells) -> StackCells:
        """Take away empty cells at the bottom; see `trim_cells`."""
        return trim_cells(state)

    def read(self, cells: Tensor) -> Tensor:
        """Read s^k, the k topmost cells of each stack, [B, S k]; -1 below the last cell."""
        missing = max(0, self.depth - cells.shape[-1])
        return F.pad(cells[..., : self.depth], (0, missing), value=EMPTY).flatten(1)


def trim_cells(state: StackCells) -> StackCells:
    """Take away the cells at the bottom that are empty in every stack of every sequence.

    Exact: an empty cell and none are the same. With actions that are one-hot this keeps long
    streams short; cells that are only nearly empty stay.

    Args:
        state: of a SuperpositionStack, cells [B, S, N].
    Raises:
        DTypeError: it is another state, as that of a whole layer, of which it is the `memory`.
    """
    if not isinstance(state, StackCells):
        raise DTypeError(
            f"state: expected the StackCells of a SuperpositionStack, got {type(state).__name__}."
        )
    return StackCells(state.cells[..., : used_cells(state.cells, EMPTY)])
