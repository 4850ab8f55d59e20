"""MemoryRNN: a controller with an external memory, with the habits of torch.nn.LSTM."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from unbounded.checks import (
    check_bool,
    check_like,
    check_place,
    check_positive,
    check_shape,
    check_size,
    is_batched,
    is_traced,
)
from unbounded.errors import ChoiceError, DTypeError, RoomWarning, ShapeError, say_once
from unbounded.memories import Learned, Memory, SuperpositionMemory
from unbounded.memories.core import autocast_dtype, check_backend, choose_backend, without_autocast
from unbounded.replaced import remember_methods
from unbounded.rnn.call import Call, Lengths, as_called, check_inputs, check_sequences, new_call
from unbounded.rnn.controllers import (
    ControllerFactory,
    WeightedController,
    input_width,
    make_controller,
)
from unbounded.rnn.fused import run_fused, why_not_fused
from unbounded.rnn.half import is_half, run_in_float32
from unbounded.rnn.heads import Heads
from unbounded.rnn.recurrence import LoopState, Recorder, run_recurrence
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

_DROPS_ARE_MEANT: ContextVar[bool] = ContextVar("drops_are_meant", default=False)


@contextmanager
def drops_are_meant() -> Iterator[None]:
    """Suppress `RoomWarning`: a stream of many sequences needs room for the longest one only."""
    token = _DROPS_ARE_MEANT.set(True)
    try:
        yield
    finally:
        _DROPS_ARE_MEANT.reset(token)


def warn_of_drops(memory: Memory[Any, Any], steps: int) -> None:
    """Warn, once for each number of steps, if a memory drops cells of sequences of this length.

    Args:
        memory: the memory with the capacity.
        steps: of the longest sequence, from its first step. For a carried state the number of its
            cells is unknown without synchronizing the device, so it is not checked.
    """
    most = memory.dropped_beyond
    # A graph holds no warning.
    if most is None or torch.compiler.is_compiling() or is_traced():
        return
    if most >= steps or _DROPS_ARE_MEANT.get():
        return
    advice = "Make the memory with a larger capacity."
    if isinstance(memory, SuperpositionMemory):
        advice = "model, _ = unbounded.models.with_room(model, steps) gives a model with room."
    say_once(
        f"inputs: expected at most {most} steps, the capacity of {type(memory).__name__}, "
        f"got {steps}. Cells beyond it are dropped. {advice}",
        RoomWarning,
    )


#: Runs one layer in one direction: (x [T, B, I], state, lengths) -> (output [T, B, O], state).
Run = Callable[[Tensor, LoopState, Tensor | None], tuple[Tensor, LoopState]]


@dataclass(frozen=True)
class Depth:
    """Number of layers and directions.

    Fields:
        num_layers: 1 or more.
        dropout: share of a layer's output that is dropped before the next, in [0, 1).
        bidirectional: whether each layer also runs backward.
    """

    num_layers: int
    dropout: float
    bidirectional: bool

    def __post_init__(self) -> None:
        check_positive("num_layers", self.num_layers)
        is_number = isinstance(self.dropout, int | float) and not isinstance(self.dropout, bool)
        if not is_number or not 0 <= self.dropout < 1:
            raise ShapeError(f"dropout: expected a number in [0, 1), got {self.dropout!r}.")
        if self.dropout and self.num_layers == 1:
            raise ShapeError(
                "dropout: expected 0 with one layer, because it is applied between layers; got "
                f"{self.dropout}. Put nn.Dropout after the layer."
            )
        check_bool("bidirectional", self.bidirectional)

    @property
    def directions(self) -> int:
        """1, or 2 if bidirectional."""
        return 2 if self.bidirectional else 1

    def others(self) -> Iterator[tuple[str, int]]:
        """Name and layer of all but the first layer's forward direction, in order."""
        for layer in range(self.num_layers):
            if layer:
                yield f"l{layer}", layer
            if self.bidirectional:
                yield f"l{layer}_reverse", layer


