"""MemoryRNN: a controller with an external memory, and the conventions of torch.nn.LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from unbounded.checks import check_bool, check_lengths, check_positive, check_size
from unbounded.errors import ShapeError
from unbounded.memories import Memory
from unbounded.memories.core import autocast_dtype, check_backend
from unbounded.replaced import remember_methods
from unbounded.rnn.call import Call, Lengths, as_lengths, check_inputs, new_call
from unbounded.rnn.controllers import ControllerFactory, input_width
from unbounded.rnn.half import is_half, run_in_float32
from unbounded.rnn.memory_layer import MemoryLayer
from unbounded.rnn.recurrence import Recorder, RecurrenceState
from unbounded.rnn.room import trimmed, warn_of_drops
from unbounded.rnn.state import (
    MemoryRNNState,
    batched,
    check_axes,
    check_batched,
    joined,
    parted,
    unbatched,
)
from unbounded.rnn.trace import Trace

Output = Tensor | PackedSequence


class MemoryRNN(nn.Module):
    """A recurrent layer whose controller works on an external memory.

    o_t = h_t, or tanh(W_o h_t + b_o) with `output_size`. The memory's heads are one linear map of
    h_t. The read vector r_t joins the input of the next step. With `output_read_vector`,
    concat(h_t, r_t) replaces h_t in o_t.

    Args:
        input_size: I, size of x_t.
        hidden_size: H, units of the controller.
        memory: the data structure, for example `unbounded.NeuralStack(width=256)`.
        controller: "lstm", "gru", "elman", or a callable (input_size, hidden_size, device=, dtype=)
            that makes a Controller, such as functools.partial(ElmanController, recurrent=False).
        output_size: O, size of o_t; None outputs h_t itself (O = H, or H + R with
            `output_read_vector`).
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" takes the fused kernel where one applies, "reference" plain PyTorch; "cpu"
            and "cuda" take the kernel of that device or raise. Traces are recorded in the reference
            implementation.
        learn_initial_state: whether the controller's initial state is learned (drawn like its
            weights) or zero. The paper learns it. The memory declares the initial values of its
            state and of the read vector.
        num_layers: number of stacked layers, each with its own memory.
        dropout: share of a layer's output that is dropped before the next, in [0, 1).
        bidirectional: whether each layer also runs backward, with a separate memory; the output is
            then [.., 2 O], forward first.
        bias: whether a controller given by name has biases.
        output_read_vector: whether a step's read vector reaches the output of the same step, as in
            the program of Yang & Rush 2017. It applies to the last layer only.
        device, dtype: of the parameters. In half precision the layer computes in float32; memories
            and read vectors are float32.
    Fields:
        layers: a MemoryLayer for each layer and direction, in the order of nn.LSTM.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 3.4 and Appendix B.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

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
        output_read_vector: bool = False,
    ) -> None:
        super().__init__()
        check_positive("num_layers", num_layers)
        check_bool("batch_first", batch_first)
        check_bool("output_read_vector", output_read_vector)
        check_positive("hidden_size", hidden_size)
        if output_size is not None:
            check_positive("output_size", output_size)
        check_backend(backend)
        _check_dropout(dropout, num_layers)
        check_bool("bidirectional", bidirectional)
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, output_size
        self.backend, self.batch_first = backend, batch_first
        self.num_layers, self.dropout, self.bidirectional = num_layers, dropout, bidirectional
        self.output_read_vector = output_read_vector

        def layer(place: int) -> MemoryLayer:
            # Only the last layer has a readout. The layers below pass on h.
            is_last = place == num_layers - 1
            return MemoryLayer(
                self.directions * hidden_size if place else input_size, hidden_size, memory,
                controller, output_size if is_last else None,
                learn_initial_state=learn_initial_state, bias=bias,
                output_read_vector=output_read_vector and is_last, device=device, dtype=dtype,
            )  # fmt: skip

        #: The layers are in nn.LSTM's order: forward and, if bidirectional, backward of each layer.
        self.layers = nn.ModuleList(
            layer(place) for place in range(num_layers) for _ in range(self.directions)
        )

    @property
    def memory(self) -> Memory[Any, Any]:
        """The memory that all layers use. Each layer has its own state of the memory."""
        return self.all_layers()[0].memory

    @memory.setter
    def memory(self, memory: Memory[Any, Any]) -> None:
        for layer in self.all_layers():
            layer.memory = memory

    @property
    def directions(self) -> int:
        """The number of directions: 1, or 2 if bidirectional."""
        return 2 if self.bidirectional else 1

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, for tools that first create a module on the meta device."""
        for layer in self.all_layers():
            layer.reset_parameters()

    def flatten_parameters(self) -> None:
        """Do nothing. This method exists for code that was written for nn.LSTM.

        The kernels use the weights as they are.
        """

    def all_layers(self) -> list[MemoryLayer]:
        """`layers` with their type, in nn.LSTM's order (forward and backward of each layer)."""
        return [layer for layer in self.layers if isinstance(layer, MemoryLayer)]

    def only_layer(self) -> MemoryLayer:
        """The layer of a MemoryRNN that has only one.

        Raises:
            ShapeError: it has several layers or directions.
        """
        if len(self.layers) != 1:
            raise ShapeError(f"layer: expected one layer and direction, got {len(self.layers)}.")
        return self.all_layers()[0]

    def initial_state(self, batch_size: int, lengths: Lengths = None) -> MemoryRNNState:
        """Return the initial state of `batch_size` sequences.

        Args:
            batch_size: B.
            lengths: B integers, for a memory that uses the lengths of its sequences
                (`Memory.uses_lengths`); a call without a state takes those of its inputs.
        """
        check_size("batch_size", batch_size)
        given = as_lengths(lengths, self.all_layers()[0].like.device)
        check_lengths(given, batch_size, None)
        return joined([layer.initial_state(batch_size, given) for layer in self.all_layers()])

    def empty_memory(
        self, state: MemoryRNNState, sequences: Tensor | None = None
    ) -> MemoryRNNState:
        """Empty the memory between two calls and keep the controller's state.

        Args:
            state: of a batch, from an earlier call.
            sequences: bool [B], those whose memory is emptied. None empties all and returns the
                memory to its initial size.
        Returns:
            the state with the initial memory and read vector, padded with empty rows.
        Raises:
            ShapeError, DTypeError: `sequences` is not a bool [B], or the state has no batch.
        """
        if isinstance(state, MemoryRNNState):
            check_batched(state)
        pairs = zip(self.all_layers(), self._parted(state), strict=True)
        return joined([layer.emptied(part, sequences) for layer, part in pairs])

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
            state: the state before the first step, from an earlier call; None for the initial one.
            lengths: B integers in 0..T, a tensor or a list. Beyond its length a sequence's state
                stays, its output is 0 and x is ignored, so padded equals unpadded.
            return_trace: also return the memory's Trace; runs the reference implementation. For
                several layers use `traces`.
        Returns:
            output [T, B, O] (in the layout of x), the state after the last step and, if requested,
            the Trace. Under autocast the output has autocast's dtype, as for nn.LSTM.
        Raises:
            ShapeError, DTypeError, DeviceError: an argument disagrees; the message names it.
            BackendError: the chosen backend cannot serve this call.
        Warns:
            RoomWarning: in evaluation mode and without a `state`, T exceeds the capacity of a
                memory that drops rows or cells. A trace shows the loss instead.
        """
        if return_trace and len(self.layers) > 1:
            raise ShapeError(
                "return_trace: expected one layer and direction, got "
                f"{len(self.layers)}. Call layer.traces(x, state, lengths), which gives a "
                "trace of each."
            )
        output, state, traces = self._call(x, state, lengths, return_trace)
        return (output, state, traces[0]) if return_trace else (output, state)

    def traces(
        self,
        x: Tensor | PackedSequence,
        state: MemoryRNNState | None = None,
        lengths: Lengths = None,
    ) -> tuple[Trace, ...]:
        """Return the traces of all layers and directions, in the order of `all_layers`.

        Arguments and errors are as for a call, but hooks on the layer are not run. The first step
        of a backward direction is the last step of a sequence.
        """
        return self._call(x, state, lengths, True)[2]

    def _call(
        self,
        x: Tensor | PackedSequence,
        state: MemoryRNNState | None,
        lengths: Lengths,
        with_traces: bool,
    ) -> tuple[Output, MemoryRNNState, tuple[Trace, ...]]:
        """Compute `forward`, with the traces of all layers or without traces."""
        first = self.all_layers()[0]
        if is_half(first.heads.weight):
            half: tuple[Output, MemoryRNNState, tuple[Trace, ...]] = run_in_float32(
                self, self._call, x, state, lengths, with_traces
            )
            return half
        width = input_width(first.controller, self.input_size, self.memory.read_vector_size)
        call = new_call(x, lengths, width, self.batch_first)
        if state is None and not self.training and not with_traces:
            warn_of_drops(self.memory, call.x.shape[0])
        if state is not None:
            check_axes(state, call.unbatched, call.x.shape[1])
            state = batched(state) if call.unbatched else state
        output, state, traces = self._run(call, state, with_traces)
        cast = autocast_dtype(call.x.device)
        if cast is not None:
            output = output.to(cast)
        state = unbatched(state) if call.unbatched else state
        return call.laid_out(output), state, traces

    def _run(
        self, call: Call, state: MemoryRNNState | None, with_traces: bool
    ) -> tuple[Tensor, MemoryRNNState, tuple[Trace, ...]]:
        x, layers = call.x, self.all_layers()
        like = layers[0].like
        if autocast_dtype(x.device) is not None:
            x = x.to(like.dtype)
        check_inputs(x, like)
        if state is None:
            given = call.lengths
            if self.memory.uses_lengths:
                check_lengths(given, x.shape[1], x.shape[0])
                if given is None:
                    given = torch.full((x.shape[1],), x.shape[0], device=x.device)
            states = [layer.initial_state(x.shape[1], given) for layer in layers]
        else:
            states = [trimmed(self.memory, part, x.shape[0], like) for part in self._parted(state)]
        recorders = [Recorder(self.memory) if with_traces else None for _ in layers]
        output, states = self._run_layers(x, states, call.lengths, recorders)
        if not with_traces:
            return output, joined(states), ()
        lengths = call.lengths
        if lengths is None:
            lengths = torch.full((x.shape[1],), x.shape[0], dtype=torch.int64)
        name, recorded = type(self.memory).__name__, filter(None, recorders)
        return output, joined(states), tuple(Trace(name, r.arrays(), lengths) for r in recorded)

    def _run_layers(
        self,
        x: Tensor,
        states: Sequence[RecurrenceState],
        lengths: Tensor | None,
        recorders: Sequence[Recorder | None],
    ) -> tuple[Tensor, list[RecurrenceState]]:
        """Run each layer on the outputs of the layer below.

        Args:
            x: [T, B, I]. lengths: int64 [B] or None.
            states, recorders: of each layer and direction.
        Returns:
            the last layer's output [T, B, directions O], and the states.
        """
        last: list[RecurrenceState] = []
        outputs: list[Tensor] = []
        for place, layer in enumerate(self.layers):
            is_backward = place % self.directions == 1
            given = _reversed(x, lengths) if is_backward else x
            output, state = layer(given, states[place], lengths, self.backend, recorders[place])
            outputs.append(_reversed(output, lengths) if is_backward else output)
            last.append(state)
            if len(outputs) == self.directions:
                x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
                outputs = []
                if len(last) < len(self.layers):
                    x = F.dropout(x, self.dropout, self.training)
        return x, last

    def _parted(self, state: MemoryRNNState) -> list[RecurrenceState]:
        """The state of each layer and direction."""
        size = self.all_layers()[0].controller.state_size
        return parted(state, len(self.layers), size, self.memory.State)

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        depth = "" if self.num_layers == 1 else f"num_layers={self.num_layers}, "
        both = "bidirectional=True, " if self.bidirectional else ""
        both += "output_read_vector=True, " if self.output_read_vector else ""
        return (
            f"{self.input_size}, {self.hidden_size}, memory={self.memory!r}, {depth}{both}"
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )


remember_methods(MemoryRNN)


def _check_dropout(dropout: float, num_layers: int) -> None:
    is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout < 1:
        raise ShapeError(f"dropout: expected a number in [0, 1), got {dropout!r}.")
    if dropout and num_layers == 1:
        raise ShapeError(
            "dropout: expected 0 with one layer, because it is applied between layers; got "
            f"{dropout}. Put nn.Dropout after the layer."
        )


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse sequences [T, B, ...] within their lengths. The padding stays in place."""
    if lengths is None:
        return x.flip(0)
    t = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    place = torch.where(t < lengths, lengths - 1 - t, t)
    return x.gather(0, place.unsqueeze(-1).expand_as(x))
