"""The kernels' view of a memory: its declaration, and the additions of its C++ header."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from unbounded.memories.core.head import KERNEL_ACTIVATIONS
from unbounded.memories.core.memory import Memory
from unbounded.memories.core.state_field import Shape, StateField

MemoryT = TypeVar("MemoryT", bound=Memory[Any, Any])


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
    """The sizes of a call on which a memory's buffers depend.

    Fields:
        steps: T. batch: B. rows: N of the initial state. lanes: values in a register.
    """

    steps: int
    batch: int
    rows: int
    lanes: int

    def padded(self, size: int) -> int:
        """The next multiple of the values in a register."""
        return -(-size // self.lanes) * self.lanes


class Structure(ABC, Generic[MemoryT]):
    """The kernels' view of a memory.

    Heads, state, growth and read vector are the same as in the memory. Each entry of
    csrc/choices.h has a subclass, which declares the options of its header and the buffers that
    it saves.
    """

    #: The name in csrc/choices.h.
    name: ClassVar[str]
    #: The type of the memory. Subclasses are excluded.
    memory_type: ClassVar[type[Memory[Any, Any]]]
    #: The options in the header's order; by default they are attributes of the memory.
    option_names: ClassVar[tuple[str, ...]]
    #: Fields that the kernel updates in the tensor of the final state at every step. In a session,
    #: this tensor has space for the rows of later steps. Other fields are written to the final
    #: state after the last step.
    live_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, memory: MemoryT) -> None:
        self.memory: Final = memory

    @property
    def options(self) -> tuple[int, ...]:
        """The options in the header's order."""
        return tuple(getattr(self.memory, name) for name in self.option_names)

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> Memory[Any, Any]:
        """Build a memory with these options.

        Settings that are not options, such as biases, may differ.

        Raises:
            UnboundedError: an option is out of range.
        """
        return cls.memory_type(*options)

    @classmethod
    def why_not(cls, memory: MemoryT) -> str | None:
        """The reason why the kernel does not support a memory of its type; None if it does."""
        del memory  # the default supports all memories of the type
        return None

    @abstractmethod
    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The buffers that the forward pass keeps, in the header's order."""

    def checkpoint_size(self, sizes: CallSizes) -> int:
        """Number of values in a checkpoint of one sequence; 0 without checkpoints."""
        del sizes  # by default, there are no checkpoints
        return 0

    def activations(self, head: str) -> tuple[str, ...]:
        """The activations of a head that the kernel supports."""
        del head  # by default, all heads support the same activations
        return KERNEL_ACTIVATIONS

    @property
    def nonnegative(self) -> tuple[str, ...]:
        """Fields of instruction and state that the kernel requires to be at least 0."""
        return ()

    def check_rows(self, rows: int) -> None:
        """Raise ShapeError if the memory's state cannot have this number of rows."""
        del rows  # by default, any number of rows is valid

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether a step up to this one may cause an error."""
        del rows, steps  # by default, no step causes an error
        return False

    def check_errors(self, errors: Tensor | None) -> None:
        """Raise the error that the header's error numbers [B] represent, if any is not 0."""
        del errors  # by default, there are no error numbers

    def new_errors(self, like: Tensor, batch: int, rows: int, steps: int) -> Tensor | None:
        """Allocate error numbers [B] for the kernel; None if no error can occur up to this step."""
        if not self.can_fail(rows, steps):
            return None
        return like.new_zeros(batch, dtype=torch.int32)

    @cached_property
    def heads(self) -> dict[str, Shape]:
        """The fields of an instruction in order, and their axes after the batch."""
        return {head.name: head.shape for head in self.memory.heads}

    @cached_property
    def head_rows(self) -> int:
        """K, the number of rows in the heads' linear map."""
        return sum(prod(shape) for shape in self.heads.values())

    @cached_property
    def read_vector(self) -> int:
        """R, the size of the read vector."""
        return self.memory.read_vector_size

    @cached_property
    def fields(self) -> tuple[StateField, ...]:
        """The fields of a state."""
        return self.memory.state_fields

    @cached_property
    def _rows(self) -> StateField | None:
        """One of the fields with rows. All these fields grow in the same way."""
        return next((field for field in self.fields if field.grows), None)

    @property
    def growth(self) -> tuple[int, int]:
        """Number of rows that a step adds before the first and after the last row."""
        return (0, 0) if self._rows is None else self._rows.growth

    def rows_after(self, rows: int, steps: int) -> int:
        """Number of rows of the state after `steps` steps."""
        return rows if self._rows is None else self._rows.rows_after(rows, steps)
