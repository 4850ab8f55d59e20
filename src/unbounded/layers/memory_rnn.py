"""MemoryRNN: a controller with an external memory, with the habits of torch.nn.LSTM."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unbounded.checks import check_like, check_positive, check_shape, check_size
from unbounded.errors import BackendError, ChoiceError, DTypeError, ShapeError
from unbounded.layers.autocast import autocast_dtype
from unbounded.layers.call import (
    Call,
    Lengths,
    check_inputs,
    check_sequences,
    is_traced,
    new_call,
)
from unbounded.layers.controllers import WeightedController, input_width
from unbounded.layers.deep import Depth, run_deep
from unbounded.layers.first_write import FirstWrite
from unbounded.layers.fused import run_fused, why_not_fused
from unbounded.layers.half import is_half, run_in_float32
from unbounded.layers.heads import Heads
from unbounded.layers.initial_memory import InitialMemory
from unbounded.layers.named_controller import ControllerFactory, make_controller
from unbounded.layers.recurrence import LoopState, Recorder, run_recurrence
from unbounded.layers.state import MemoryRNNState, batched, check_batched, joined, parted, unbatched
from unbounded.layers.trace import Trace
from unbounded.layers.trimming import trimmed
from unbounded.memories import Memory
from unbounded.memories.base import check_backend, choose_backend

Output = Tensor | PackedSequence


class MemoryRNN(nn.Module):
    """A recurrent layer whose controller works on an external memory.

    o_t = h_t, or tanh(W_o h_t + b_o) with `output_size`; the memory's heads are one linear map of
    h_t, and the reading r_t joins the input of the next step, and with `output_reading` o_t: then
    concat(h_t, r_t) stands in the place of h_t.

    Args:
        input_size: I, size of x_t.
        hidden_size: H, units of the controller.
        memory: the data structure, for example `unbounded.NeuralStack(width=256)`.
        controller: "lstm", "gru", "elman", or a callable (input_size, hidden_size, device=, dtype=)
            that makes a Controller, such as functools.partial(ElmanController, recurrent=False).
        output_size: O, size of o_t; None gives the controller's own output (O = H, or H + R with
            `output_reading`).
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" takes the fused kernel where one applies, "reference" the readable loop,
            "cpu" the fused CPU kernel or an error.
        learn_initial_state: whether the controller's first state is learned (drawn like its
            weights) or zero. The paper learns it; how memory and reading begin, the memory says.
        num_layers: layers on top of each other, each with a memory of its own.
        dropout: share of a layer's output that is dropped before the next, in [0, 1).
        bidirectional: whether each layer also runs from the end, with a memory of its own; then
            the output is [.., 2 O], forward first.
        bias: whether a controller given by name has biases.
        output_reading: whether what is read at a step reaches the output of the same step, as in
            the program of Yang & Rush 2017; the last layer's alone.
        device, dtype: of the parameters. In half precision the layer computes in float32, and
            memories and readings are float32.
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
        num_layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        bias: bool = True,
        output_reading: bool = False,
    ) -> None:
        super().__init__()
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        if output_size is not None:
            check_positive("output_size", output_size)
        check_backend(backend)
        _check_memory(memory)
        if dtype is not None and not dtype.is_floating_point:
            raise DTypeError(f"dtype: expected a floating-point dtype, got {dtype}.")
        depth = Depth(num_layers, dropout, bidirectional)
        self.input_size, self.hidden_size, self.memory = input_size, hidden_size, memory
        self.output_size, self.batch_first, self.backend = output_size, batch_first, backend
        self.num_layers, self.dropout, self.bidirectional = num_layers, dropout, bidirectional
        # The output and its readout are of the last layer: those below hand on h.
        self.output_reading = bool(output_reading)
        self._says_reading = self.output_reading and num_layers == 1
        seen = hidden_size + memory.reading_size * self._says_reading
        self.controller = make_controller(
            controller, input_size + memory.reading_size, hidden_size, device=device, dtype=dtype,
            bias=bias,
        )  # fmt: skip
        self.heads = Heads(
            hidden_size, memory.heads, device=device, dtype=dtype, bias=memory.head_bias
        )
        self.readout = (
            None
            if output_size is None or num_layers > 1
            else nn.Linear(seen, output_size, device=device, dtype=dtype)
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
        self.first_write = (
            FirstWrite(hidden_size, device=device, dtype=dtype) if memory.writes_first else None
        )
        #: The other layers and directions, by nn.LSTM's names; none of a layer with one.
        self.others = nn.ModuleDict(
            {
                name: MemoryRNN(
                    input_size if layer == 0 else depth.directions * hidden_size, hidden_size,
                    memory, controller, output_size if layer == num_layers - 1 else None,
                    backend=backend, device=device, dtype=dtype,
                    learn_initial_state=learn_initial_state, bias=bias,
                    output_reading=output_reading and layer == num_layers - 1,
                )
                for name, layer in depth.others()
            }
        )  # fmt: skip

    def reset_parameters(self) -> None:
        """Draw all parameters anew, as tools do that make a module on the meta device first."""
        self.controller.reset_parameters()
        self.heads.reset_parameters()
        if self.readout is not None:
            self.readout.reset_parameters()
        self._reset_readout_and_initial_state()
        if self.initial_memory is not None:
            self.initial_memory.reset_parameters()
        if self.first_write is not None:
            self.first_write.reset_parameters()
        for other in self.all_layers()[1:]:
            other.reset_parameters()

    def _reset_readout_and_initial_state(self) -> None:
        if self.readout is not None:
            nn.init.xavier_uniform_(self.readout.weight)
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.initial_controller or ():
            nn.init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: for code written for nn.LSTM. The kernels take the weights as they are."""

    def all_layers(self) -> list[MemoryRNN]:
        """This layer and the others, in nn.LSTM's order: forward and backward of each layer."""
        return [self, *(other for other in self.others.values() if isinstance(other, MemoryRNN))]

    def initial_state(self, batch_size: int) -> MemoryRNNState:
        """Return the state in which every sequence begins, for `batch_size` sequences."""
        check_size("batch_size", batch_size)
        return joined([layer.initial_loop_state(batch_size) for layer in self.all_layers()])

    def initial_loop_state(self, batch_size: int) -> LoopState:
        """Return the state in which this layer alone begins, [B, ...] each."""
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
        dtype = torch.float32 if is_half(like) else like.dtype
        state = LoopState(
            controller,
            self.memory.initial_reading(batch_size, dtype, like.device, learned),
            self.memory.initial_state(batch_size, dtype, like.device, learned),
        )
        if self.first_write is None:
            return state
        return self.first_write(self.heads, self.memory, state)  # type: ignore[no-any-return]

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
            ShapeError, DTypeError: `sequences` is no bool [B], or the state has no batch.
        """
        if isinstance(state, MemoryRNNState):
            check_batched(state)
        layers = self.all_layers()
        parts = parted(state, len(layers), self.controller.state_size, self.memory.State)
        pairs = zip(layers, parts, strict=True)
        return joined([layer._emptied(part, sequences) for layer, part in pairs])

    def _emptied(self, state: LoopState, sequences: Tensor | None) -> LoopState:
        empty = self.initial_loop_state(state.reading.shape[0])
        if sequences is None:
            return LoopState(state.controller, empty.reading, empty.memory)
        check_shape("sequences", sequences, tuple(state.reading.shape[:1]))
        if sequences.dtype != torch.bool:
            raise DTypeError(f"sequences: expected dtype bool, got {sequences.dtype}.")
        reading = torch.where(sequences.unsqueeze(-1), empty.reading, state.reading)
        memory = self.memory.hold(sequences, empty.memory, state.memory)
        return LoopState(state.controller, reading, memory)

    @overload
    def forward(
        self,
        x: Tensor,
        state: MemoryRNNState | None = None,
        lengths: Lengths = None,
        return_trace: Literal[False] = False,
    ) -> tuple[Tensor, MemoryRNNState]: ...

    @overload
    def forward(
        self,
        x: PackedSequence,
        state: MemoryRNNState | None = None,
        lengths: Lengths = None,
        return_trace: Literal[False] = False,
    ) -> tuple[PackedSequence, MemoryRNNState]: ...

    @overload
    def forward(
        self,
        x: Tensor,
        state: MemoryRNNState | None = None,
        lengths: Lengths = None,
        *,
        return_trace: Literal[True],
    ) -> tuple[Tensor, MemoryRNNState, Trace]: ...

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: MemoryRNNState | None = None,
        lengths: Lengths = None,
        return_trace: bool = False,
    ) -> tuple[Output, MemoryRNNState] | tuple[Output, MemoryRNNState, Trace]:
        """Run over a sequence.

        Args:
            x: [T, B, I]; [B, T, I] with `batch_first`; [T, I] unbatched; or a PackedSequence.
            state: where to begin, as an earlier call returned it; None begins anew.
            lengths: B integers in 0..T, a tensor or a list: beyond its length a sequence's state
                stays as it is, its output is 0 and what x holds there is not looked at, so that
                padded gives what unpadded gives.
            return_trace: also return what the memory did; runs on the reference path.
        Returns:
            output [T, B, O] (or as x is laid out), the state after the last step and, if asked
            for, the Trace. Under autocast the output has autocast's dtype, as that of nn.LSTM has.
        Raises:
            ShapeError, DTypeError, DeviceError: an argument disagrees; the message names it.
            BackendError: the backend asked for cannot serve this call.
        """
        if is_traced():
            raise BackendError(
                "torch.jit.trace: a MemoryRNN cannot be traced, because torch puts no names into "
                "such a graph. Use torch.export.export, whose files hold it."
            )
        if is_half(self.heads.weight):
            results: Any = run_in_float32(self, x, state, lengths, return_trace)
            return results  # type: ignore[no-any-return]
        width = input_width(self.controller, self.input_size, self.memory.reading_size)
        call = new_call(x, lengths, width, self.batch_first)
        if state is not None and call.unbatched:
            state = batched(state)
        output, state, trace = self._run(call, state, return_trace)
        cast = autocast_dtype(call.x.device)
        if cast is not None:
            output = output.to(cast)
        laid_out = call.laid_out(output)
        state = unbatched(state) if call.unbatched else state
        return (laid_out, state) if trace is None else (laid_out, state, trace)

    def _run(
        self, call: Call, state: MemoryRNNState | None, return_trace: bool
    ) -> tuple[Tensor, MemoryRNNState, Trace | None]:
        x, like = call.x, self.heads.weight
        if autocast_dtype(x.device) is not None:
            x = x.to(like.dtype)
        check_inputs(x, like)
        layers = self.all_layers()
        if state is None:
            states = [layer.initial_loop_state(x.shape[1]) for layer in layers]
        else:
            size = self.controller.state_size
            parts = parted(state, len(layers), size, self.memory.State)
            states = [
                trimmed(layer.memory, part, len(x), like)
                for layer, part in zip(layers, parts, strict=True)
            ]
        if len(layers) > 1:
            if return_trace:
                raise ShapeError(
                    "return_trace: expected one layer and direction, got "
                    f"{len(layers)}. Trace each of layer.all_layers()."
                )
            depth = Depth(self.num_layers, self.dropout, self.bidirectional)
            runs = [layer.run_loop for layer in layers]
            output, states = run_deep(depth, runs, x, states, call.lengths, self.training)
            return output, joined(states), None
        recorder = Recorder(self.memory) if return_trace else None
        output, last = self.run_loop(x, states[0], call.lengths, recorder)
        if recorder is None:
            return output, joined([last]), None
        steps, batch_size = x.shape[:2]
        lengths = call.lengths
        if lengths is None:
            lengths = torch.full((batch_size,), steps, dtype=torch.int64)
        return output, joined([last]), Trace(type(self.memory).__name__, recorder.arrays(), lengths)

    def run_loop(
        self,
        x: Tensor,
        state: LoopState,
        lengths: Tensor | None = None,
        recorder: Recorder | None = None,
    ) -> tuple[Tensor, LoopState]:
        """Run this layer alone, in one direction.

        Args:
            x: [T, B, I]. state: of this layer. lengths: int64 [B] or None.
            recorder: receives every step, for a trace.
        Returns:
            output [T, B, O] and the state after the last step.
        """
        self._check_state(state, x.shape[1])
        if self._takes_kernel(x, state, recorder) and isinstance(
            self.controller, WeightedController
        ):
            # The operator looks at lengths itself.
            hidden, readings, last = run_fused(
                self.controller, self.heads, self.memory, x, state, lengths
            )
        else:
            check_sequences(x, lengths)
            hidden, readings, last = run_recurrence(
                self.controller, self.heads, self.memory, x, state, lengths, recorder
            )
        return self.read_out(self.seen(hidden, readings), lengths), last

    def _takes_kernel(self, x: Tensor, state: LoopState, recorder: Recorder | None) -> bool:
        if recorder is not None and self.backend != "cpu":
            return False  # traces are documented to run on the reference: nothing to announce
        reason: str | None = "a trace is recorded step by step"
        if recorder is None:
            reason = why_not_fused(self.controller, self.heads, self.memory, x, state)
        return choose_backend(self.backend, type(self).__name__, reason)

    def seen(self, hidden: Tensor, readings: Tensor) -> Tensor:
        """What o_t is made of: h [T, B, H]; concat(h, r) of a last layer with `output_reading`."""
        return torch.cat([hidden, readings], dim=-1) if self._says_reading else hidden

    def read_out(self, seen: Tensor, lengths: Tensor | None) -> Tensor:
        """Map what o_t is made of, [T, B, H or H + R], to o [T, B, O]; 0 beyond `lengths`."""
        if self.readout is None:
            return seen
        output = torch.tanh(self.readout(seen).to(seen.dtype))
        if lengths is None:
            return output
        steps = torch.arange(seen.shape[0], device=seen.device)
        return output * (steps.unsqueeze(1) < lengths).unsqueeze(-1)

    def _check_state(self, state: LoopState, batch_size: int) -> None:
        like = self.heads.weight
        for name, tensor in zip(("hidden", "cell"), state.controller, strict=False):
            check_shape(f"state.{name}", tensor, (batch_size, self.hidden_size))
            check_like(f"state.{name}", tensor, "the layer's parameters", like)
        check_shape("state.reading", state.reading, (batch_size, self.memory.reading_size))
        check_like("state.reading", state.reading, "the layer's parameters", like)
        self.memory.check_state(state.memory, batch_size, like)

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        depth = "" if self.num_layers == 1 else f"num_layers={self.num_layers}, "
        both = "bidirectional=True, " if self.bidirectional else ""
        both += "output_reading=True, " if self.output_reading else ""
        return (
            f"{self.input_size}, {self.hidden_size}, memory={self.memory!r}, {depth}{both}"
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )


def _check_memory(memory: object) -> None:
    if isinstance(memory, type):
        raise DTypeError(
            f"memory: expected a Memory, for example NeuralStack(width=64), got the class "
            f"{memory.__name__}. Make one of it: {memory.__name__}(...)."
        )
    if not isinstance(memory, Memory):
        raise ChoiceError("memory", memory, ["a Memory, for example NeuralStack(width=64)"])
