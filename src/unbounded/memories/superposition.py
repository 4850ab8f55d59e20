"""What superposition stacks and lists share: cells that are mixtures of what actions would leave.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, section 3.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_bool, check_choice, check_positive, is_batched
from unbounded.errors import ConfigError, MemoryOverflowError
from unbounded.memories.base import Memory, StateT
from unbounded.memories.beginnings import Constant
from unbounded.memories.head import Head
from unbounded.memories.state import portable
from unbounded.memories.state_field import StateField

#: What an empty cell holds, unless a list says otherwise.
EMPTY = -1.0
#: A cell this many machine epsilons away from that, or less, is not seen as overflow.
ROUNDING = 64
#: The action that leaves every cell as it is.
NO_OP = "NO-OP"


@portable
class ActionValue(NamedTuple):
    """The instruction of superposition stacks and lists.

    Fields:
        action: a_t, [B, S, A], the weights of the A actions, which sum to 1.
        value: sigma(D h_t), [B, S] in (0, 1), what a push or an insertion writes.
    """

    action: Tensor
    value: Tensor


class SuperpositionMemory(Memory[StateT, ActionValue]):
    """Structures side by side, each with its own action and value; they meet in the controller.

    The one field of a state is `cells`, s_t, [B, S, N]: S structures of N cells, `empty` where a
    cell is empty.

    Args:
        count: S, how many stacks or lists.
        depth: k, how many cells of each are read.
        noop: whether NO-OP is among the actions.
        capacity: most cells a structure keeps, at least `depth`; None lets it grow by what each
            step adds, so that nothing is ever dropped.
        overflow: what happens when a cell that is not empty would be lost at full capacity:
            "error" raises MemoryOverflowError, the policy named in `overflows` drops it.
    Raises:
        ShapeError: `count` or `depth` is no positive integer. DTypeError: `noop` is no bool.
        ConfigError: the capacity is no integer or below `depth`, or a policy without a capacity.
        ChoiceError: no such policy.
    """

    Instruction = ActionValue
    head_bias = False
    #: The actions without NO-OP, in the order of their weights.
    basic_actions: ClassVar[tuple[str, ...]]
    #: The policies of `overflow`.
    overflows: ClassVar[tuple[str, ...]]
    #: What an empty cell holds.
    empty: float = EMPTY
    #: Whether that is 0. A float is symbolic in a graph with dynamic=True; a bool is not.
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
        """The same structures, with room for other than their `capacity` cells each.

        Raises:
            ConfigError: as of the class.
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
    def _kernel_options(self) -> tuple[int, int, int, int, bool, bool]:
        is_strict, capacity = self.overflow == "error", self.capacity or 0
        return self.count, len(self.actions), self.depth, capacity, is_strict, self.is_zero

    @property
    def dropped_beyond(self) -> int | None:
        """The capacity, with a policy that drops."""
        return None if self.overflow == "error" else self.capacity

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, in the order of their weights."""
        return (*self.basic_actions, NO_OP) if self.noop else self.basic_actions

    @property
    def heads(self) -> tuple[Head, ...]:
        """Actions A h_t (softmax) and values D h_t (sigmoid) of each structure; no biases."""
        return (
            Head("action", (self.count, len(self.actions)), "softmax", decision=True),
            Head("value", (self.count,), "sigmoid"),
        )

    @property
    def reading_size(self) -> int:
        """S k."""
        return self.count * self.depth

    @property
    def reading_begin(self) -> Constant:
        """What empty cells read."""
        return Constant(self.empty)

    @property
    @abstractmethod
    def cells_field(self) -> StateField:
        """The field `cells`: where it grows, and how far."""

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """The cells alone."""
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
        """See `Memory.idle`: no action at all, so that nothing leaves the memory."""
        action = torch.where(active.view(-1, 1, 1), instruction.action, 0.0)
        return instruction._replace(action=action)

    def _lose(self, cells: Tensor, lost: Tensor, weight: Tensor, place: str) -> Tensor:
        """Raise if cells [B, S] that are not empty leave the memory with a weight [B, S] above 0.

        Mixed empty cells are empty up to rounding, since the weights' sum is 1 up to rounding. Only
        the policy "error" looks; looking makes the device wait, and cannot be done under vmap.

        Returns:
            `cells` [B, S, N]; under vmap those of a structure that loses something are NaN.
        """
        if self.overflow != "error":
            return cells
        held = (lost - self.empty).abs() > ROUNDING * torch.finfo(lost.dtype).eps
        is_lost = held & (weight > 0)
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
