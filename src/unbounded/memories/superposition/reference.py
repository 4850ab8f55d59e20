"""Superposition stacks and lists: scalar cells that mix the results of all actions.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, section 3.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_bool, check_choice, check_positive, is_batched, is_number
from unbounded.errors import ConfigError, DTypeError, MemoryOverflowError, ShapeError
from unbounded.memories.core import Constant, Head, Memory, StateField, StateT, portable

#: Value of an empty cell, unless a list chooses 0.
EMPTY = -1.0
#: A cell within this many machine epsilons of the empty value does not count as overflow.
HARDENING = 64
#: The action that keeps every cell.
NO_OP = "NO-OP"


@portable
class ActionValue(NamedTuple):
    """The instruction of superposition stacks and lists.

    Fields:
        action: a_t, [B, S, A], the weights of the A actions, which sum to 1.
        value: sigma(D h_t), [B, S] in (0, 1), the value that a push or an insertion writes.
    """

    action: Tensor
    value: Tensor


class SuperpositionMemory(Memory[StateT, ActionValue]):
    """Parallel structures, each with its own action and value; they interact in the controller.

    The only field of a state is `cells`, s_t, [B, S, N]: S structures of N cells; an empty cell
    holds `empty`.

    Args:
        count: S, number of stacks or lists.
        depth: k, number of cells read from each.
        noop: whether NO-OP is an action.
        capacity: largest number of cells of a structure, at least `depth`. None lets it grow at
            each step, so that nothing is dropped.
        overflow: action if a full structure would lose a cell that is not empty: "error" raises
            MemoryOverflowError; the policy named in `overflows` drops the cell.
    Raises:
        ShapeError: `count` or `depth` is no positive integer. DTypeError: `noop` is no bool.
        ConfigError: the capacity is no integer or below `depth`, or a policy without a capacity.
        ChoiceError: an unknown policy.
    """

    Instruction = ActionValue
    head_bias = False
    #: The actions without NO-OP, in the order of their weights.
    basic_actions: ClassVar[tuple[str, ...]]
    #: The policies of `overflow`.
    overflows: ClassVar[tuple[str, ...]]
    #: The name of the cell that a full structure loses at each end, for messages.
    ends: ClassVar[tuple[str, ...]]
    #: Value of an empty cell.
    empty: float = EMPTY
    #: Whether `empty` is 0. A float is symbolic in a graph with dynamic=True; a bool is not.
    is_zero: bool = False

    def __init__(
        self,
        count: int,
        depth: int,
        noop: bool,
        capacity: int | None,
        overflow: str,
    ) -> None:
        check_positive("count", count)
        check_positive("depth", depth)
        check_bool("noop", noop)
        check_choice("overflow", overflow, self.overflows)
        if capacity is None:
            if overflow != "error":
                raise ConfigError([f"overflow: {overflow!r} has no effect without a capacity"])
        else:
            _check_capacity(capacity, depth)
        self.count, self.depth, self.noop = count, depth, noop
        self.capacity, self.overflow = capacity, overflow

    def with_capacity(self, capacity: int) -> Self:
        """Return the same structures with another capacity.

        Raises:
            ConfigError: the capacity is invalid, as in the constructor.
        """
        _check_capacity(capacity, self.depth)
        other = copy.copy(self)
        other.capacity = capacity
        return other

    def __repr__(self) -> str:
        limit = "" if self.capacity is None else f", capacity={self.capacity}"
        policy = "" if self.overflow == "error" else f", overflow={self.overflow!r}"
        return (
            f"{type(self).__name__}(count={self.count}, depth={self.depth}, noop={self.noop}"
            f"{limit}{policy})"
        )

    @property
    def dropped_beyond(self) -> int | None:
        """The capacity, with a policy that drops cells."""
        return None if self.overflow == "error" else self.capacity

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, in the order of their weights."""
        return (*self.basic_actions, NO_OP) if self.noop else self.basic_actions

    @property
    def heads(self) -> tuple[Head, ...]:
        """Actions A h_t (softmax) and values D h_t (sigmoid) of each structure; no biases."""
        return (
            Head("action", (self.count, len(self.actions)), "softmax", gate=True),
            Head("value", (self.count,), "sigmoid"),
        )

    @property
    def read_vector_size(self) -> int:
        """S k."""
        return self.count * self.depth

    @property
    def read_vector_initializer(self) -> Constant:
        """The initial read vector: the value of empty cells."""
        return Constant(self.empty)

    @property
    @abstractmethod
    def cells_field(self) -> StateField:
        """Declaration of the field `cells`: its growth and limit."""

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """The cells only."""
        return (self.cells_field,)

    @abstractmethod
    def read(self, cells: Tensor) -> Tensor:
        """Read k cells of each structure, [B, S k], structure by structure, from [B, S, N]."""

    def _check_step(self, state: StateT, instruction: ActionValue) -> None:
        self.check_kinds(state, instruction)
        batch_size = instruction.action.shape[0]
        self.check_instruction(instruction, batch_size)
        self.check_state(state, batch_size, instruction.action)

    def idle(self, active: Tensor, instruction: ActionValue) -> ActionValue:
        """Return an instruction without any action, so that no cell is lost; see `Memory.idle`."""
        action = torch.where(active.view(-1, 1, 1), instruction.action, 0.0)
        return instruction._replace(action=action)

    def _lose(self, cells: Tensor, lost: Tensor, weight: Tensor, place: str) -> Tensor:
        """Raise if cells [B, S] that are not empty leave the memory with a weight [B, S] above 0.

        A mixture of empty cells is empty up to rounding, since the weights sum to 1 up to rounding.
        Only the policy "error" checks. The check synchronizes the device and is impossible under
        vmap.

        Returns:
            `cells` [B, S, N]; under vmap a structure that loses a cell becomes NaN.
        """
        if self.overflow != "error":
            return cells
        is_used = (lost - self.empty).abs() > HARDENING * torch.finfo(lost.dtype).eps
        is_lost = is_used & (weight > 0)
        if is_batched(is_lost):
            return torch.where(is_lost.unsqueeze(-1), torch.nan, cells)
        if bool(is_lost.any()):
            raise MemoryOverflowError(
                f"{self!r}: {place} is not empty and would be lost. Give a larger capacity, "
                f"capacity=None, or overflow={self.overflows[-1]!r} to drop it."
            )
        return cells


def _check_capacity(capacity: object, depth: int) -> None:
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < depth:
        raise ConfigError(
            [f"capacity: expected an integer >= depth = {depth} or None, got {capacity!r}"]
        )
    check_positive("capacity", capacity)


def shifted(cells: Tensor, by: int, empty: float = EMPTY) -> Tensor:
    """Move the cells of [B, S, N] by one place (+1: towards higher indices); empty cells enter."""
    if by > 0:
        return F.pad(cells[..., :-1], (1, 0), value=empty)
    return F.pad(cells[..., 1:], (0, 1), value=empty)


def used_cells(cells: Tensor, empty: float) -> int:
    """Number of cells up to the last one that is not empty in some list of some sequence.

    Args:
        cells: [B, S, N].
    """
    used = (cells != empty).flatten(0, 1).any(dim=0).nonzero()
    return int(used.max()) + 1 if used.numel() else 0


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
    ends = ("the bottom cell of a full stack",)

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
            old = self._lose(old, old[..., -1], pushes, self.ends[0])
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
    ends = ("the leftmost cell of a full list", "the rightmost cell of a full list")

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
            old = self._lose(old, old[..., 0], lost_left, self.ends[0])
            old = self._lose(old, old[..., -1], by_left, self.ends[1])
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
