"""What a memory is: heads it declares, a state, and a pure step from one state to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

import torch
from torch import Tensor

from unbounded import kernels
from unbounded.checks import check_kind, check_like, check_place, check_shape, check_tensor
from unbounded.errors import ChoiceError, ShapeError
from unbounded.memories.autocast import without_autocast
from unbounded.memories.backend import (
    check_backend,
    choose_backend,
    kernel_of,
    negative_field,
    why_no_kernel,
)
from unbounded.memories.beginnings import Beginning, Constant, Device, DType, Learned
from unbounded.memories.head import Head, check_instruction_type, check_parts
from unbounded.memories.state_field import StateField, check_fields
from unbounded.replaced import remember_methods

StateT = TypeVar("StateT", bound=tuple[Tensor, ...])
InstructionT = TypeVar("InstructionT", bound=tuple[Tensor, ...])

#: What the first reading is called among the parameters, and what no field may be called.
READING = "reading"


class Memory(ABC, Generic[StateT, InstructionT]):
    """A differentiable data structure without parameters: `step` maps values to values.

    A memory declares its `heads` and its `state_fields`; states and instructions are NamedTuples of
    tensors whose first axis is the batch. Nothing is mutated, so a state can be kept, shared,
    detached and resumed.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

    Instruction: type[InstructionT]
    State: type[StateT]
    #: Whether the heads have biases; a memory has them for all of its heads or for none.
    head_bias: bool = True
    #: Whether a layer calls `first_write` before the first step.
    writes_first: bool = False
    #: The heads that are strengths of a write: where all of them are 0, a step writes nothing.
    #: Empty where a memory always writes.
    write_strengths: tuple[str, ...] = ()

    @property
    def kernel(self) -> kernels.Structure | None:
        """What the kernels know of this memory; None where none does."""
        return None

    @property
    def no_kernel(self) -> str:
        """Why no kernel serves this memory, where none does."""
        return f"no kernel knows the memory {type(self).__name__}"

    @property
    def dropped_beyond(self) -> int | None:
        """How many cells it keeps before it drops one unasked; None where it never does."""
        return None

    @property
    @abstractmethod
    def heads(self) -> tuple[Head, ...]:
        """The heads that fill an Instruction, in the order of its fields."""

    @property
    @abstractmethod
    def reading_size(self) -> int:
        """R, the width of what one step reads."""

    @property
    @abstractmethod
    def state_fields(self) -> tuple[StateField, ...]:
        """The fields of a State, in their order."""

    @property
    def reading_begin(self) -> Beginning:
        """What the controller sees as reading before the first step: zeros."""
        return Constant(0.0)

    @property
    def reading_field(self) -> StateField:
        """The first reading, declared as a field of the state is."""
        return StateField(READING, (self.reading_size,), beginning=self.reading_begin)

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """What `observe` shows, in its order: the fields of the state."""
        return self.state_fields

    @property
    def learned_fields(self) -> tuple[StateField, ...]:
        """Those of the state fields and the first reading that begin with a parameter."""
        fields = (*self.state_fields, self.reading_field)
        return tuple(field for field in fields if isinstance(field.beginning, Learned))

    def initial_state(
        self,
        batch_size: int,
        dtype: DType = None,
        device: Device = None,
        learned: Mapping[str, Tensor] | None = None,
    ) -> StateT:
        """Return the memory before the first step, for `batch_size` sequences.

        Args:
            batch_size: B.
            dtype, device: of the state; None takes torch's default.
            learned: a parameter for each of `learned_fields`, by name; one that is missing is
                drawn by its rule.
        Raises:
            ShapeError: `batch_size`, a parameter, or the names of `state_fields` disagree.
            ChoiceError: no learned field has such a name. ConfigError: a declaration has faults.
            DTypeError: the dtype is not a floating one.
        """
        check_place(device, dtype)
        if learned is not None:
            check_kind("learned", learned, Mapping)
        fields = self.state_fields
        names = tuple(field.name for field in fields)
        if names != getattr(self.State, "_fields", None) or READING in names:
            raise ShapeError(
                f"{type(self).__name__}.state_fields: expected the fields of "
                f"{self.State.__name__} in their order, none of them called {READING!r}, got "
                f"{', '.join(names)}."
            )
        return self.State(*(self._begin(f, batch_size, dtype, device, learned) for f in fields))

    def initial_reading(
        self,
        batch_size: int,
        dtype: DType = None,
        device: Device = None,
        learned: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return r_0, what the controller sees before the first step, [B, R].

        Arguments and errors are those of `initial_state`; the parameter is called "reading".
        """
        return self._begin(self.reading_field, batch_size, dtype, device, learned)

    def _begin(
        self,
        field: StateField,
        batch_size: int,
        dtype: DType,
        device: Device,
        learned: Mapping[str, Tensor] | None,
    ) -> Tensor:
        if learned is None:
            return field.begin(batch_size, dtype, device)
        check_kind("learned", learned, Mapping)
        known = [each.name for each in self.learned_fields]
        for name in learned:
            if name not in known:
                raise ChoiceError("learned field", name, known)
        return field.begin(batch_size, dtype, device, learned.get(field.name))

    @abstractmethod
    def step(self, state: StateT, instruction: InstructionT) -> tuple[Tensor, StateT]:
        """Carry out one instruction: return the reading [B, R] and the next state.

        Shapes and dtypes are checked, ranges are not: a look at the values makes the device wait
        at each step, and the heads' activations keep to the ranges. What is out of range is
        carried out as the equations say. Under autocast layers and `unroll` switch it off around a
        step; a step that you call yourself is computed in what autocast says.
        """

    def first_write(self, state: StateT, instruction: InstructionT) -> tuple[Tensor, StateT]:
        """Write before the first step: return what is read then, [B, R], and the state.

        Layers call it where `writes_first` is True. Here it writes nothing, and reads what
        `initial_reading` says.
        """
        like = instruction[0]
        return self.initial_reading(like.shape[0], like.dtype, like.device), state

    def observe(self, state: StateT) -> Mapping[str, Tensor]:
        """Return what a trace shows of a state, by name; `observed_fields` declares each."""
        return {field.name: held for field, held in zip(self.state_fields, state, strict=True)}

    def unroll(
        self,
        instructions: InstructionT,
        state: StateT | None = None,
        backend: str = "auto",
    ) -> tuple[Tensor, StateT]:
        """Carry out a sequence of instructions.

        Args:
            instructions: the Instruction's fields with a time axis, [B, T, ...].
            state: where to begin; None takes `initial_state` of the instructions' batch, which
                draws what is learned (`learned_fields`) anew at each call.
            backend: "auto" takes a fused kernel where one applies, "reference" the loop over
                `step`, "cpu" and "cuda" the fused kernel of that device or an error.
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
        reason = why_no_kernel(self)
        if kernel is not None and reason is None:
            reason = kernels.why_not("unroll", kernel, *instructions, *state) or negative_field(
                kernel, instructions, state
            )
        kind = first.device.type
        if choose_backend(backend, type(self).__name__, reason, kind) and kernel is not None:
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
        with without_autocast(instructions[0].device):
            for t in range(instructions[0].shape[1]):
                instruction = self.Instruction(*(field[:, t] for field in instructions))
                made = self.step(state, instruction)
                if t == 0:
                    self.check_made(made, instruction[0])
                reading, state = made
                readings.append(reading)
        return torch.stack(readings, dim=1), state

    def hold(self, active: Tensor, new: StateT, old: StateT) -> StateT:
        """Keep the old state of the sequences that are not active.

        Args:
            active: bool [B].
            new: state of the active ones, such as that after a step, or the initial one.
            old: state of the others. The one with fewer rows gets empty ones.
        """
        held = []
        for field, after, before in zip(self.state_fields, new, old, strict=True):
            rows = max(field.rows_of(after), field.rows_of(before))
            where = active.view(-1, *(1,) * (after.dim() - 1))
            after, before = field.padded_to(after, rows), field.padded_to(before, rows)
            held.append(torch.where(where, after, before))
        return self.State(*held)

    def idle(self, active: Tensor, instruction: InstructionT) -> InstructionT:
        """What a step is told that is beyond the length of some sequences.

        Their part of it is computed and left out. A memory that looks at what it loses replaces
        that part by one that loses nothing.

        Args:
            active: whether each sequence has this step, bool [B].
        """
        return instruction

    def trim(self, state: StateT) -> StateT:
        """Take away rows of a state that never come back, exactly; a memory without such has none.

        The state of another number of rows, which acts in every later step as this one does.
        """
        return state

    def check_instructions(self, instructions: InstructionT) -> tuple[int, int]:
        """Check the fields [B, T, ...] of a sequence of instructions; return B and T."""
        check_instruction_type(self.Instruction, instructions)
        first_head, first = self.heads[0], instructions[0]
        check_shape(first_head.name, first, ("B", "T", *first_head.shape))
        batch_size, steps = first.shape[:2]
        if steps == 0:
            raise ShapeError(f"{first_head.name}: expected at least one time step, got T = 0.")
        check_parts(self.heads, instructions, (batch_size, steps))
        return batch_size, steps

    def check_kinds(self, state: StateT, instruction: InstructionT) -> None:
        """Check that a step is given a state and an instruction of this memory, of tensors."""
        check_instruction_type(self.Instruction, instruction)
        self._check_state_type(state)
        for what, fields in (("", instruction), ("state.", state)):
            for name, field in zip(getattr(fields, "_fields", ()), fields, strict=True):
                check_tensor(f"{what}{name}", field)
                if field.dim() == 0:
                    raise ShapeError(f"{what}{name}: expected an axis [B, ...] for the batch.")

    def check_instruction(self, instruction: InstructionT, batch_size: int) -> None:
        """Check the fields [B, ...] of the instruction of one step."""
        check_instruction_type(self.Instruction, instruction)
        check_parts(self.heads, instruction, (batch_size,))

    def check_state(self, state: StateT, batch_size: int, like: Tensor) -> None:
        """Check that a state is this memory's, of this batch size, and like the instruction."""
        self._check_state_type(state)
        check_fields(self.state_fields, state, batch_size, self.heads[0].name, like, self)

    def check_made(self, made: tuple[Tensor, StateT], like: Tensor) -> None:
        """Check what a first step gave of a memory of your own; of the library's tests do.

        Args:
            made: as `step` returns it.
            like: a field of the instruction, [B, ...].
        Raises:
            ShapeError, DTypeError, DeviceError: it is not what the memory declares.
        """
        if type(self).__module__.partition(".")[0] == __name__.partition(".")[0]:
            return
        step = f"{type(self).__name__}.step"
        if not isinstance(made, tuple) or len(made) != 2 or hasattr(made, "_fields"):
            raise ShapeError(
                f"{step}: expected a pair of what is read and the next {self.State.__name__}, got "
                f"{type(made).__name__}."
            )
        reading, state = made
        name = f"{step}: what is read"
        check_shape(name, reading, (like.shape[0], self.reading_size))
        check_like(name, reading, "the instruction", like)
        self.check_state(state, like.shape[0], like)

    def _check_state_type(self, state: object) -> None:
        if not isinstance(state, self.State):
            raise ShapeError(
                f"state: expected a {self.State.__name__} of {type(self).__name__}, got "
                f"{type(state).__name__}. Make one with memory.initial_state(batch_size)."
            )
