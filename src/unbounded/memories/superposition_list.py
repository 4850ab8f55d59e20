"""The superposition list of Joulin & Mikolov: a tape of scalar cells that moves under its head."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded import kernels
from unbounded.checks import is_number
from unbounded.errors import ConfigError, ShapeError
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
class ListCells(NamedTuple):
    """The cells of every list.

    Fields:
        cells: s_t, [B, S, N], N odd, HEAD at N // 2; an empty cell holds `empty`.
    """

    cells: Tensor


class SuperpositionList(SuperpositionMemory[ListCells]):
    """Lists of numbers over all integer places; HEAD stays in the middle and the list moves.

    RIGHT moves HEAD one place to the right (all values go one to the left); LEFT is the opposite.
    INSERT writes a new value at HEAD. The old value at HEAD and all values left of it go one place
    to the left; those right of it stay.

    Choices that the paper leaves open:

    * An empty cell is -1, as in a stack, or optionally 0.
    * The controller reads the k cells HEAD, HEAD - 1, ..., HEAD - k + 1. They are the newest
      insertion and the values that it displaced, like the k topmost cells of a stack.
    * The list has no ends: each step adds an empty cell on both sides. With a `capacity` it stops
      growing there, and empty cells enter at its ends. A value lost at an end raises an error, or
      is optionally dropped.

    Args:
        count: S, number of lists.
        depth: k, number of cells read from each list.
        noop: whether NO-OP is a fourth action, as in the paper.
        capacity: largest number of cells on either side, HEAD included: 2 capacity - 1 in all. At
            least `depth`; None for lists that grow.
        overflow: action if a full list would lose a cell that is not empty: "error" raises,
            "drop_ends" drops it.
        empty: value of an empty cell, -1 or 0. Values lie in (0, 1); with 0, an empty cell and a
            small value look alike.
    Raises:
        ShapeError, ConfigError, ChoiceError: an argument is out of range; the message names it.
    Source: Joulin & Mikolov 2015 (NIPS), section 3; the authors' program has no list.
    """

    State = ListCells
    basic_actions = ("RIGHT", "LEFT", "INSERT")
    overflows = ("error", "drop_ends")

    def __init__(
        self,
        count: int,
        depth: int = 2,
        noop: bool = True,
        capacity: int | None = None,
        overflow: str = "error",
        empty: float = EMPTY,
    ) -> None:
        super().__init__(count, depth, noop, capacity, overflow)
        if not is_number(empty) or empty not in (EMPTY, 0):
            raise ConfigError([f"empty: expected -1 or 0, got {empty!r}"])
        self.empty, self.is_zero = float(empty), empty == 0

    def __repr__(self) -> str:
        rest = "" if self.empty == EMPTY else f", empty={self.empty:g}"
        return f"{super().__repr__()[:-1]}{rest})"

    @property
    def kernel(self) -> kernels.Structure:
        """The list of the fused kernels."""
        return kernels.structures.SuperpositionList(*self._kernel_options)

    @property
    def cells_field(self) -> StateField:
        """Initially HEAD alone; each step adds a cell at both ends, up to 2 capacity - 1 cells."""
        most = None if self.capacity is None else 2 * self.capacity - 1
        shape, initial = (self.count, "N"), Constant(self.empty)
        return StateField("cells", shape, (1, 1), 1, most, empty=self.empty, initializer=initial)

    def check_state(self, state: ListCells, batch_size: int, like: Tensor) -> None:
        """Check as `Memory.check_state`, and that the number of cells is odd."""
        super().check_state(state, batch_size, like)
        if state.cells.shape[-1] % 2 == 0:
            raise ShapeError(
                "state.cells: expected an odd number of cells N with HEAD in the middle, got "
                f"{state.cells.shape[-1]}."
            )

    def step(self, state: ListCells, instruction: ActionValue) -> tuple[Tensor, ListCells]:
        """Move, insert and keep, each by its weight; then read at HEAD.

        L_t[i] = a_t[RIGHT] L_{t-1}[i+1] + a_t[LEFT] L_{t-1}[i-1] + a_t[INSERT] X_t[i]
                 + a_t[NO-OP] L_{t-1}[i]
        X_t[i] = sigma(D h_t) at i = HEAD;  L_{t-1}[i+1] for i < HEAD;  L_{t-1}[i] for i > HEAD

        Args:
            state: cells [B, S, N], HEAD at N // 2, N odd.
            instruction: action [B, S, 3], with NO-OP [B, S, 4]; value [B, S].
        Returns:
            read vector [B, S k] (HEAD and the cells left of it, list by list) and the next state,
            two cells longer below the capacity.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            MemoryOverflowError: a full list would lose a cell, with overflow="error".
        Source: Joulin & Mikolov 2015 (NIPS), section 3, the list's equation.
        """
        self._check_step(state, instruction)
        weights = [weight.unsqueeze(-1) for weight in instruction.action.unbind(-1)]
        right, left, insert, *keep = weights
        old = self.cells_field.padded(state.cells, 1)
        if old.shape == state.cells.shape:
            by_right, by_left, by_insert = instruction.action[..., :3].unbind(-1)
            lost_left = by_right + by_insert
            old = self._lose(old, old[..., 0], lost_left, "the leftmost cell of a full list")
            old = self._lose(old, old[..., -1], by_left, "the rightmost cell of a full list")
        head = old.shape[-1] // 2
        inserted = torch.cat(
            [old[..., 1 : head + 1], instruction.value.unsqueeze(-1), old[..., head + 1 :]], dim=-1
        )
        by_one = [shifted(old, by, self.empty) for by in (-1, 1)]
        cells = right * by_one[0] + left * by_one[1] + insert * inserted
        for weight in keep:
            cells = cells + weight * old
        return self.read(cells), ListCells(cells)

    def trim(self, state: ListCells) -> ListCells:
        """Remove cells that are empty at both ends; HEAD stays in the middle."""
        head = state.cells.shape[-1] // 2
        right = used_cells(state.cells[..., head:], self.empty)
        left = used_cells(state.cells[..., : head + 1].flip(-1), self.empty)
        side = max(right, left, 1) - 1
        return ListCells(state.cells[..., head - side : head + side + 1])

    def read(self, cells: Tensor) -> Tensor:
        """Read HEAD and the k - 1 cells left of it, [B, S k]; empty beyond the last."""
        head = cells.shape[-1] // 2
        leftwards = cells[..., : head + 1].flip(-1)[..., : self.depth]
        return F.pad(leftwards, (0, self.depth - leftwards.shape[-1]), value=self.empty).flatten(1)