def run_deep(
    depth: Depth,
    runs: Sequence[Run],
    x: Tensor,
    states: Sequence[LoopState],
    lengths: Tensor | None,
    is_training: bool,
) -> tuple[Tensor, list[LoopState]]:
    """Run all layers and directions.

    Args:
        runs, states: one per layer and direction, in the order of nn.LSTM.
        x: [T, B, I]. lengths: int64 [B] or None.
        is_training: whether outputs between layers are dropped.
    Returns:
        the last layer's output [T, B, directions O], and the states.
    """
    last = []
    for layer in range(depth.num_layers):
        outputs = []
        for direction in range(depth.directions):
            place = layer * depth.directions + direction
            direction_input = _reversed(x, lengths) if direction else x
            output, state = runs[place](direction_input, states[place], lengths)
            outputs.append(_reversed(output, lengths) if direction else output)
            last.append(state)
        x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        if layer < depth.num_layers - 1:
            x = F.dropout(x, depth.dropout, is_training)
    return x, last


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse sequences [T, B, ...] within their lengths; the padding stays in place."""
    if lengths is None:
        return x.flip(0)
    t = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    place = torch.where(t < lengths, lengths - 1 - t, t)
    return x.gather(0, place.unsqueeze(-1).expand_as(x))


#: Number of added rows after which a memory is trimmed.
_TRIM_ROWS = 64


def trimmed(memory: Memory[Any, Any], state: LoopState, steps: int, like: Tensor) -> LoopState:
    """Return the state without rows of the memory that cannot come back.

    A trim happens once in _TRIM_ROWS rows, if calls have that many steps. A state with a gradient,
    where N may matter to the caller, is not trimmed; nor is any while a graph is captured or under
    vmap.

    Args:
        memory: the memory of the state.
        state: of one layer, tensors [B, ...].
        steps: T of the next call.
        like: a tensor with the expected dtype and device of the state.
    Raises:
        ShapeError, DTypeError, DeviceError: the memory's state is invalid.
    """
    parts = state.memory
    if torch.compiler.is_compiling() or any(p.requires_grad or is_batched(p) for p in parts):
        return state
    for field, part in zip(memory.state_fields, state.memory, strict=False):
        rows = field.rows_of(part) if field.grows and part.dim() > 1 else 0
        added = steps * sum(field.growth)
        if rows // _TRIM_ROWS > max(0, rows - added) // _TRIM_ROWS:
            memory.check_state(state.memory, state.read_vector.shape[0], like)
            return state._replace(memory=memory.trim(state.memory))
    return state


class InitialMemory(nn.Module):
    """One parameter for each field that a memory declares as learned, and for its read vector.

    A parameter has the field's name and its shape without the batch; that of the initial read
    vector is "read_vector". (An nn.ParameterDict refuses names such as "keys" and "values".)

    Args:
        memory: declares the `learned_fields`.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        memory: Memory[Any, Any],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        # Keep the memory, not its fields: a rule may be a function that cannot be pickled.
        self._memory, self._mapped = memory, False
        for field in memory.learned_fields:
            empty = torch.empty(field.initial_shape, device=device, dtype=dtype)
            self.register_parameter(field.name, nn.Parameter(empty))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize each parameter by the rule of its field."""
        for field in self._memory.learned_fields:
            if isinstance(field.initializer, Learned):
                with torch.no_grad():
                    field.initializer.rule(self.get_parameter(field.name))
                    if self._mapped:
                        nn.init.zeros_(self.get_parameter(f"{field.name}_bias"))

    def forward(self) -> Mapping[str, Tensor]:
        """Return `by_name()`; as a call, so that hooks which load the parameters run."""
        return self.by_name()

    def by_name(self) -> Mapping[str, Tensor]:
        """Return the parameters for `Memory.initial_state`."""
        # By attribute: while torch.func.functional_call runs, these need not be parameters.
        names = [field.name for field in self._memory.learned_fields]
        if not self._mapped:
            return {name: getattr(self, name) for name in names}
        return {name: getattr(self, name) + getattr(self, f"{name}_bias") for name in names}

    def map_one(self) -> None:
        """Make each number the sum of two parameters, like a linear map of the constant 1.

        The second parameter, NAME_bias, is initially 0.
        Source: the program of Yang & Rush 2017, arXiv:1611.02854.
        """
        self._mapped = True
        for field in self._memory.learned_fields:
            bias = torch.zeros_like(self.get_parameter(field.name))
            self.register_parameter(f"{field.name}_bias", nn.Parameter(bias))

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return ", ".join(
            f"{field.name}{list(field.initial_shape)}" for field in self._memory.learned_fields
        )


class FirstWrite(nn.Module):
    """A hidden state h_0 from which the heads compute the first write.

    h_0 is drawn once from Glorot's distribution, as a buffer that is saved and never learned. The
    written values are learned through the weights of the heads.

    Args:
        hidden_size: H. device, dtype: of the buffer.
    Source: the program of Deleu & Dureau 2016, whose step starts with the previous step's write.
    """

    hidden: Tensor

    def __init__(
        self,
        hidden_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.empty(hidden_size, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw h_0 like a Glorot draw of a matrix [1, H]."""
        bound = math.sqrt(6 / (1 + self.hidden.shape[0]))
        nn.init.uniform_(self.hidden, -bound, bound)

    def forward(self) -> Tensor:
        """Return h_0, [H]; as a call, so that hooks which load it run."""
        return self.hidden

    def write(self, heads: Heads, memory: Memory[Any, Any], state: LoopState) -> LoopState:
        """Return the state after the write, with its read vector.

        Args:
            heads, memory: of the layer. state: before the first step, tensors [B, ...].
        """
        fields = heads(self().to(heads.weight.dtype).unsqueeze(0))
        size, dtype = len(state.read_vector), state.read_vector.dtype
        instruction = memory.Instruction(
            *(part.to(dtype).expand(size, *part.shape[1:]) for part in fields)
        )
        with without_autocast(state.read_vector.device):
            read_vector, written = memory.first_write(state.memory, instruction)
        return LoopState(state.controller, read_vector, written)


