"""Base class of superposition stacks and lists, whose cells mix the results of all actions.

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
from unbounded.memories.head import Head
from unbounded.memories.initializers import Constant
from unbounded.memories.state import portable
from unbounded.memories.state_field import StateField

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
    def _kernel_options(self) -> tuple[int, int, int, int, bool, bool]:
        is_strict, capacity = self.overflow == "error", self.capacity or 0
        return self.count, len(self.actions), self.depth, capacity, is_strict, self.is_zero

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
