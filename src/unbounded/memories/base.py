"""What a memory is: heads it declares, a state, and a pure step from one state to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded import kernels
from unbounded.checks import check_like, check_positive, check_shape
from unbounded.errors import BackendError, BackendWarning, ChoiceError, ShapeError, say_once

StateT = TypeVar("StateT", bound=tuple[Tensor, ...])
InstructionT = TypeVar("InstructionT", bound=tuple[Tensor, ...])

BACKENDS = ("auto", "reference", "cpu")


class Head(NamedTuple):
    """One part of an instruction, as the controller's linear map has to produce it.

    Fields:
        name: the field of the memory's Instruction that it fills.
        shape: axes of that field after the batch; () for a scalar.
        activation: "identity", "tanh", "sigmoid", "softmax" (over the last axis), "relu", ...
        bias: initial value of every bias of the head; None keeps the ordinary random draw.
    """

    name: str
    shape: tuple[int, ...]
    activation: str
    bias: float | None = None

    @property
    def size(self) -> int:
        """Rows of the linear map that belong to this head."""
        return int(torch.Size(self.shape).numel())


class Memory(ABC, Generic[StateT, InstructionT]):
    """A differentiable data structure without parameters: `step` maps values to values.

    A memory declares its `heads`; states and instructions are NamedTuples of tensors whose first
    axis is the batch. Nothing is mutated, so a state can be kept, shared, detached and resumed.
    """

    Instruction: type[InstructionT]
    State: type[StateT]
    #: Rows that each step adds before the first and after the last row of a state.
    growth: tuple[int, int] = (0, 0)
    #: The axis of a state's fields, and of what `observe` shows, that counts the rows.
    row_axis: int = 1
    #: What stands in a row that holds nothing.
    empty_value: float = 0.0
    #: Whether the heads have biases; a memory has them for all of its heads or for none.
    head_bias: bool = True

    @property
    def kernel(self) -> kernels.Structure | None:
        """What the kernels know of this memory; None where none does."""
        return None

    @property
    @abstractmethod
    def heads(self) -> tuple[Head, ...]:
        """The heads that fill an Instruction, in the order of its fields."""

    @property
    @abstractmethod
    def reading_size(self) -> int:
        """R, the width of what one step reads."""

    @abstractmethod
    def initial_state(
        self,
        batch_size: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> StateT:
        """Return the empty memory for `batch_size` sequences."""

    def initial_reading(
        self,
        batch_size: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Return r_0, what the controller sees before the first step, [B, R]: zeros."""
        check_batch_size(batch_size)
        return torch.zeros(batch_size, self.reading_size, dtype=dtype, device=device)

    @abstractmethod
    def step(self, state: StateT, instruction: InstructionT) -> tuple[Tensor, StateT]:
        """Carry out one instruction: return the reading [B, R] and the next state.

        Shapes and dtypes are checked, ranges are not: a look at the values makes the device wait
        at each step, and the heads' activations keep to the ranges. What is out of range is
        carried out as the equations say.
        """

    @abstractmethod
    def observe(self, state: StateT) -> Mapping[str, Tensor]:
        """Return what a trace shows of a state, by name, each with rows along `row_axis`."""

    def unroll(
        self,
        instructions: InstructionT,
        state: StateT | None = None,
        backend: str = "auto",
    ) -> tuple[Tensor, StateT]:
        """Carry out a sequence of instructions.

        Args:
            instructions: the Instruction's fields with a time axis, [B, T, ...].
            state: where to begin; None begins with the empty memory.
            backend: "auto" takes a fused kernel where one applies, "reference" the loop over
                `step`, "cpu" the fused CPU kernel or an error.
        Returns:
            readings [B, T, R] and the state after the last step.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            ChoiceError: no such backend. BackendError: the backend cannot serve this call.
        """
        check_backend(backend)
        batch_size, _ = self.check_instructions(instructions)
        first = instructions[0]
        if state is None:
            state = self.initial_state(batch_size, dtype=first.dtype, device=first.device)
        self.check_state(state, batch_size, first)
        kernel = kernel_of(self)
        reason = f"no kernel knows the memory {type(self).__name__}"
        if kernel is not None:
            reason = kernels.why_not(*instructions, *state) or _negative(
                kernel, {**_by_name(instructions), **_by_name(state)}
            )
        if choose_backend(backend, type(self).__name__, reason) and kernel is not None:
            return self._unroll_fused(kernel, instructions, state)
        return self._unroll_reference(instructions, state)

    def _unroll_fused(
        self, kernel: kernels.Structure, instructions: InstructionT, state: StateT
    ) -> tuple[Tensor, StateT]:
        def reference(
            instruction: tuple[Tensor, ...], initial: tuple[Tensor, ...]
        ) -> tuple[Tensor, ...]:
            start, fields = self.State(*initial), self.Instruction(*instruction)
            readings, final = self._unroll_reference(fields, start)
            return (readings, *final)

        readings, final = kernels.unroll(kernel, instructions, state, reference=reference)
        return readings, self.State(*final)

    def _unroll_reference(self, instructions: InstructionT, state: StateT) -> tuple[Tensor, StateT]:
        readings = []
        for t in range(instructions[0].shape[1]):
            instruction = self.Instruction(*(field[:, t] for field in instructions))
            reading, state = self.step(state, instruction)
            readings.append(reading)
        return torch.stack(readings, dim=1), state

    def pad_rows(self, rows: Tensor, steps: int) -> Tensor:
        """Give a state's field the empty rows that `steps` more steps would add."""
        before, after = self.growth
        return self._with_empty_rows(rows, before * steps, after * steps)

    def _with_empty_rows(self, rows: Tensor, before: int, after: int) -> Tensor:
        if before == 0 and after == 0:
            return rows
        trailing = (0, 0) * (rows.dim() - 1 - self.row_axis)
        return F.pad(rows, (*trailing, before, after), value=self.empty_value)

    def hold(self, active: Tensor, new: StateT, old: StateT) -> StateT:
        """Keep the old state of the sequences that are not active, in the new state's shape.

        Args:
            active: bool [B].
            new: state after a step. old: state before it.
        """
        held = []
        for new_field, old_field in zip(new, old, strict=True):
            shape = (-1,) + (1,) * (new_field.dim() - 1)
            held.append(torch.where(active.view(shape), new_field, self.pad_rows(old_field, 1)))
        return self.State(*held)

    def check_instructions(self, instructions: InstructionT) -> tuple[int, int]:
        """Check the fields [B, T, ...] of a sequence of instructions; return B and T."""
        check_instruction_type(self.Instruction, instructions)
        first_head, first = self.heads[0], instructions[0]
        check_shape(first_head.name, first, ("B", "T", *first_head.shape))
        batch_size, steps = first.shape[:2]
        if steps == 0:
            raise ShapeError(f"{first_head.name}: expected at least one time step, got T = 0.")
        self._check_fields(instructions, (batch_size, steps))
        return batch_size, steps

    def check_instruction(self, instruction: InstructionT, batch_size: int) -> None:
        """Check the fields [B, ...] of the instruction of one step."""
        check_instruction_type(self.Instruction, instruction)
        self._check_fields(instruction, (batch_size,))

    def _check_fields(self, instruction: InstructionT, leading: tuple[int, ...]) -> None:
        first_name, first = self.heads[0].name, instruction[0]
        for head, field in zip(self.heads, instruction, strict=True):
            check_shape(head.name, field, (*leading, *head.shape))
            check_like(head.name, field, first_name, first)

    def check_state(self, state: StateT, batch_size: int, like: Tensor) -> None:
        """Check that a state is this memory's, of this batch size, and like the instruction."""
        if not isinstance(state, self.State):
            raise ShapeError(
                f"state: expected a {self.State.__name__} of {type(self).__name__}, got "
                f"{type(state).__name__}. Make one with memory.initial_state(batch_size)."
            )
        empty = self.initial_state(batch_size, dtype=like.dtype, device=like.device)
        grows = self.growth != (0, 0)
        for name, field, model in zip(state._fields, state, empty, strict=True):  # type: ignore[attr-defined]
            shape: tuple[int | str, ...] = tuple(model.shape)
            if grows:
                shape = (*shape[: self.row_axis], "N", *shape[self.row_axis + 1 :])
            check_shape(f"state.{name}", field, shape)
            check_like(f"state.{name}", field, self.heads[0].name, like)
        if grows and len({field.shape[self.row_axis] for field in state}) > 1:
            sizes = ", ".join(
                f"{name} has {field.shape[self.row_axis]}"
                for name, field in zip(state._fields, state, strict=True)  # type: ignore[attr-defined]
            )
            raise ShapeError(f"state: its fields must agree in rows N, but {sizes}.")