class InitialController(nn.ParameterList):
    """The learned initial state of a controller, one parameter [H] for each of its tensors."""

    __call__ = nn.Module.__call__  # that of a ParameterList raises

    def forward(self) -> tuple[Tensor, ...]:
        """Return the parameters; as a call, so that hooks which load them run."""
        return tuple(self)


class MemoryLayer(nn.Module):
    """The parameters, initial state and loop of one layer in one direction.

    `MemoryRNN` handles the layout of a caller's tensors, the number of layers and the directions.
    Here tensors are [T, B, ...], float32 or float64, and checked.

    Args:
        as in `MemoryRNN`, for this layer only.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        memory: Memory[Any, Any],
        controller: str | ControllerFactory,
        output_size: int | None,
        *,
        backend: str,
        learn_initial_state: bool,
        bias: bool,
        output_read_vector: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        if output_size is not None:
            check_positive("output_size", output_size)
        check_backend(backend)
        check_bool("learn_initial_state", learn_initial_state)
        check_bool("bias", bias)
        _check_memory(memory)
        check_place(device, dtype)
        self.input_size, self.hidden_size, self.memory = input_size, hidden_size, memory
        self.backend = backend
        self._outputs_read_vector = output_read_vector
        seen = hidden_size + memory.read_vector_size * self._outputs_read_vector
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
        """A tensor with the layer's dtype and device."""
        return as_called(self.heads, self.heads.weight)

    def initial_loop_state(self, batch_size: int) -> LoopState:
        """Return the initial state of this layer, tensors [B, ...]."""
        like = self.like
        if self.initial_controller is None:
            # Separate tensors: torch.compile takes none twice.
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
        state = LoopState(
            controller,
            self.memory.initial_read_vector(batch_size, dtype, like.device, learned),
            self.memory.initial_state(batch_size, dtype, like.device, learned),
        )
        if self.first_write is not None:
            state = self.first_write.write(self.heads, self.memory, state)
        return state

    def emptied(self, state: LoopState, sequences: Tensor | None) -> LoopState:
        """Reset memory and read vector of `state`, for all or for `sequences`, bool [B]."""
        empty = self.initial_loop_state(state.read_vector.shape[0])
        if sequences is None:
            return LoopState(state.controller, empty.read_vector, empty.memory)
        check_shape("sequences", sequences, tuple(state.read_vector.shape[:1]))
        if sequences.dtype != torch.bool:
            raise DTypeError(f"sequences: expected dtype bool, got {sequences.dtype}.")
        read_vector = torch.where(sequences.unsqueeze(-1), empty.read_vector, state.read_vector)
        memory = self.memory.hold(sequences, empty.memory, state.memory)
        return LoopState(state.controller, read_vector, memory)

    def run_loop(
        self,
        x: Tensor,
        state: LoopState,
        lengths: Tensor | None = None,
        recorder: Recorder | None = None,
    ) -> tuple[Tensor, LoopState]:
        """Run this layer in one direction.

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

    def _takes_kernel(self, x: Tensor, state: LoopState, recorder: Recorder | None) -> bool:
        if recorder is not None:
            return False  # traces are documented to run on the reference; no warning
        reason = why_not_fused(self.controller, self.heads, self.memory, x, state)
        return choose_backend(self.backend, type(self).__name__, reason, x.device.type)

    def seen(self, hidden: Tensor, read_vectors: Tensor) -> Tensor:
        """The readout's input: h [T, B, H], or concat(h, r) with `output_read_vector`."""
        return torch.cat([hidden, read_vectors], dim=-1) if self._outputs_read_vector else hidden

    def read_out(self, seen: Tensor, lengths: Tensor | None) -> Tensor:
        """Map the readout's input [T, B, H or H + R] to o [T, B, O]; 0 beyond `lengths`."""
        if self.readout is None:
            return seen
        output = torch.tanh(self.readout(seen).to(seen.dtype))
        if lengths is None:
            return output
        steps = torch.arange(seen.shape[0], device=seen.device)
        return output * (steps.unsqueeze(1) < lengths).unsqueeze(-1)

    def _check_state(self, state: LoopState, batch_size: int) -> None:
        like = self.like
        for name, tensor in zip(("hidden", "cell"), state.controller, strict=False):
            check_shape(f"state.{name}", tensor, (batch_size, self.hidden_size))
            check_like(f"state.{name}", tensor, "the layer", like)
        check_shape(
            "state.read_vector", state.read_vector, (batch_size, self.memory.read_vector_size)
        )
        check_like("state.read_vector", state.read_vector, "the layer", like)
        self.memory.check_state(state.memory, batch_size, like)


def _check_memory(memory: object) -> None:
    if isinstance(memory, type):
        raise DTypeError(
            f"memory: expected a Memory, for example NeuralStack(width=64), got the class "
            f"{memory.__name__}. Make one of it: {memory.__name__}(...)."
        )
    if not isinstance(memory, Memory):
        raise ChoiceError("memory", memory, ["a Memory, for example NeuralStack(width=64)"])


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
