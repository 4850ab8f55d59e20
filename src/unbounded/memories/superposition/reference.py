"""Superposition stacks and lists: cells that mix the results of all actions.

Sources: Joulin & Mikolov 2015, arXiv:1503.01007, section 3, whose cells are numbers; Yogatama et
al. 2018 and Delétang et al. 2023, arXiv:2207.02098, whose cells are vectors.
"""

from __future__ import annotations

import copy
import struct
from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_bool, check_choice, check_number, check_positive, is_batched
from unbounded.errors import ConfigError, DTypeError, MemoryOverflowError, ShapeError
from unbounded.memories.core import (
    VALUE_ACTIVATIONS,
    Constant,
    Head,
    Memory,
    StateField,
    StateT,
    portable,
)

#: The number in an empty cell, unless another number is chosen.
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
        value: sigma(D h_t), [B, S] in (0, 1), the value that a push or an insertion writes; with
            vectors of W > 1 numbers [B, S, W].
    """

    action: Tensor
    value: Tensor


class SuperpositionMemory(Memory[StateT, ActionValue]):
    """Parallel structures, each with its own action and value.

    The structures interact in the controller.

    The only field of a state is `cells`, s_t, [B, S, N], which are S structures of N cells. An
    empty cell holds `empty`. Cells of W > 1 numbers, [B, S, N, W], are moved as vectors.

    Args:
        count: S, number of stacks or lists.
        depth: k, number of cells read from each.
        noop: whether NO-OP is an action.
        capacity: largest number of cells of a structure, at least `depth`. None lets it grow at
            each step, so that nothing is dropped.
        overflow: action if a full structure would lose a cell that is not empty: "error" raises
            MemoryOverflowError; the policy named in `overflows` drops the cell.
        empty: the number in an empty cell.
        width: W, numbers in a cell.
        activation: of the written value, one of VALUE_ACTIVATIONS.
    Raises:
        ShapeError: `count`, `depth` or `width` is not a positive integer. DTypeError: `noop` is not
            a bool. ConfigError: the capacity is not an integer, or is below `depth`; a policy
            without a capacity; or `empty` is not a finite number. ChoiceError: an unknown policy or
            activation.
    """

    Instruction = ActionValue
    head_bias = False
    #: The actions without NO-OP, in the order of their weights.
    basic_actions: ClassVar[tuple[str, ...]]
    #: The policies of `overflow`.
    overflows: ClassVar[tuple[str, ...]]
    #: The name of the cell that a full structure loses at each end, for messages.
    ends: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        count: int,
        depth: int,
        noop: bool,
        capacity: int | None,
        overflow: str,
        empty: float,
        width: int,
        activation: str,
    ) -> None:
        check_positive("count", count)
        check_positive("depth", depth)
        check_positive("width", width)
        check_bool("noop", noop)
        check_choice("overflow", overflow, self.overflows)
        check_choice("activation", activation, VALUE_ACTIVATIONS)
        check_number("empty", empty)
        if capacity is None:
            if overflow != "error":
                raise ConfigError(f"overflow: {overflow!r} has no effect without a capacity")
        else:
            _check_capacity(capacity, depth)
        self.count, self.depth, self.noop = count, depth, noop
        self.capacity, self.overflow = capacity, overflow
        self.empty, self.width, self.activation = float(empty), width, activation
        #: The bits of `empty`, an option of the kernels.
        (self.empty_bits,) = struct.unpack("=q", struct.pack("=d", self.empty))

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
        others = "".join(f", {name}={value!r}" for name, value in self.other_options.items())
        return (
            f"{type(self).__name__}(count={self.count}, depth={self.depth}, noop={self.noop}"
            f"{limit}{policy}{others})"
        )

    @property
    def other_options(self) -> dict[str, float | str]:
        """The options of the cells that differ from the paper, by name."""
        usual: dict[str, float | str] = {"empty": EMPTY, "width": 1, "activation": "sigmoid"}
        options = {name: getattr(self, name) for name in usual}
        return {name: value for name, value in options.items() if value != usual[name]}

    @property
    def cell_shape(self) -> tuple[int, ...]:
        """The axes of a cell: none for a number, (W,) for a vector."""
        return () if self.width == 1 else (self.width,)

    @property
    def dropped_beyond(self) -> int | None:
        """The capacity, if the policy drops cells."""
        return None if self.overflow == "error" else self.capacity

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, in the order of their weights."""
        return (*self.basic_actions, NO_OP) if self.noop else self.basic_actions

    @property
    def cells_shape(self) -> tuple[int | str, ...]:
        """The axes of all cells: S, N, and the axes of a cell."""
        return (self.count, "N", *self.cell_shape)

    @property
    def heads(self) -> tuple[Head, ...]:
        """Actions A h_t (softmax) and values sigma(D h_t) of each structure, without biases."""
        return (
            Head(
                "action",
                (self.count, len(self.actions)),
                "softmax",
                gate=True,
                choices=self.actions,
            ),
            Head("value", (self.count, *self.cell_shape), self.activation),
        )

    @property
    def read_vector_size(self) -> int:
        """S k W."""
        return self.count * self.depth * self.width

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
        """Read k cells of each structure, [B, S k W], structure by structure, from the cells."""

    def _weights(self, action: Tensor) -> list[Tensor]:
        """The weights [B, S, A] of the actions, each expanded to the axes of cells."""
        axes = (None,) * (1 + len(self.cell_shape))
        return [weight[(..., *axes)] for weight in action.unbind(-1)]

    def idle(self, active: Tensor, instruction: ActionValue) -> ActionValue:
        """Return an instruction without any action, so that no cell is lost; see `Memory.idle`."""
        action = torch.where(active.view(-1, 1, 1), instruction.action, 0.0)
        return instruction._replace(action=action)

    def _lose(self, cells: Tensor, lost: Tensor, weight: Tensor, place: str) -> Tensor:
        """Raise if cells that are not empty leave the memory with a weight [B, S] above 0.

        A mixture of empty cells is empty up to rounding, since the weights sum to 1 up to rounding.
        The check is made only with the policy "error". The check synchronizes the device and is
        impossible under vmap.

        Args:
            cells: [B, S, N, ...]. lost: one of them of each structure, [B, S, ...].
        Returns:
            `cells`; under vmap a structure that loses a cell becomes NaN.
        """
        if self.overflow != "error":
            return cells
        is_used = (lost - self.empty).abs() > HARDENING * torch.finfo(lost.dtype).eps
        is_lost = is_used.reshape(*weight.shape, self.width).any(-1) & (weight > 0)
        if is_batched(is_lost):
            where = is_lost[(..., *(None,) * (cells.dim() - is_lost.dim()))]
            return torch.where(where, torch.nan, cells)
        if bool(is_lost.any()):
            raise MemoryOverflowError(
                f"{self!r}: {place} is not empty and would be lost. Give a larger capacity, "
                f"capacity=None, or overflow={self.overflows[-1]!r} to drop it."
            )
        return cells


