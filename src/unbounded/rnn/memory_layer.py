"""MemoryLayer: one layer of a MemoryRNN in one direction."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.checks import check_bool, check_like, check_place, check_positive, check_shape
from unbounded.errors import ChoiceError, DTypeError
from unbounded.memories import Memory
from unbounded.memories.core import choose_backend
from unbounded.replaced import remember_methods
from unbounded.rnn.call import as_called, check_sequences
from unbounded.rnn.controllers import ControllerFactory, WeightedController, make_controller
from unbounded.rnn.fused import run_fused, why_not_fused
from unbounded.rnn.half import is_half
from unbounded.rnn.heads import Heads
from unbounded.rnn.initial_values import FirstWrite, InitialController, InitialMemory
from unbounded.rnn.recurrence import Recorder, RecurrenceState, run_recurrence


class MemoryLayer(nn.Module):
    """The parameters, initial state and loop of one layer in one direction.

    `MemoryRNN` handles the layout of a caller's tensors, the number of layers and the directions.
    In this class, tensors are [T, B, ...], float32 or float64, and have been checked.

    Args:
        as in `MemoryRNN`, for this layer only.
    Fields:
        controller, heads, memory: the three parts of a step.
        readout: maps h_t to o_t; None without one.
        initial_controller: the learned initial state of the controller, or None.
        initial_memory: the learned initial values of the memory, or None.
        first_write: what a memory that `writes_first` starts with, or None.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        memory: Memory[Any, Any],
        controller: str | ControllerFactory,
        output_size: int | None = None,
        *,
        learn_initial_state: bool = False,
        bias: bool = True,
        output_read_vector: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        if output_size is not None:
            check_positive("output_size", output_size)
        check_bool("learn_initial_state", learn_initial_state)
        check_bool("bias", bias)
        check_bool("output_read_vector", output_read_vector)
        check_memory(memory)
        check_place(device, dtype)
        self.input_size, self.hidden_size, self.memory = input_size, hidden_size, memory
        self.output_read_vector = output_read_vector
        seen = hidden_size + memory.read_vector_size * output_read_vector
        self.controller = make_controller(
            controller, input_size + memory.read_vector_size, hidden_size, device=device,
            dtype=dtype,
            bias=bias,
        )  # fmt: skip
        self.heads = Heads(
            hidden_size, memory.heads, device=device, dtype=dtype, bias=memory.head_bias
        )
        self.readout = (
            None
            if output_size is None
            else nn.Linear(seen, output_size, device=device, dtype=dtype)
        )
        self.initial_controller = (
            InitialController(
                nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))
                for _ in range(self.controller.state_size)
            )
            if learn_initial_state
            else None
        )
        self._reset_readout_and_initial_state()
        self.initial_memory = (
            InitialMemory(memory, device=device, dtype=dtype) if memory.learned_fields else None
        )
        self.first_write = (
            FirstWrite(hidden_size, device=device, dtype=dtype) if memory.writes_first else None
        )

    def reset_parameters(self) -> None:
        """Reinitialize the layer's parameters."""
        self.controller.reset_parameters()
        self.heads.reset_parameters()
        if self.readout is not None:
            self.readout.reset_parameters()
        self._reset_readout_and_initial_state()
        if self.initial_memory is not None:
            self.initial_memory.reset_parameters()
        if self.first_write is not None:
            self.first_write.reset_parameters()

    def _reset_readout_and_initial_state(self) -> None:
        if self.readout is not None:
            nn.init.xavier_uniform_(self.readout.weight)
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.initial_controller or ():
            nn.init.uniform_(parameter, -bound, bound)

    @property
    def like(self) -> Tensor:
        """A tensor with the dtype and device of the layer."""
        return as_called(self.heads, self.heads.weight)

    def initial_state(self, batch_size: int, lengths: Tensor | None = None) -> RecurrenceState:
        """Return the initial state of this layer, tensors [B, ...].

        Args:
            batch_size: B.
            lengths: int64 [B], for a memory that uses the lengths of its sequences; None for none.
        """
        like = self.like
        if self.initial_controller is None:
            # Each part is a separate tensor, because torch.compile rejects a tensor that is given
            # twice.
            controller: tuple[Tensor, ...] = tuple(
                like.new_zeros(batch_size, self.hidden_size)
                for _ in range(self.controller.state_size)
            )
        else:
            controller = tuple(
                parameter.expand(batch_size, -1) for parameter in self.initial_controller()
            )
        learned = None if self.initial_memory is None else self.initial_memory()
        dtype = torch.float32 if is_half(like) else like.dtype
        memory = self.memory.initial_state(batch_size, dtype, like.device, learned)
        if lengths is not None and self.memory.uses_lengths:
            memory = self.memory.started(memory, lengths)
        read_vector = self.memory.initial_read_vector(batch_size, dtype, like.device, learned)
        state = RecurrenceState(controller, read_vector, memory)
        if self.first_write is not None:
            state = self.first_write.write(self.heads, self.memory, state)
        return state

    def emptied(self, state: RecurrenceState, sequences: Tensor | None) -> RecurrenceState:
        """Reset memory and read vector of `state`, for all or for `sequences`, bool [B]."""
        empty = self.initial_state(state.read_vector.shape[0])
        if sequences is None:
            return RecurrenceState(state.controller, empty.read_vector, empty.memory)
        check_shape("sequences", sequences, tuple(state.read_vector.shape[:1]))
        if sequences.dtype != torch.bool:
            raise DTypeError(f"sequences: expected dtype bool, got {sequences.dtype}.")
        read_vector = torch.where(sequences.unsqueeze(-1), empty.read_vector, state.read_vector)
        memory = self.memory.hold(sequences, empty.memory, state.memory)
        return RecurrenceState(state.controller, read_vector, memory)

    def forward(
        self,
        x: Tensor,
        state: RecurrenceState,
        lengths: Tensor | None = None,
        backend: str = "auto",
        recorder: Recorder | None = None,
    ) -> tuple[Tensor, RecurrenceState]:
        """Run over a sequence.

        Args:
            x: [T, B, I]. state: of this layer. lengths: int64 [B] or None.
            backend: as in `MemoryRNN`.
            recorder: receives every step, for a trace.
        Returns:
            output [T, B, O] and the state after the last step.
        """
        self._check_state(state, x.shape[1])
        if self._takes_kernel(x, state, backend, recorder) and isinstance(
            self.controller, WeightedController
        ):
            # The operator checks the lengths.
            hidden, read_vectors, last = run_fused(
                self.controller, self.heads, self.memory, x, state, lengths
            )
        else:
            check_sequences(x, lengths)
            hidden, read_vectors, last = run_recurrence(
                self.controller, self.heads, self.memory, x, state, lengths, recorder
            )
        return self.read_out(self.seen(hidden, read_vectors), lengths), last

    def _takes_kernel(
        self, x: Tensor, state: RecurrenceState, backend: str, recorder: Recorder | None
    ) -> bool:
        if recorder is not None:
            return False  # no warning, because the documentation says that traces use the reference
        reason = why_not_fused(self.controller, self.heads, self.memory, x, state)
        return choose_backend(backend, "MemoryRNN", reason, x.device.type)

    def seen(self, hidden: Tensor, read_vectors: Tensor) -> Tensor:
        """The readout's input: h [T, B, H], or concat(h, r) with `output_read_vector`."""
        return torch.cat([hidden, read_vectors], dim=-1) if self.output_read_vector else hidden

    def read_out(self, seen: Tensor, lengths: Tensor | None) -> Tensor:
        """Map the readout's input [T, B, H or H + R] to o [T, B, O], with 0 beyond `lengths`."""
        if self.readout is None:
            return seen
        output = torch.tanh(self.readout(seen).to(seen.dtype))
        if lengths is None:
            return output
        steps = torch.arange(seen.shape[0], device=seen.device)
        return output * (steps.unsqueeze(1) < lengths).unsqueeze(-1)

    def _check_state(self, state: RecurrenceState, batch_size: int) -> None:
        like = self.like
        for name, tensor in zip(("hidden", "cell"), state.controller, strict=False):
            check_shape(f"state.{name}", tensor, (batch_size, self.hidden_size))
            check_like(f"state.{name}", tensor, "the layer", like)
        check_shape(
            "state.read_vector", state.read_vector, (batch_size, self.memory.read_vector_size)
        )
        check_like("state.read_vector", state.read_vector, "the layer", like)
        self.memory.check_state(state.memory, batch_size, like)


remember_methods(MemoryLayer)


def check_memory(memory: object) -> None:
    """Raise unless an argument `memory` is a Memory with sound declarations.

    Raises:
        DTypeError, ChoiceError: it is none. DTypeError, ShapeError: a declaration has errors.
    """
    if isinstance(memory, type):
        raise DTypeError(
            f"memory: expected a Memory, for example NeuralStack(width=64), got the class "
            f"{memory.__name__}. Create one: {memory.__name__}(...)."
        )
    if not isinstance(memory, Memory):
        raise ChoiceError("memory", memory, ["a Memory, for example NeuralStack(width=64)"])
    memory.check_declarations()
