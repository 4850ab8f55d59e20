"""MemoryRNN: a controller with an external memory, with the habits of torch.nn.LSTM."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unbounded.checks import check_bool, check_positive, check_size
from unbounded.errors import ShapeError
from unbounded.layers.call import Call, Lengths, check_inputs, new_call
from unbounded.layers.controllers import input_width
from unbounded.layers.deep import Depth, run_deep
from unbounded.layers.half import is_half, run_in_float32
from unbounded.layers.memory_drops import warn_of_drops
from unbounded.layers.memory_layer import MemoryLayer
from unbounded.layers.named_controller import ControllerFactory
from unbounded.layers.recurrence import Recorder
from unbounded.layers.state import (
    MemoryRNNState,
    batched,
    check_axes,
    check_batched,
    joined,
    parted,
    unbatched,
)
from unbounded.layers.trace import Trace
from unbounded.layers.trimming import trimmed
from unbounded.memories import Memory
from unbounded.memories.core import autocast_dtype

Output = Tensor | PackedSequence


class MemoryRNN(MemoryLayer):
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
            the program of Yang & Rush 2017; in the last layer only.
        device, dtype: of the parameters. In half precision the layer computes in float32; memories
            and read vectors are float32.
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
        output_read_vector: bool = False,
    ) -> None:
        # Only the last layer has a readout; those below pass h on.
        check_positive("num_layers", num_layers)
        is_last = num_layers == 1
        check_bool("batch_first", batch_first)
        check_bool("output_read_vector", output_read_vector)
        super().__init__(
            input_size, hidden_size, memory, controller, output_size if is_last else None,
            backend=backend, learn_initial_state=learn_initial_state, bias=bias,
            output_read_vector=output_read_vector and is_last, device=device, dtype=dtype,
        )  # fmt: skip
        if output_size is not None:
            check_positive("output_size", output_size)
        depth = Depth(num_layers, dropout, bidirectional)
        self.output_size, self.batch_first = output_size, batch_first
        self.num_layers, self.dropout, self.bidirectional = num_layers, dropout, bidirectional
        self.output_read_vector = output_read_vector
        #: The other layers and directions, by nn.LSTM's names; empty for a single one.
        self.others = nn.ModuleDict(
            {
                name: MemoryRNN(
                    input_size if layer == 0 else depth.directions * hidden_size, hidden_size,
                    memory, controller, output_size if layer == num_layers - 1 else None,
                    backend=backend, device=device, dtype=dtype,
                    learn_initial_state=learn_initial_state, bias=bias,
                    output_read_vector=output_read_vector and layer == num_layers - 1,
                )
                for name, layer in depth.others()
            }
        )  # fmt: skip

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, for tools that first create a module on the meta device."""
        super().reset_parameters()
        for other in self.all_layers()[1:]:
            other.reset_parameters()

    def flatten_parameters(self) -> None:
        """Do nothing; for code written for nn.LSTM. The kernels take the weights as they are."""

    def all_layers(self) -> list[MemoryRNN]:
        """This layer and the others, in nn.LSTM's order: forward and backward of each layer."""
        return [self, *(other for other in self.others.values() if isinstance(other, MemoryRNN))]

    def initial_state(self, batch_size: int) -> MemoryRNNState:
        """Return the initial state of `batch_size` sequences."""
        check_size("batch_size", batch_size)
        return joined([layer.initial_loop_state(batch_size) for layer in self.all_layers()])

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
            ShapeError, DTypeError: `sequences` is no bool [B], or the state has no batch.
        """
        if isinstance(state, MemoryRNNState):
            check_batched(state)
        layers = self.all_layers()
        parts = parted(state, len(layers), self.controller.state_size, self.memory.State)
        pairs = zip(layers, parts, strict=True)
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
        if return_trace and self.others:
            raise ShapeError(
                "return_trace: expected one layer and direction, got "
                f"{len(self.all_layers())}. Call layer.traces(x, state, lengths), which gives a "
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
        """The traces of all layers and directions, in the order of `all_layers`.

        Arguments and errors as for a call; hooks on the layer are not run. The first step of a
        backward direction is the last step of a sequence.
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
        if is_half(self.heads.weight):
            half: tuple[Output, MemoryRNNState, tuple[Trace, ...]] = run_in_float32(
                self, self._call, x, state, lengths, with_traces
            )
            return half
        width = input_width(self.controller, self.input_size, self.memory.read_vector_size)
        call = new_call(x, lengths, width, self.batch_first)
        if state is None and not self.training and not with_traces:
            warn_of_drops(self.memory, len(call.x))
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
        x, like = call.x, self.like
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
        recorders = [Recorder(layer.memory) if with_traces else None for layer in layers]
        runs = [
            partial(layer.run_loop, recorder=r) for layer, r in zip(layers, recorders, strict=True)
        ]
        depth = Depth(self.num_layers, self.dropout, self.bidirectional)
        output, states = run_deep(depth, runs, x, states, call.lengths, self.training)
        if not with_traces:
            return output, joined(states), ()
        lengths = call.lengths
        if lengths is None:
            lengths = torch.full((x.shape[1],), x.shape[0], dtype=torch.int64)
        name, recorded = type(self.memory).__name__, filter(None, recorders)
        return output, joined(states), tuple(Trace(name, r.arrays(), lengths) for r in recorded)

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        depth = "" if self.num_layers == 1 else f"num_layers={self.num_layers}, "
        both = "bidirectional=True, " if self.bidirectional else ""
        both += "output_read_vector=True, " if self.output_read_vector else ""
        return (
            f"{self.input_size}, {self.hidden_size}, memory={self.memory!r}, {depth}{both}"
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )
