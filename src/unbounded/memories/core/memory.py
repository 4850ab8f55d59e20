"""The interface of a memory: declared heads, a state, and a pure function for a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from unbounded.checks import (
    check_kind,
    check_like,
    check_place,
    check_positive,
    check_shape,
    check_size,
    check_tensor,
)
from unbounded.errors import ChoiceError, DTypeError, ShapeError
from unbounded.memories.core.backend import (
    check_backend,
    choose_backend,
    fused_kernels,
    without_autocast,
)
from unbounded.memories.core.head import Head, check_instruction_type, check_parts
from unbounded.memories.core.state_field import (
    ROWS,
    Constant,
    Device,
    DType,
    Initializer,
    Learned,
    StateField,
    check_fields,
)
from unbounded.replaced import remember_methods

StateT = TypeVar("StateT", bound=tuple[Tensor, ...])
InstructionT = TypeVar("InstructionT", bound=tuple[Tensor, ...])

#: Name of the initial read vector among the parameters. No state field may have this name.
READ_VECTOR = "read_vector"


class Memory(ABC, Generic[StateT, InstructionT]):
    """A differentiable data structure without parameters.

    The `step` of a memory is a pure function.

    A memory declares its `heads` and its `state_fields`; states and instructions are NamedTuples of
    tensors whose first axis is the batch. No state is modified, so a state can be kept, shared,
    detached and resumed.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}"

    Instruction: type[InstructionT]
    State: type[StateT]
    #: Whether the heads have biases. Either all heads of a memory have biases, or none.
    head_bias: bool = True
    #: Whether a layer calls `first_write` before the first step.
    writes_first: bool = False
    #: Whether a layer calls `started` with the lengths of new sequences.
    uses_lengths: bool = False
    #: Names of the heads for write strengths. If all of them are 0, a step writes nothing. Empty
    #: for a memory that always writes.
    write_strengths: tuple[str, ...] = ()

    @property
    def dropped_beyond(self) -> int | None:
        """Number of cells beyond which the memory silently drops cells; None if it never does."""
        return None

    @property
    @abstractmethod
    def heads(self) -> tuple[Head, ...]:
        """The heads that compute the fields of an Instruction, in the order of the fields."""

    @property
    @abstractmethod
    def read_vector_size(self) -> int:
        """R, the size of the read vector of one step."""

    @property
    @abstractmethod
    def state_fields(self) -> tuple[StateField, ...]:
        """The declarations of a State's fields, in their order."""

    @property
    def read_vector_initializer(self) -> Initializer:
        """Initializer of the read vector before the first step. By default it is zero."""
        return Constant(0.0)

    @property
    def read_vector_field(self) -> StateField:
        """The declaration of the initial read vector, in the form of a state field's."""
        initializer = self.read_vector_initializer
        return StateField(READ_VECTOR, (self.read_vector_size,), initializer=initializer)

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """The declarations of the tensors that `observe` returns.

        By default: the fields of the state.
        """
        return self.state_fields

    @property
    def learned_fields(self) -> tuple[StateField, ...]:
        """The fields (state and initial read vector) whose initial value is a parameter."""
        fields = (*self.state_fields, self.read_vector_field)
        return tuple(field for field in fields if isinstance(field.initializer, Learned))

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
            learned: a parameter for each of `learned_fields`, by name. A missing one is drawn by
                its rule.
        Raises:
            ShapeError: `batch_size`, a parameter, or a declaration disagrees.
            ChoiceError: no learned field has this name. ConfigError: a declaration has errors.
            DTypeError: the dtype is not a floating one, or a declaration is of another kind.
        """
        check_place(device, dtype)
        if learned is not None:
            check_kind("learned", learned, Mapping)
        self.check_declarations()
        tensors = (
            self._initial_tensor(field, batch_size, dtype, device, learned)
            for field in self.state_fields
        )
        return self.State(*tensors)

    def initial_read_vector(
        self,
        batch_size: int,
        dtype: DType = None,
        device: Device = None,
        learned: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return r_0, the read vector [B, R] that the controller sees at the first step.

        Arguments and errors as in `initial_state`; the parameter is called "read_vector".
        """
        return self._initial_tensor(self.read_vector_field, batch_size, dtype, device, learned)

    def _initial_tensor(
        self,
        field: StateField,
        batch_size: int,
        dtype: DType,
        device: Device,
        learned: Mapping[str, Tensor] | None,
    ) -> Tensor:
        if learned is None:
            return field.initial_tensor(batch_size, dtype, device)
        check_kind("learned", learned, Mapping)
        known = [learned_field.name for learned_field in self.learned_fields]
        for name in learned:
            if name not in known:
                raise ChoiceError("learned field", name, known)
        return field.initial_tensor(batch_size, dtype, device, learned.get(field.name))

    @abstractmethod
    def step(self, state: StateT, instruction: InstructionT) -> tuple[Tensor, StateT]:
        """Carry out one instruction: return the read vector [B, R] and the next state.

        Shapes and dtypes are checked, but not ranges of values. Checking values would synchronize
        the device at each step, and the heads' activations ensure the ranges. Values out of range
        are computed by the same equations. Layers and `unroll` disable autocast around a step, but
        a direct call does not.
        """

    def first_write(self, state: StateT, instruction: InstructionT) -> tuple[Tensor, StateT]:
        """Write before the first step, and return the read vector [B, R] and the state.

        Layers call it if `writes_first` is True. The default writes nothing and returns
        `initial_read_vector`.
        """
        like = instruction[0]
        return self.initial_read_vector(like.shape[0], like.dtype, like.device), state

    def started(self, state: StateT, lengths: Tensor) -> StateT:
        """Return the initial state of sequences whose lengths are known beforehand.

        Layers call it if `uses_lengths` is True. The default returns the state.

        Args:
            state: before the first step. lengths: int64 [B].
        """
        del lengths  # unused by default
        return state

    def observe(self, state: StateT) -> Mapping[str, Tensor]:
        """Return the tensors of a state that a trace shows, by name; see `observed_fields`."""
        return {field.name: tensor for field, tensor in zip(self.state_fields, state, strict=True)}

    def unroll(
        self,
        instructions: InstructionT,
        state: StateT | None = None,
        backend: str = "auto",
    ) -> tuple[Tensor, StateT]:
        """Carry out a sequence of instructions.

        Args:
            instructions: the Instruction's fields with a time axis, [B, T, ...].
            state: the state before the first step. None takes `initial_state`, which draws learned
                fields (`learned_fields`) at each call.
            backend: "auto" takes a fused kernel where one applies, "reference" the loop over
                `step`; "cpu" and "cuda" take the kernel of that device or raise.
        Returns:
            read vectors [B, T, R] and the state after the last step.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            ChoiceError: unknown backend. BackendError: the backend cannot serve this call.
        """
        check_backend(backend)
        batch_size, _ = self.check_instructions(instructions)
        first = instructions[0]
        if state is None:
            state = self.initial_state(batch_size, dtype=first.dtype, device=first.device)
        self.check_state(state, batch_size, first)
        kernels = fused_kernels()
        reason = kernels.why_not_unroll(self, instructions, state)
        if not choose_backend(backend, type(self).__name__, reason, first.device.type):
            return self._unroll_reference(instructions, state)

        def reference(
            instruction: tuple[Tensor, ...], initial: tuple[Tensor, ...]
        ) -> tuple[Tensor, ...]:
            start, fields = self.State(*initial), self.Instruction(*instruction)
            read_vectors, final = self._unroll_reference(fields, start)
            return (read_vectors, *final)

        read_vectors, final = kernels.unroll(self, instructions, state, reference)
        return read_vectors, self.State(*final)

    def _unroll_reference(self, instructions: InstructionT, state: StateT) -> tuple[Tensor, StateT]:
        read_vectors = []
        with without_autocast(instructions[0].device):
            for t in range(instructions[0].shape[1]):
                instruction = self.Instruction(*(field[:, t] for field in instructions))
                result = self.step(state, instruction)
                if t == 0:
                    self.check_step_result(result, instruction[0])
                read_vector, state = result
                read_vectors.append(read_vector)
        return torch.stack(read_vectors, dim=1), state

    def hold(self, active: Tensor, new: StateT, old: StateT) -> StateT:
        """Keep the old state of the sequences that are not active.

        Args:
            active: bool [B].
            new: state of the active sequences.
            old: state of the other sequences. The state with fewer rows is padded with empty rows.
        """
        held = []
        for field, after, before in zip(self.state_fields, new, old, strict=True):
            rows = max(field.rows_of(after), field.rows_of(before))
            where = active.view(-1, *(1,) * (after.dim() - 1))
            after, before = field.padded_to(after, rows), field.padded_to(before, rows)
            held.append(torch.where(where, after, before))
        return self.State(*held)

    def idle(self, active: Tensor, instruction: InstructionT) -> InstructionT:
        """Return the instruction for a step beyond the length of some sequences.

        The result of such a step is discarded. A memory that checks for lost cells overrides this
        method with an instruction that loses no cell.

        Args:
            active: whether each sequence has this step, bool [B].
        """
        return instruction

    def trim(self, state: StateT) -> StateT:
        """Remove rows that no later step can use; the default removes none.

        Returns:
            a state, perhaps with fewer rows, that acts in every later step like this one.
        """
        return state

    @property
    def _is_custom(self) -> bool:
        """Whether the memory is not one of the library's, which are tested."""
        return type(self).__module__.partition(".")[0] != __name__.partition(".")[0]

    def check_declarations(self) -> None:
        """Check what a custom memory declares: its types, heads, state fields and read vector.

        Raises:
            DTypeError: a part is missing or of another kind. ShapeError: a size is not one, or the
                heads or state fields are not the fields of their NamedTuple in their order.
        """
        if not self._is_custom or torch.compiler.is_compiling():
            return
        self._check_declaration("heads", Head, "Instruction")
        self._check_declaration("state_fields", StateField, "State")
        check_positive(
            f"{type(self).__name__}.read_vector_size", self._declared("read_vector_size")
        )

    def _check_declaration(self, name: str, kind: type[Head | StateField], of: str) -> None:
        """Check that a declaration has one part for each field of a NamedTuple.

        Args:
            name: of the declaration. kind: of its parts. of: attribute with the NamedTuple.
        """
        memory = type(self).__name__
        owner: Any = getattr(self, of, None)
        fields = getattr(owner, "_fields", None)
        if fields is None or not isinstance(owner, type):
            raise DTypeError(
                f"{memory}.{of}: expected a NamedTuple of tensors, got {owner!r}. Name it in "
                f"the class: {of} = ..."
            )
        parts = self._declared(name)
        what, expected = f"{memory}.{name}", f"a tuple of {kind.__name__}"
        if isinstance(parts, kind):
            raise DTypeError(f"{what}: expected {expected}, got one alone. Put (...,) around it.")
        if not isinstance(parts, tuple | list) or not all(isinstance(p, kind) for p in parts):
            raise DTypeError(f"{what}: expected {expected}, got {parts!r:.80}.")
        for part in parts:
            if not isinstance(part.shape, tuple):
                raise ShapeError(
                    f"{what}: {part.name}: expected a shape such as (8,), or () for a scalar, got "
                    f"{part.shape!r}."
                )
            for axis in part.shape:
                if axis != ROWS or kind is Head:
                    check_size(f"{what}: {part.name}", axis, 1 if kind is Head else 0)
        if not parts and kind is Head:
            raise ShapeError(f"{what}: expected one Head or more, got none.")
        names = tuple(part.name for part in parts)
        if names != fields or READ_VECTOR in names:
            reserved = f", none of them called {READ_VECTOR!r}" if kind is StateField else ""
            raise ShapeError(
                f"{what}: expected the fields of {owner.__name__} in their order "
                f"({', '.join(fields)}){reserved}, got {', '.join(names)}."
            )

    def _declared(self, name: str) -> Any:
        """The value of a property that a custom memory defines."""
        what = f"{type(self).__name__}.{name}"
        try:
            value = getattr(self, name)
        except (AttributeError, TypeError) as error:
            raise DTypeError(f"{what}: {error}") from error
        if callable(value):
            raise DTypeError(f"{what}: expected a property, got a method. Put @property above it.")
        return value

    def check_instructions(self, instructions: InstructionT) -> tuple[int, int]:
        """Check the fields [B, T, ...] of a sequence of instructions; return B and T."""
        self.check_declarations()
        check_instruction_type(self.Instruction, instructions)
        first_head, first = self.heads[0], instructions[0]
        check_shape(first_head.name, first, ("B", "T", *first_head.shape))
        batch_size, steps = first.shape[:2]
        if steps == 0:
            raise ShapeError(f"{first_head.name}: expected at least one time step, got T = 0.")
        check_parts(self.heads, instructions, (batch_size, steps))
        return batch_size, steps

    def check_kinds(self, state: StateT, instruction: InstructionT) -> None:
        """Check that the arguments of a step are a state and an instruction of this memory."""
        check_instruction_type(self.Instruction, instruction)
        self.check_state_type(state)
        for what, fields in (("", instruction), ("state.", state)):
            for name, field in zip(getattr(fields, "_fields", ()), fields, strict=True):
                check_tensor(f"{what}{name}", field)
                if field.dim() == 0:
                    raise ShapeError(f"{what}{name}: expected an axis [B, ...] for the batch.")

    def check_step(self, state: StateT, instruction: InstructionT) -> None:
        """Check the arguments of a step; the instruction has the batch size of its first field."""
        self.check_kinds(state, instruction)
        batch_size = instruction[0].shape[0]
        self.check_instruction(instruction, batch_size)
        self.check_state(state, batch_size, instruction[0])

    def check_instruction(self, instruction: InstructionT, batch_size: int) -> None:
        """Check the fields [B, ...] of the instruction of one step."""
        check_instruction_type(self.Instruction, instruction)
        check_parts(self.heads, instruction, (batch_size,))

    def check_state(
        self, state: StateT, batch_size: int, like: Tensor, name: str = "state"
    ) -> None:
        """Check the type and batch size of a state, and its dtype and device against `like`.

        Args:
            name: of the state, for the message.
        """
        self.check_state_type(state)
        like_name = self.heads[0].name
        check_fields(self.state_fields, state, batch_size, like_name, like, self, name)

    def check_step_result(self, result: tuple[Tensor, StateT], like: Tensor) -> None:
        """Check the first step's result of a custom memory. The library's own memories are tested.

        Args:
            result: return value of `step`.
            like: a field of the instruction, [B, ...].
        Raises:
            ShapeError, DTypeError, DeviceError: it differs from the memory's declaration.
        """
        if not self._is_custom:
            return
        step, expected = f"{type(self).__name__}.step", self.State.__name__
        if type(result) is not tuple or len(result) != 2:
            count = f" of {len(result)}" if type(result) is tuple else ""
            raise ShapeError(
                f"{step}: expected a pair of the read vector and the next {expected}, got "
                f"{type(result).__name__}{count}."
            )
        read_vector, state = result
        name = f"{step}: the read vector"
        check_shape(name, read_vector, (like.shape[0], self.read_vector_size))
        check_like(name, read_vector, "the instruction", like)
        if not isinstance(state, self.State):
            raise ShapeError(
                f"{step}: expected the next state as {expected}(...), got {type(state).__name__}."
            )
        self.check_state(state, like.shape[0], like, f"{step}: state")

    def check_state_type(self, state: object) -> None:
        """Raise ShapeError unless a state is of this memory's type."""
        if not isinstance(state, self.State):
            raise ShapeError(
                f"state: expected a {self.State.__name__} of {type(self).__name__}, got "
                f"{type(state).__name__}. Make one with memory.initial_state(batch_size)."
            )