def _check_capacity(capacity: object, depth: int) -> None:
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < depth:
        raise ConfigError(
            f"capacity: expected an integer >= depth = {depth} or None, got {capacity!r}"
        )
    check_positive("capacity", capacity)


def surrounded(cells: Tensor, before: int, after: int, empty: float) -> Tensor:
    """Pad cells [B, S, N, ...] with empty cells along N."""
    return F.pad(cells, (*(0, 0) * (cells.dim() - 3), before, after), value=empty)


def shifted(cells: Tensor, by: int, empty: float) -> Tensor:
    """Move cells [B, S, N, ...] by a place (+1: to higher indices). Empty cells enter."""
    if by > 0:
        return surrounded(cells[:, :, :-1], 1, 0, empty)
    return surrounded(cells[:, :, 1:], 0, 1, empty)


def used_cells(cells: Tensor, empty: float) -> int:
    """Number of cells up to the last cell that is not empty in some list of some sequence.

    Args:
        cells: [B, S, N, ...].
    """
    used = (cells != empty).transpose(0, 2).flatten(1).any(dim=1).nonzero()
    return int(used.max()) + 1 if used.numel() else 0


@portable
class StackCells(NamedTuple):
    """The cells of every stack.

    Fields:
        cells: s_t, [B, S, N], or [B, S, N, W] with W > 1; cell 0 is the top, and an empty cell
            holds `empty`.
    """

    cells: Tensor


