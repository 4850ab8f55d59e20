"""What the kernels must know of a memory: its options, heads, state and saved buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError

#: Activations of heads, in the order of `Activation` in csrc/heads.h.
ACTIVATIONS: Final = (
    "identity",
    "tanh",
    "sigmoid",
    "relu",
    "softplus",
    "softmax",
    "hard_sigmoid",
    "one_plus_relu",
    "one_plus_softplus",
)
#: The axis of a field of a state that counts its rows.
ROWS: Final = "N"

Shape = tuple[int, ...]


class Field(NamedTuple):
    """A field of a state.

    Fields:
        name: as in the memory's State.
        shape: axes after the batch; ROWS is the one that counts rows.
        is_live: whether the kernel fills the last state's own memory all along; in a session it
            then has room for further steps. Any other field is written at the end.
    """

    name: str
    shape: tuple[int | str, ...]
    is_live: bool = False

    @property
    def row_axis(self) -> int | None:
        """The axis of the field, the batch counted, that counts its rows; None without rows."""
        return 1 + self.shape.index(ROWS) if ROWS in self.shape else None

    def with_rows(self, rows: int) -> Shape:
        """The axes after the batch where there are so many rows."""
        return tuple(rows if isinstance(axis, str) else axis for axis in self.shape)


class Buffer(NamedTuple):
    """What the forward pass keeps for the backward pass.

    Fields:
        shape: all axes.
        is_integer: int32 in place of the call's dtype.
        begins_zero: for one most of which is never written.
    """

    shape: Shape
    is_integer: bool = False
    begins_zero: bool = False


class CallSizes(NamedTuple):
    """The sizes of a call that a memory's buffers depend on.

    Fields:
        steps: T. batch: B. rows: N of the initial state. lanes: values in a register.
    """

    steps: int
    batch: int
    rows: int
    lanes: int


@dataclass(frozen=True)
class Structure(ABC):
    """A memory as the kernels see it; its dataclass fields are the options of its C++ header.

    A subclass says the header's name for it, and what the header says in words: heads, state,
    saved buffers. `growth` and `most_rows` are the memory's own.

    Raises:
        ShapeError: an option is out of range.
    """

    name: ClassVar[str]
    #: Rows that a step adds before the first and after the last one.
    growth: ClassVar[tuple[int, int]] = (0, 0)
    #: Fields of instruction and state that the kernel takes only where they are at least 0.
    nonnegative: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 0:
                raise ShapeError(f"{name}: expected an integer >= 0, got {value!r}.")

    @property
    def options(self) -> tuple[int, ...]:
        """The options in the header's order."""
        return tuple(map(int, vars(self).values()))

    @property
    @abstractmethod
    def heads(self) -> Mapping[str, Shape]:
        """The fields of an instruction in order, and their axes after the batch."""

    @property
    @abstractmethod
    def reading(self) -> int:
        """R, size of the reading."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The fields of a state."""

    @abstractmethod
    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """What the forward pass keeps, in the header's order."""

    def activations(self, head: str) -> tuple[str, ...]:
        """The activations that the kernel knows for a head."""
        del head  # all heads alike, unless the header says otherwise
        return ACTIVATIONS

    @property
    def most_rows(self) -> int | None:
        """Most rows of a state; None for no limit."""
        return None

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """Values of a checkpoint of one sequence; 0 for none."""
        return 0

    def check_rows(self, rows: int) -> None:
        """Raise ShapeError if a state cannot have so many rows."""
        del rows  # any number will do

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether a step up to this one may find a fault that is an error."""
        return False

    def new_faults(self, like: Tensor, batch: int, rows: int, steps: int) -> Tensor | None:
        """Where the kernel notes faults [B] up to this step; None if there can be none."""
        if not self.can_fail(rows, steps):
            return None
        return like.new_zeros(batch, dtype=torch.int32)

    def check_faults(self, faults: Tensor | None) -> None:
        """Raise the error that the header's fault numbers [B] stand for, if any is not 0."""
        del faults  # none stands for anything

    @property
    def head_rows(self) -> int:
        """K, rows of the heads' linear map."""
        return sum(prod(shape) for shape in self.heads.values())

    def rows_after(self, rows: int, steps: int) -> int:
        """Rows of the state after so many steps."""
        added = sum(self.growth)
        if added and self.most_rows is not None:
            steps = min(steps, max(0, self.most_rows - rows) // added)
        return rows + added * steps

    def expect_at_least(self, least: int, *options: str) -> None:
        """Raise ShapeError unless these options are at least so large."""
        for option in options:
            if getattr(self, option) < least:
                raise ShapeError(
                    f"{option}: expected an integer >= {least}, got {getattr(self, option)}."
                )