def kernel_of(memory: Memory[Any, Any]) -> kernels.Structure | None:
    """What the kernels know of a memory, or None.

    Exact types: a subclass may compute something else, which no kernel knows of.
    """
    return memory.kernel if "kernel" in vars(type(memory)) else None


def _by_name(fields: Any) -> dict[str, Tensor]:
    named: dict[str, Tensor] = fields._asdict()
    return named


def _negative(kernel: kernels.Structure, fields: Mapping[str, Tensor]) -> str | None:
    for name in kernel.nonnegative:
        if bool((fields[name] < 0).any()):
            return f"the kernels take a {name} of at least 0"
    return None


def check_instruction_type(expected: type[Any], instruction: object) -> None:
    """Raise ShapeError unless `instruction` is the NamedTuple that the memory asks for."""
    if not isinstance(instruction, expected):
        fields = ", ".join(expected._fields)
        raise ShapeError(
            f"instruction: expected memory.Instruction({fields}), got {type(instruction).__name__}."
        )


def choose_backend(backend: str, what: str, reason: str | None) -> bool:
    """Decide between the fused kernel and the reference.

    Args:
        backend: "auto", "reference" or "cpu".
        what: the class that asks, for the message.
        reason: why the kernel cannot serve the call; None if it can.
    Returns:
        whether to take the kernel.
    Raises:
        BackendError: "cpu" was asked for and cannot serve; or the environment asks for kernels that
            are not there.
    """
    if backend == "reference":
        return False
    if reason is None:
        return True
    kernels.check_wanted()
    if backend == "cpu":
        raise BackendError(
            f"{what}: backend 'cpu' cannot serve this call: {reason}. "
            "Use backend='auto' or 'reference'."
        )
    say_once(
        f"{what} runs on the readable reference path, which is slower: {reason}.", BackendWarning
    )
    return False


def check_backend(backend: str) -> None:
    """Raise ChoiceError unless `backend` is one of BACKENDS."""
    if backend not in BACKENDS:
        raise ChoiceError("backend", backend, BACKENDS)


def check_batch_size(batch_size: int) -> None:
    """Raise ShapeError unless `batch_size` is an integer of at least 1."""
    check_positive("batch_size", batch_size)
