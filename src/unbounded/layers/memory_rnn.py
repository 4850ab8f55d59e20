"""MemoryRNN: a controller with an external memory, with the habits of torch.nn.LSTM."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from unbounded.checks import (
    FROM_LIST,
    check_lengths,
    check_like,
    check_positive,
    check_shape,
    check_tensor,
)
from unbounded.errors import ChoiceError, DTypeError, ShapeError
from unbounded.layers.call import check_inputs
from unbounded.layers.controllers import (
    CONTROLLERS,
    Controller,
    WeightedController,
    input_width,
)
from unbounded.layers.fused import run_fused, why_not_fused
from unbounded.layers.heads import Heads
from unbounded.layers.initial_memory import InitialMemory
from unbounded.layers.recurrence import MemoryRNNState, Recorder, run_recurrence
from unbounded.layers.trace import Trace
from unbounded.memories import Memory
from unbounded.memories.base import check_backend, choose_backend
from unbounded.memories.state import map_state

ControllerFactory = Callable[..., Controller]


class MemoryRNN(nn.Module):
    """A recurrent layer whose controller works on an external memory.

    o_t = h_t, or tanh(W_o h_t + b_o) with `output_size`; the memory's heads are one linear map of
    h_t, and the reading r_t joins the input of the next step.

    Args:
        input_size: I, size of x_t.
        hidden_size: H, units of the controller.
        memory: the data structure, for example `unbounded.NeuralStack(width=256)`.
        controller: "lstm", "gru", "elman", or a callable (input_size, hidden_size, device=, dtype=)
            that makes a Controller, such as functools.partial(ElmanController, recurrent=False).
        output_size: O, size of o_t; None gives the controller's own output (O = H).
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" takes the fused kernel where one applies, "reference" the readable loop,
            "cpu" the fused CPU kernel or an error.
        learn_initial_state: whether the controller's first state is learned (drawn like its
            weights) or zero. The paper learns it; how memory and reading begin, the memory says.
        device, dtype: of the parameters.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 3.4 and Appendix B.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        memory: Memory[Any, Any],
        controller: str | ControllerFactory = "lstm",
        output_size: int | None = None,
        batch_first: bool = False,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        learn_initial_state: bool = False,
    ) -> None:
        super().__init__()
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        if output_size is not None:
            check_positive("output_size", output_size)
        check_backend(backend)
        if isinstance(memory, type):
            raise DTypeError(
                f"memory: expected a Memory, for example NeuralStack(width=64), got the class "
                f"{memory.__name__}. Make one of it: {memory.__name__}(...)."
            )
        if not isinstance(memory, Memory):
            raise ChoiceError("memory", memory, ["a Memory, for example NeuralStack(width=64)"])
        self.input_size, self.hidden_size, self.memory = input_size, hidden_size, memory
        self.output_size, self.batch_first, self.backend = output_size, batch_first, backend
        self.controller = make_controller(
            controller, input_size + memory.reading_size, hidden_size, device=device, dtype=dtype
        )
        self.heads = Heads(
            hidden_size, memory.heads, device=device, dtype=dtype, bias=memory.head_bias
        )
        self.readout = (
            None
            if output_size is None
            else nn.Linear(hidden_size, output_size, device=device, dtype=dtype)
        )
        self.initial_controller = (
            nn.ParameterList(
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

    def _reset_readout_and_initial_state(self) -> None:
        if self.readout is not None:
            nn.init.xavier_uniform_(self.readout.weight)
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.initial_controller or ():
            nn.init.uniform_(parameter, -bound, bound)

    def initial_state(self, batch_size: int) -> MemoryRNNState:
        """Return the state in which every sequence begins, for `batch_size` sequences."""
        check_positive("batch_size", batch_size)
        like = self.heads.weight
        if self.initial_controller is None:
            # Tensors of their own: torch.compile takes none twice.
            controller: tuple[Tensor, ...] = tuple(
                like.new_zeros(batch_size, self.hidden_size)
                for _ in range(self.controller.state_size)
            )
        else:
            controller = tuple(
                parameter.expand(batch_size, -1) for parameter in self.initial_controller
            )
        learned = None if self.initial_memory is None else self.initial_memory.by_name()
        return MemoryRNNState(
            controller,
            self.memory.initial_reading(batch_size, like.dtype, like.device, learned),
            self.memory.initial_state(batch_size, like.dtype, like.device, learned),
        )

    def empty_memory(
        self, state: MemoryRNNState, sequences: Tensor | None = None
    ) -> MemoryRNNState:
        """Empty the memory between two calls and leave the controller's state as it is.

        Args:
            state: of a batch, as an earlier call returned it.
            sequences: bool [B], those whose memory is emptied; None empties all, and the memory
                starts at its first size again.
        Returns:
            the state with memory and reading as before the first step, and empty rows behind.
        Raises:
            ShapeError, DTypeError: `sequences` is no bool [B].
        """
        empty = self.initial_state(state.reading.shape[0])
        if sequences is None:
            return MemoryRNNState(state.controller, empty.reading, empty.memory)
        check_shape("sequences", sequences, tuple(state.reading.shape[:1]))
        if sequences.dtype != torch.bool:
            raise DTypeError(f"sequences: expected dtype bool, got {sequences.dtype}.")
        reading = torch.where(sequences.unsqueeze(-1), empty.reading, state.reading)
        memory = self.memory.hold(sequences, empty.memory, state.memory)
        return MemoryRNNState(state.controller, reading, memory)

    @overload
    def forward(
        self,
        x: Tensor,
        state: MemoryRNNState | None = None,
        lengths: Tensor | None = None,
        return_trace: Literal[False] = False,
    ) -> tuple[Tensor, MemoryRNNState]: ...

    @overload
    def forward(
        self,
        x: Tensor,
        state: MemoryRNNState | None = None,
        lengths: Tensor | None = None,
        *,
        return_trace: Literal[True],
    ) -> tuple[Tensor, MemoryRNNState, Trace]: ...

    def forward(
        self,
        x: Tensor,
        state: MemoryRNNState | None = None,
        lengths: Tensor | None = None,
        return_trace: bool = False,
    ) -> tuple[Tensor, MemoryRNNState] | tuple[Tensor, MemoryRNNState, Trace]:
        """Run over a sequence.

        Args:
            x: [T, B, I]; [B, T, I] with `batch_first`; [T, I] unbatched.
            state: where to begin, as an earlier call returned it; None begins anew.
            lengths: int64 [B] in 0..T: beyond its length a sequence's state stays as it is and
                its output is 0, so that padded gives what unpadded gives.
            return_trace: also return what the memory did; runs on the reference path.
        Returns:
            output [T, B, O] (or as x is laid out), the state after the last step and, if asked
            for, the Trace.
        Raises:
            ShapeError, DTypeError, DeviceError: an argument disagrees; the message names it.
            BackendError: the backend asked for cannot serve this call.
        """
        check_tensor("x", x)
        unbatched = x.dim() == 2
        steps_first = self._steps_first(x, unbatched)
        if torch.is_autocast_enabled(x.device.type):
            steps_first = steps_first.to(self.heads.weight.dtype)
        steps, batch_size = steps_first.shape[:2]
        check_inputs(steps_first, self.heads.weight)
        if lengths is not None:
            check_tensor("lengths", lengths, FROM_LIST)
        if state is None:
            state = self.initial_state(batch_size)
        else:
            state = map_state(lambda t: t.unsqueeze(0), state) if unbatched else state
            self._check_state(state, batch_size)
        recorder = Recorder(self.memory) if return_trace else None
        hidden, state = self._run(steps_first, state, lengths, recorder)
        output = self.read_out(hidden, lengths)
        if unbatched:
            output, state = output.squeeze(1), map_state(lambda t: t.squeeze(0), state)
        elif self.batch_first:
            output = output.transpose(0, 1)
        if recorder is None:
            return output, state
        if lengths is None:
            lengths = torch.full((batch_size,), steps, dtype=torch.int64)
        trace = Trace(type(self.memory).__name__, recorder.arrays(), lengths)
        return output, state, trace

    def _run(
        self,
        x: Tensor,
        state: MemoryRNNState,
        lengths: Tensor | None,
        recorder: Recorder | None,
    ) -> tuple[Tensor, MemoryRNNState]:
        if self._takes_kernel(x, state, recorder) and isinstance(
            self.controller, WeightedController
        ):
            # The operator looks at lengths itself.
            return run_fused(self.controller, self.heads, self.memory, x, state, lengths)
        check_lengths(lengths, x.shape[1], x.shape[0])
        return run_recurrence(self.controller, self.heads, self.memory, x, state, lengths, recorder)

    def _takes_kernel(self, x: Tensor, state: MemoryRNNState, recorder: Recorder | None) -> bool:
        if recorder is not None and self.backend != "cpu":
            return False  # traces are documented to run on the reference: nothing to announce
        reason: str | None = "a trace is recorded step by step"
        if recorder is None:
            reason = why_not_fused(self.controller, self.heads, self.memory, x, state)
        return choose_backend(self.backend, type(self).__name__, reason)

    def read_out(self, hidden: Tensor, lengths: Tensor | None) -> Tensor:
        """Map h [T, B, H] to o [T, B, O]; 0 beyond `lengths`."""
        if self.readout is None:
            return hidden
        output = torch.tanh(self.readout(hidden).to(hidden.dtype))
        if lengths is None:
            return output
        steps = torch.arange(hidden.shape[0], device=hidden.device)
        return output * (steps.unsqueeze(1) < lengths).unsqueeze(-1)

    def _steps_first(self, x: Tensor, unbatched: bool) -> Tensor:
        width = input_width(self.controller, self.input_size, self.memory.reading_size)
        if unbatched:
            check_shape("x", x, ("T", width))
            return x.unsqueeze(1)
        axes = ("B", "T") if self.batch_first else ("T", "B")
        check_shape("x", x, (*axes, width))
        return x.transpose(0, 1) if self.batch_first else x

    def _check_state(self, state: MemoryRNNState, batch_size: int) -> None:
        if not isinstance(state, MemoryRNNState):
            raise ShapeError(
                f"state: expected a MemoryRNNState as an earlier call returned it, got "
                f"{type(state).__name__}."
            )
        if len(state.controller) != self.controller.state_size:
            raise ShapeError(
                f"state.controller: expected {self.controller.state_size} tensor(s), got "
                f"{len(state.controller)}."
            )
        like = self.heads.weight
        for k, tensor in enumerate(state.controller):
            check_shape(f"state.controller[{k}]", tensor, (batch_size, self.hidden_size))
            check_like(f"state.controller[{k}]", tensor, "the layer's parameters", like)
        check_shape("state.reading", state.reading, (batch_size, self.memory.reading_size))
        check_like("state.reading", state.reading, "the layer's parameters", like)
        self.memory.check_state(state.memory, batch_size, like)

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        return (
            f"{self.input_size}, {self.hidden_size}, memory={self.memory!r}, "
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )


def make_controller(
    controller: str | ControllerFactory,
    input_size: int,
    hidden_size: int,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> Controller:
    """Make a controller by its name or with a callable of the user's."""
    if not isinstance(controller, str):
        return controller(input_size, hidden_size, device=device, dtype=dtype)
    if controller not in CONTROLLERS:
        raise ChoiceError("controller", controller, CONTROLLERS)
    return CONTROLLERS[controller](input_size, hidden_size, device=device, dtype=dtype)
