"""A memory without a controller, as a layer that replaces attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_lengths, check_place, check_positive, check_size
from unbounded.errors import BackendError, ShapeError
from unbounded.memories import Learned, Memory
from unbounded.memories.core import check_backend
from unbounded.rnn.baselines import PlainLayer, Shape
from unbounded.rnn.blocks import SequencePart
from unbounded.rnn.call import Lengths, as_called, as_lengths
from unbounded.rnn.half import is_half
from unbounded.rnn.heads import Heads
from unbounded.rnn.initial_values import FirstWrite, InitialMemory
from unbounded.rnn.memory_layer import check_memory
from unbounded.rnn.recurrence import RecurrenceState
from unbounded.rnn.room import trimmed, warn_of_drops
from unbounded.rnn.trace import Trace, replayed


class MemoryAttention(PlainLayer[Any]):
    """A memory whose instructions are linear maps of the inputs, as in stack attention.

    instruction_t = heads(W x_t + b);  r_t, state_t = memory.step(state_{t-1}, instruction_t);
    y_t = W_o r_t

    Instructions do not depend on earlier read vectors. So all instructions of a sequence are one
    product, and the memory processes them in one call. The state of the layer is the state of its
    memory.

    Args:
        d_model: size of x_t and y_t.
        memory: the data structure, for example `unbounded.NeuralStack(width=16)`.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" uses the fused kernel of the memory if one applies; "reference" uses the
            loop over its steps; "cpu" and "cuda" use the kernel of that device, or raise an error.
        device, dtype: of the parameters.
    Fields:
        memory, heads, output: the memory, the map to its instructions, and W_o.
        initial_memory: the learned initial values of the memory, or None.
        first_write: what a memory that `writes_first` starts with, or None.
    A call with lengths carries out the instructions of sequences of one length at a time, and waits
    for the device. The heads have the biases that the memory declares; the source has none.
    Source: DuSell & Chiang 2024, arXiv:2310.01749, section 4.
    """

    _calls: list[tuple[Any, Any, Tensor | None]] | None = None

    def __init__(
        self,
        d_model: int,
        memory: Memory[Any, Any],
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_positive("d_model", d_model)
        check_memory(memory)
        check_bool("batch_first", batch_first)
        check_place(device, dtype)
        check_backend(backend)
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.d_model, self.memory = d_model, memory
        self.batch_first, self.backend = batch_first, backend
        self.heads = Heads(d_model, memory.heads, bias=memory.head_bias, **place)
        self.output = nn.Linear(memory.read_vector_size, d_model, bias=False, **place)
        learned = [field for field in memory.state_fields if isinstance(field.initializer, Learned)]
        self.initial_memory = InitialMemory(memory, **place, read_vector=False) if learned else None
        self.first_write = FirstWrite(d_model, **place) if memory.writes_first else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw matrices from Glorot's uniform distribution; set biases that the memory declares."""
        self.heads.reset_parameters()
        nn.init.xavier_uniform_(self.output.weight)
        for part in (self.initial_memory, self.first_write):
            if part is not None:
                part.reset_parameters()

    def weight(self) -> Tensor:
        """The weights of the heads."""
        return as_called(self.heads, self.heads.weight)

    def inputs_seen(self) -> int:
        """d_model."""
        return self.d_model

    def initial_state(self, batch_size: int, lengths: Lengths = None) -> Any:
        """Return the memory before the first step.

        Args:
            batch_size: B.
            lengths: B integers, for a memory that uses the lengths of its sequences
                (`Memory.uses_lengths`); a call without a state takes those of its inputs.
        """
        check_size("batch_size", batch_size)
        given = as_lengths(lengths, self.weight().device)
        check_lengths(given, batch_size, None)
        state = self.unchecked_initial_state(batch_size)
        return state if given is None else self.memory.started(state, given)

    def unchecked_initial_state(self, batch_size: int) -> Any:
        """The memory's initial state, after its first write if there is one."""
        like = self.weight()
        dtype = torch.float32 if is_half(like) else like.dtype
        learned = None if self.initial_memory is None else self.initial_memory()
        state = self.memory.initial_state(batch_size, dtype, like.device, learned)
        if self.first_write is None:
            return state
        no_read_vector = torch.empty(batch_size, 0, dtype=dtype, device=like.device)
        begun = RecurrenceState((), no_read_vector, state)
        return self.first_write.write(self.heads, self.memory, begun).memory

    def started(self, state: Any, lengths: Tensor | None, steps: int) -> Any:
        """The initial state with the lengths of the sequences, for a memory that uses them."""
        if not self.training:
            warn_of_drops(self.memory, steps)
        if not self.memory.uses_lengths:
            return state
        if lengths is None:
            lengths = torch.full(state[0].shape[:1], steps, device=state[0].device)
        return self.memory.started(state, lengths)

    def trace(self, x: Tensor, state: Any = None) -> Trace:
        """The memory at each step, by the reference implementation.

        Args:
            x: sequences of one length, as for a call.
            state: as for a call; None for the initial one.
        Raises:
            ShapeError: `x` is a PackedSequence of several lengths.
        """
        with recorded(self) as calls, torch.no_grad():
            self(x, state)
        ((begun, instructions, ends),) = calls
        if ends is not None and not bool((ends == instructions[0].shape[1]).all()):
            raise ShapeError(
                f"x: a trace needs sequences of one length, got lengths {ends.tolist()}."
            )
        lengths = torch.full(instructions[0].shape[:1], instructions[0].shape[1])
        arrays = replayed(self.memory, begun, instructions)
        return Trace(type(self.memory).__name__, arrays, lengths)

    def parts(self, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """Return no parts, because in `run` the memory checks its state."""
        self.memory.check_state_type(state)
        return []

    def run(self, x: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """Compute all instructions, and carry them out."""
        like = x.new_empty(0)
        self.memory.check_state(state, x.shape[1], like)
        begun = RecurrenceState((), x.new_empty(x.shape[1], 0), state)
        state = trimmed(self.memory, begun, x.shape[0], like).memory
        batch_first = x.transpose(0, 1)
        fields = self.heads(batch_first.flatten(0, 1))
        instructions = self.memory.Instruction(
            *(field.unflatten(0, batch_first.shape[:2]) for field in fields)
        )
        if self._calls is not None:
            self._calls.append((state, instructions, lengths))
        read_vectors, state = self._unroll(instructions, state, lengths)
        output: Tensor = self.output(read_vectors.transpose(0, 1))
        return output, state

    def _unroll(self, instructions: Any, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """Return read vectors [B, T, R], which are 0 beyond `lengths`, and the state after them."""
        steps = instructions[0].shape[1]
        if lengths is not None and torch.compiler.is_exporting():
            raise BackendError(
                "lengths: a MemoryAttention with lengths cannot be exported, because it processes "
                "sequences of one length at a time. Leave out lengths"
            )
        if lengths is None or lengths.is_meta or bool((lengths == steps).all()):
            return self.memory.unroll(instructions, state, self.backend)
        order, read, after = [], [], []
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero().squeeze(1)
            own = self.memory.State(*(field[rows] for field in state))
            read_vectors = instructions[0].new_zeros(len(rows), 0, self.memory.read_vector_size)
            if length:
                given = self.memory.Instruction(*(field[rows, :length] for field in instructions))
                read_vectors, own = self.memory.unroll(given, own, self.backend)
            order.append(rows)
            read.append(F.pad(read_vectors, (0, 0, 0, steps - length)))
            after.append(own)
        back = torch.cat(order).argsort()
        return torch.cat(read)[back], self._joined(after, back)

    def _joined(self, states: Sequence[Any], rows: Tensor) -> Any:
        """Join several states in a batch.

        Shorter states are padded with empty rows of the memory.
        """
        fields = []
        for field, *parts in zip(self.memory.state_fields, *states, strict=True):
            most = max(field.rows_of(part) for part in parts)
            fields.append(torch.cat([field.padded_to(part, most) for part in parts])[rows])
        return self.memory.State(*fields)

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        return (
            f"{self.d_model}, memory={self.memory!r}, batch_first={self.batch_first}, "
            f"backend={self.backend!r}"
        )


@contextmanager
def recorded(layer: MemoryAttention) -> Iterator[list[tuple[Any, Any, Tensor | None]]]:
    """Within the context, keep first state, instructions [B, T, ...] and lengths of each call."""
    calls = layer._calls = []
    try:
        yield calls
    finally:
        layer._calls = None


class MemoryPart(SequencePart):
    """A MemoryAttention as a part of a block.

    Args:
        layer: with `batch_first`.
    """

    def __init__(self, layer: MemoryAttention) -> None:
        super().__init__()
        self.layer = layer

    def reset_parameters(self) -> None:
        """Reinitialize the layer."""
        self.layer.reset_parameters()

    def initial_state(self, batch_size: int, like: Tensor) -> Any:
        """The layer's."""
        return self.layer.unchecked_initial_state(batch_size)

    def parts(self, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """The state parts of the layer, which its memory checks."""
        return self.layer.parts(state)

    def forward(self, x: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """Call the layer."""
        result: tuple[Tensor, Any] = self.layer(x, state, lengths)
        return result
