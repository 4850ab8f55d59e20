"""The superposition stack of Joulin & Mikolov: scalar cells, mixed by the weights of actions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded import kernels
from unbounded.errors import DTypeError
from unbounded.memories.initializers import Constant
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
    """Stacks of numbers; every cell is the weighted mean of the results of PUSH, POP and NO-OP.

    Cell 0 is the top. All cells are initially empty (-1), and a POP brings up an empty cell from
    below the last one. The read vector has the k topmost cells after the action. The paper's
    controller reads them before it acts, h_t from s_{t-1}. This is equivalent: the layer passes a
    step's read vector to the next step, and the initial read vector, of empty stacks, is -1.

    Args:
        count: S, number of stacks.
        depth: k, number of topmost cells read from each.
        noop: whether NO-OP is a third action.
        capacity: largest number of cells of a stack, at least `depth`; None for stacks that grow by
            a cell per step. The authors' program has 200.
        overflow: effect of a PUSH on a full stack whose bottom cell is not empty: "error" raises,
            "drop_bottom" drops that cell, as the authors' program does silently.
    Raises:
        ShapeError, ConfigError, ChoiceError: an argument is out of range; the message names it.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, eq. 3-6. NO-OP is printed for the top only;
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
        """Initially no cell; each step adds one at the bottom, up to the capacity."""
        shape, empty = (self.count, "N"), Constant(EMPTY)
        return StateField("cells", shape, (0, 1), 0, self.capacity, empty=EMPTY, initializer=empty)

    def step(self, state: StackCells, instruction: ActionValue) -> tuple[Tensor, StackCells]:
        """Push, pop and keep, each by its weight; then read the top.

        s_t[0] = a_t[PUSH] sigma(D h_t) + a_t[POP] s_{t-1}[1] + a_t[NO-OP] s_{t-1}[0]            (4)
        s_t[i] = a_t[PUSH] s_{t-1}[i-1] + a_t[POP] s_{t-1}[i+1] + a_t[NO-OP] s_{t-1}[i]          (5)

        Args:
            state: cells [B, S, N].
            instruction: action [B, S, 2], with NO-OP [B, S, 3]; value [B, S].
        Returns:
            read vector [B, S k] (the k topmost cells, stack by stack) and the next state, one cell
            longer below the capacity.
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
        """Remove empty cells at the bottom; see `trim_cells`."""
        return trim_cells(state)

    def read(self, cells: Tensor) -> Tensor:
        """Read s^k, the k topmost cells of each stack, [B, S k]; -1 below the last cell."""
        missing = max(0, self.depth - cells.shape[-1])
        return F.pad(cells[..., : self.depth], (0, missing), value=EMPTY).flatten(1)


def trim_cells(state: StackCells) -> StackCells:
    """Remove the cells at the bottom that are empty in every stack of every sequence.

    Exact: an empty cell equals an absent one. With one-hot actions this keeps long streams short;
    cells that are only nearly empty stay.

    Args:
        state: of a SuperpositionStack, cells [B, S, N].
    Raises:
        DTypeError: it is another state, such as a layer's state, whose `memory` is needed.
    """
    if not isinstance(state, StackCells):
        raise DTypeError(
            f"state: expected the StackCells of a SuperpositionStack, got {type(state).__name__}."
        )
    return StackCells(state.cells[..., : used_cells(state.cells, EMPTY)])
