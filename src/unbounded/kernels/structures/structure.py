"""The kernels' declaration of a memory: its options, heads, state and saved buffers."""

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
#: Marks the axis of rows in a field of a state.
ROWS: Final = "N"

Shape = tuple[int, ...]


class Field(NamedTuple):
    """A field of a state.

    Fields:
        name: as in the memory's State.
        shape: axes after the batch; ROWS marks the axis of rows.
        is_live: whether the kernel keeps the field in the tensor of the final state throughout; in
            a session that tensor has room for later steps. Other fields are written at the end.
    """

    name: str
    shape: tuple[int | str, ...]
    is_live: bool = False

    @property
    def row_axis(self) -> int | None:
        """The axis of rows, counting the batch axis; None without rows."""
        return 1 + self.shape.index(ROWS) if ROWS in self.shape else None

    def with_rows(self, rows: int) -> Shape:
        """The axes after the batch for a number of rows."""
        return tuple(rows if isinstance(axis, str) else axis for axis in self.shape)


class Buffer(NamedTuple):
    """A buffer that the forward pass keeps for the backward pass.

    Fields:
        shape: all axes.
        is_integer: int32 instead of the call's dtype.
        starts_zero: whether it is zeroed first, because most of it is never written.
    """

    shape: Shape
    is_integer: bool = False
    starts_zero: bool = False


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
    """The kernels' view of a memory; its dataclass fields are the options of its C++ header.

    A subclass declares the header's name, its heads, state and saved buffers. `growth` and
    `most_rows` are those of the memory.

    Raises:
        ShapeError: an option is out of range.
    """

    name: ClassVar[str]
    #: Rows that a step adds before the first and after the last one.
    growth: ClassVar[tuple[int, int]] = (0, 0)
    #: Fields of instruction and state that the kernel requires to be at least 0.
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
    def read_vector(self) -> int:
        """R, size of the read vector."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The fields of a state."""

    @abstractmethod
    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The buffers that the forward pass keeps, in the header's order."""

    def activations(self, head: str) -> tuple[str, ...]:
        """The activations that the kernel supports for a head."""
        del head  # the same for all heads by default
        return ACTIVATIONS

    @property
    def most_rows(self) -> int | None:
        """Largest number of rows of a state; None for no limit."""
        return None

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """Values in a checkpoint of one sequence; 0 for none."""
        return 0

    def check_rows(self, rows: int) -> None:
        """Raise ShapeError if a state cannot have this number of rows."""
        del rows  # any number is valid

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether a step up to this one may cause an error."""
        return False

    def new_errors(self, like: Tensor, batch: int, rows: int, steps: int) -> Tensor | None:
        """Allocate the kernel's error numbers [B] up to this step; None if no error can occur."""
        if not self.can_fail(rows, steps):
            return None
        return like.new_zeros(batch, dtype=torch.int32)

    def check_errors(self, errors: Tensor | None) -> None:
        """Raise the error for the header's error numbers [B], if any is not 0."""
        del errors  # no numbers by default

    @property
    def head_rows(self) -> int:
        """K, rows of the heads' linear map."""
        return sum(prod(shape) for shape in self.heads.values())

    def rows_after(self, rows: int, steps: int) -> int:
        """Rows of the state after `steps` steps."""
        added = sum(self.growth)
        if added and self.most_rows is not None:
            steps = min(steps, max(0, self.most_rows - rows) // added)
        return rows + added * steps

    def expect_at_least(self, least: int, *options: str) -> None:
        """Raise ShapeError unless these options are at least `least`."""
        for option in options:
            if getattr(self, option) < least:
                raise ShapeError(
                    f"{option}: expected an integer >= {least}, got {getattr(self, option)}."
                )