class SuperpositionStack(SuperpositionMemory[StackCells]):
    """Stacks of numbers or vectors. Each cell is the mean of the results of PUSH, POP and NO-OP.

    Cell 0 is the top. All cells are initially empty (-1), and a POP moves an empty cell up from
    below the last cell. The read vector consists of the k topmost cells after the action. In the
    paper, the controller reads these cells before the action, so h_t depends on s_{t-1}. Both
    orders are equivalent: the layer passes a step's read vector to the next step, and the initial
    read vector is -1, the value of empty stacks.

    The paper's cells are numbers. With `width`, cells are vectors, each of which moves as one.

    Args:
        count: S, number of stacks.
        depth: k, number of topmost cells read from each.
        noop: whether NO-OP is a third action.
        capacity: largest number of cells of a stack, at least `depth`; None for stacks that grow by
            a cell per step. The authors' program has 200.
        overflow: effect of a PUSH on a full stack whose bottom cell is not empty: "error" raises,
            "drop_bottom" drops that cell, as the authors' program does silently.
        empty: the number in an empty cell; 0 in Delétang et al.
        width: W, numbers in a cell; 8 in Delétang et al.
        activation: of the pushed value: "sigmoid", or another such as "tanh", or "identity" for a
            linear value, as in Delétang et al.
    Raises:
        ShapeError, ConfigError, ChoiceError: an argument is out of range; the message names it.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, eq. 3-6. NO-OP is printed for the top only;
        here, as in the authors' program, it keeps every cell. Vectors: Delétang et al. 2023,
        arXiv:2207.02098, appendix A.
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
        empty: float = EMPTY,
        *,
        width: int = 1,
        activation: str = "sigmoid",
    ) -> None:
        super().__init__(count, depth, noop, capacity, overflow, empty, width, activation)

    @property
    def cells_field(self) -> StateField:
        """Initially there is no cell. Each step adds a cell at the bottom, up to the capacity."""
        shape, empty = self.cells_shape, self.empty
        return StateField("cells", shape, (0, 1), 0, self.capacity, empty, Constant(empty))

    def step(self, state: StackCells, instruction: ActionValue) -> tuple[Tensor, StackCells]:
        """Push, pop and keep, each with its weight; then read the top.

        s_t[0] = a_t[PUSH] sigma(D h_t) + a_t[POP] s_{t-1}[1] + a_t[NO-OP] s_{t-1}[0]            (4)
        s_t[i] = a_t[PUSH] s_{t-1}[i-1] + a_t[POP] s_{t-1}[i+1] + a_t[NO-OP] s_{t-1}[i]          (5)

        Args:
            state: cells [B, S, N]; with vectors [B, S, N, W].
            instruction: action [B, S, 2], with NO-OP [B, S, 3]; value [B, S]; with vectors
                [B, S, W].
        Returns:
            read vector [B, S k W] (the k topmost cells, stack by stack) and the next state, one
            cell longer below the capacity.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            MemoryOverflowError: a full stack would lose a cell, with overflow="error".
        Source: Joulin & Mikolov 2015, arXiv:1503.01007, eq. 4, 5.
        """
        self.check_step(state, instruction)
        push, pop, *keep = self._weights(instruction.action)
        old = self.cells_field.padded(state.cells, 1)
        if old.shape == state.cells.shape:
            pushes = instruction.action[..., 0]
            old = self._lose(old, old[:, :, -1], pushes, self.ends[0])
        pushed = torch.cat([instruction.value.unsqueeze(2), old[:, :, :-1]], dim=2)
        cells = push * pushed + pop * shifted(old, -1, self.empty)
        for weight in keep:
            cells = cells + weight * old
        return self.read(cells), StackCells(cells)

    def trim(self, state: StackCells) -> StackCells:
        """Remove empty cells at the bottom; see `trim_cells`."""
        return trim_cells(state, self.empty)

    def read(self, cells: Tensor) -> Tensor:
        """Read s^k [B, S k W], the k topmost cells of each stack.

        Cells below the last are empty.
        """
        missing = max(0, self.depth - cells.shape[2])
        return surrounded(cells[:, :, : self.depth], 0, missing, self.empty).flatten(1)


def trim_cells(state: StackCells, empty: float = EMPTY) -> StackCells:
    """Remove the cells at the bottom that are empty in every stack of every sequence.

    The result is exact, because an empty cell equals an absent cell. With one-hot actions, the
    state of a long stream stays small. Cells that are nearly but not exactly empty are kept.

    Args:
        state: of a SuperpositionStack, cells [B, S, N] or [B, S, N, W].
        empty: the number in its empty cells.
    Raises:
        DTypeError: `state` is another state. Of a layer's state, give the field `memory`.
    """
    if not isinstance(state, StackCells):
        raise DTypeError(
            f"state: expected the StackCells of a SuperpositionStack, got {type(state).__name__}."
        )
    return StackCells(state.cells[:, :, : used_cells(state.cells, empty)])


@portable
class ListCells(NamedTuple):
    """The cells of every list.

    Fields:
        cells: s_t, [B, S, N], or [B, S, N, W] with W > 1; N odd, HEAD at N // 2. An empty cell
            holds `empty`.
    """

    cells: Tensor


class SuperpositionList(SuperpositionMemory[ListCells]):
    """Lists over all integer places; HEAD stays in the middle and the list moves.

    RIGHT moves HEAD one place to the right, so all values move one place to the left. LEFT does the
    opposite. INSERT writes a new value at HEAD. The old value at HEAD and all values to its left
    move one place to the left. Values to the right of HEAD do not move.

    Choices that the paper leaves open:

    * An empty cell is -1, as in a stack, or optionally another number.
    * The controller reads the k cells HEAD, HEAD - 1, ..., HEAD - k + 1. These cells are the newest
      insertion and the values that it displaced, like the k topmost cells of a stack.
    * The list has no ends: each step adds an empty cell on both sides. With a `capacity`, the list
      stops growing at this size, and empty cells enter at its ends. A value lost at an end raises
      an error, or is optionally dropped.

    Args:
        count: S, number of lists.
        depth: k, number of cells read from each list.
        noop: whether NO-OP is a fourth action, as in the paper.
        capacity: largest number of cells on either side, HEAD included: 2 capacity - 1 in all. At
            least `depth`; None for lists that grow.
        overflow: action if a full list would lose a cell that is not empty: "error" raises,
            "drop_ends" drops it.
        empty: the number in an empty cell. Values lie in (0, 1) by default; with 0, an empty cell
            and a small value look alike.
        width: W, numbers in a cell. With more than 1, cells are vectors, each moved as a whole.
        activation: of the inserted value, as in a stack.
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
        *,
        width: int = 1,
        activation: str = "sigmoid",
    ) -> None:
        super().__init__(count, depth, noop, capacity, overflow, empty, width, activation)

    @property
    def cells_field(self) -> StateField:
        """Initially only HEAD. Each step adds a cell at both ends, up to 2 capacity - 1 cells."""
        most = None if self.capacity is None else 2 * self.capacity - 1
        shape, empty = self.cells_shape, self.empty
        return StateField("cells", shape, (1, 1), 1, most, empty, Constant(empty))

    def check_state(
        self, state: ListCells, batch_size: int, like: Tensor, name: str = "state"
    ) -> None:
        """Check as `Memory.check_state`, and that the number of cells is odd."""
        super().check_state(state, batch_size, like, name)
        if state.cells.shape[2] % 2 == 0:
            raise ShapeError(
                "state.cells: expected an odd number of cells N with HEAD in the middle, got "
                f"{state.cells.shape[2]}."
            )

    def step(self, state: ListCells, instruction: ActionValue) -> tuple[Tensor, ListCells]:
        """Move, insert and keep, each with its weight; then read at HEAD.

        L_t[i] = a_t[RIGHT] L_{t-1}[i+1] + a_t[LEFT] L_{t-1}[i-1] + a_t[INSERT] X_t[i]
                 + a_t[NO-OP] L_{t-1}[i]
        X_t[i] = sigma(D h_t) at i = HEAD;  L_{t-1}[i+1] for i < HEAD;  L_{t-1}[i] for i > HEAD

        Args:
            state: cells [B, S, N], HEAD at N // 2, N odd; with vectors [B, S, N, W].
            instruction: action [B, S, 3], with NO-OP [B, S, 4]; value [B, S]; with vectors
                [B, S, W].
        Returns:
            read vector [B, S k W] (HEAD and the cells left of it, list by list) and the next
            state, two cells longer below the capacity.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            MemoryOverflowError: a full list would lose a cell, with overflow="error".
        Source: Joulin & Mikolov 2015 (NIPS), section 3, the list's equation.
        """
        self.check_step(state, instruction)
        right, left, insert, *keep = self._weights(instruction.action)
        old = self.cells_field.padded(state.cells, 1)
        if old.shape == state.cells.shape:
            by_right, by_left, by_insert = instruction.action[..., :3].unbind(-1)
            lost_left = by_right + by_insert
            old = self._lose(old, old[:, :, 0], lost_left, self.ends[0])
            old = self._lose(old, old[:, :, -1], by_left, self.ends[1])
        head = old.shape[2] // 2
        value = instruction.value.unsqueeze(2)
        inserted = torch.cat([old[:, :, 1 : head + 1], value, old[:, :, head + 1 :]], dim=2)
        by_one = [shifted(old, by, self.empty) for by in (-1, 1)]
        cells = right * by_one[0] + left * by_one[1] + insert * inserted
        for weight in keep:
            cells = cells + weight * old
        return self.read(cells), ListCells(cells)

    def trim(self, state: ListCells) -> ListCells:
        """Remove empty cells at both ends. HEAD stays in the middle."""
        head = state.cells.shape[2] // 2
        right = used_cells(state.cells[:, :, head:], self.empty)
        left = used_cells(state.cells[:, :, : head + 1].flip(2), self.empty)
        side = max(right, left, 1) - 1
        return ListCells(state.cells[:, :, head - side : head + side + 1])

    def read(self, cells: Tensor) -> Tensor:
        """Read HEAD and the k - 1 cells left of it, [B, S k W]. Cells beyond the last are empty."""
        head = cells.shape[2] // 2
        leftwards = cells[:, :, : head + 1].flip(2)[:, :, : self.depth]
        return surrounded(leftwards, 0, self.depth - leftwards.shape[2], self.empty).flatten(1)
