"""Layers without memory, with MemoryRNN's interface, to which memories are compared.

`DeepLSTM` stacks torch's own LSTM layers, `ControllerRNN` is only a controller, and `SRCN` has
slowly changing context units. `PlainLayer` is their base class.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Generic, NamedTuple, TypeGuard, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unbounded.checks import (
    check_bool,
    check_choice,
    check_like,
    check_number,
    check_place,
    check_positive,
    check_shape,
    check_size,
)
from unbounded.errors import ConfigError, ShapeError
from unbounded.kernels import ControllerWeights
from unbounded.memories.core import (
    autocast_dtype,
    check_backend,
    choose_backend,
    map_state,
    move_state,
    portable,
    without_autocast,
)
from unbounded.replaced import remember_methods
from unbounded.rnn.call import Lengths, as_called, check_inputs, check_sequences, new_call
from unbounded.rnn.controllers import (
    CONTROLLERS,
    Controller,
    ControllerFactory,
    ControllerState,
    ElmanController,
    WeightedController,
    initialize_cell,
    input_width,
    lstm_cell,
    make_controller,
)
from unbounded.rnn.fused import is_called, run_alone, run_steps, why_called, why_not_alone
from unbounded.rnn.half import is_half, run_in_float32

StateT = TypeVar("StateT", bound=tuple[Any, ...])
#: Axes of a tensor. A number must match, and a name represents a free axis.
Shape = tuple[int | str, ...]


class PlainLayer(nn.Module, ABC, Generic[StateT]):
    """A recurrent layer with the interface of MemoryRNN and no memory.

    The state of a layer is a tuple of tensors [B, H], or of such tuples; each tensor has its own H.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

    batch_first: bool
    backend: str = "auto"

    def takes_kernels(self, reason: str | None) -> bool:
        """Whether a call uses the fused kernels, given whether they can compute it.

        Args:
            reason: why the kernels cannot serve it; None if they can.
        Raises:
            BackendError: the layer requires the kernels.
        """
        if self.backend not in ("auto", "reference"):
            kind = self.weight().device.type
            return choose_backend(self.backend, type(self).__name__, reason, kind)
        return self.backend == "auto" and reason is None

    @abstractmethod
    def weight(self) -> Tensor:
        """One of the weights. x and states must have the dtype and device of this weight."""

    @abstractmethod
    def inputs_seen(self) -> int:
        """The size of x_t that the weights require."""

    @abstractmethod
    def unchecked_initial_state(self, batch_size: int) -> StateT:
        """The initial state of every sequence."""

    def started(self, state: StateT, lengths: Tensor | None, steps: int) -> StateT:
        """The initial state of sequences whose lengths are known. By default it is the usual one.

        Args:
            state: before the first step. lengths: int64 [B]; None for `steps`. steps: T.
        """
        del lengths, steps  # unused by default
        return state

    @abstractmethod
    def parts(self, state: StateT) -> list[tuple[str, Tensor, Shape]]:
        """For each part of a state from the caller: name, tensor, and axes after the batch.

        A part without further axes is a number for each sequence, int64.

        Raises:
            ShapeError: the number of parts is not this layer's.
        """

    @abstractmethod
    def run(self, x: Tensor, state: StateT, lengths: Tensor | None) -> tuple[Tensor, StateT]:
        """Run over checked inputs [T, B, I] and a checked state."""

    def initial_state(self, batch_size: int) -> StateT:
        """Return the initial state of every sequence, tensors [B, H].

        Raises:
            ShapeError: `batch_size` is not an integer of at least 0.
        """
        check_size("batch_size", batch_size)
        return self.unchecked_initial_state(batch_size)

    @overload
    def forward(
        self, x: Tensor, state: StateT | None = None, lengths: Lengths = None
    ) -> tuple[Tensor, StateT]: ...

    @overload
    def forward(
        self, x: PackedSequence, state: StateT | None = None, lengths: Lengths = None
    ) -> tuple[PackedSequence, StateT]: ...

    def forward(
        self, x: Tensor | PackedSequence, state: StateT | None = None, lengths: Lengths = None
    ) -> tuple[Tensor | PackedSequence, StateT]:
        """Run over a sequence.

        Args:
            x: [T, B, I]; [B, T, I] with `batch_first`; [T, I] unbatched; or a PackedSequence.
            state: the state before the first step, from an earlier call; None for the initial one.
            lengths: B integers in 0..T, a tensor or a list. Beyond its length a sequence's state
                stays and its output is 0.
        Returns:
            output [T, B, O] (in the layout of x), and the state after the last step.
        Raises:
            ShapeError, DTypeError, DeviceError: an argument disagrees; the message names it.
            BackendError: the chosen backend cannot serve this call.
        """
        like = self.weight()
        state = _with_tuples(state)
        if is_half(like):
            half: tuple[Tensor | PackedSequence, StateT] = run_in_float32(
                self, self.forward, x, state, lengths
            )
            return half
        call = new_call(x, lengths, self.inputs_seen(), self.batch_first)
        inputs, cast = call.x, autocast_dtype(call.x.device)
        if cast is not None:
            inputs = inputs.to(like.dtype)
        check_inputs(inputs, like)
        check_sequences(inputs, call.lengths)
        batch_size = inputs.shape[1]
        if state is None:
            state = self.unchecked_initial_state(batch_size)
            state = self.started(state, call.lengths, inputs.shape[0])
        else:
            batch = () if call.unbatched else (batch_size,)
            counts = torch.empty(0, dtype=torch.int64, device=like.device)
            for name, tensor, shape in self.parts(state):
                check_shape(f"state{name}", tensor, (*batch, *shape))
                check_like(f"state{name}", tensor, "the layer", like if shape else counts)
            if call.unbatched:
                state = map_state(lambda tensor: tensor.unsqueeze(0), state)
        output, last = self.run(inputs, state, call.lengths)
        if cast is not None:
            output = output.to(cast)
            last = move_state(last, dtype=like.dtype)
        if call.unbatched:
            last = map_state(lambda tensor: tensor.squeeze(0), last)
        return call.laid_out(output), last


def _with_tuples(state: Any) -> Any:
    """Convert a state of lists, for example from a file, to tuples."""
    if not isinstance(state, list | tuple) or hasattr(state, "_fields"):
        return state
    return tuple(_with_tuples(part) for part in state)


def first_weight(module: nn.Module) -> Tensor:
    """The first parameter of a module, or of a replica, whose parameters are plain tensors."""
    for part in module.modules():
        for weights in (part._parameters, getattr(part, "_former_parameters", {})):
            for weight in weights.values():
                if weight is not None:
                    return as_called(part, weight)
    raise ShapeError(f"{type(module).__name__}: expected a parameter, got none.")


def is_transformed() -> bool:
    """Whether torch.func or forward mode is active, for which torch's loops have no rules."""
    is_forward = forward_ad._current_level >= 0
    return is_forward or torch._C._functorch.peek_interpreter_stack() is not None


# cuDNN warns if substituted weights replace the weights of a layer, as in `run_symbols`. The
# warning recommends flatten_parameters, which would not help.
warnings.filterwarnings(
    "ignore", "RNN module weights are not part of single contiguous", module=re.escape(__name__)
)

_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


class LSTMLayer(nn.LSTM):
    """One layer of a DeepLSTM: a torch.nn.LSTM whose weights are drawn as in LSTMController.

    Args:
        input_size: I. hidden_size: H.
        device, dtype: of the parameters.
    """

    _is_constructed = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(input_size, hidden_size, device=device, dtype=dtype)
        self._is_constructed = True

    def fix_second_bias(self) -> None:
        """Replace the second bias by a buffer of zeros, which is not trained."""
        name = _WEIGHTS[-1]
        zero = torch.zeros_like(self.get_parameter(name).detach())
        delattr(self, name)
        self.register_buffer(name, zero)
        setattr(self, name, zero)  # this also replaces it in torch's list of weights

    def reset_parameters(self) -> None:
        """Reinitialize the weights.

        The forget gate's bias is 1, and its second bias, if any, is 0.
        """
        if not self._is_constructed:  # torch's constructor calls this method
            super().reset_parameters()
            return
        initialize_cell(self, self.hidden_size)
        forget = slice(self.hidden_size, 2 * self.hidden_size)
        is_fixed = _WEIGHTS[-1] in self._buffers
        *_, first, second = (weight.detach() for weight in lstm_weights(self))
        first[forget] = 1.0
        second[slice(None) if is_fixed else forget] = 0.0


remember_methods(LSTMLayer)


def lstm_weights(layer: nn.Module) -> list[Tensor]:
    """The weights of a torch.nn.LSTM of one layer, in the order of ControllerWeights."""
    return [getattr(layer, name) for name in _WEIGHTS]


def run_torch(
    weights: ControllerWeights,
    inputs: Tensor,
    state: tuple[Tensor, Tensor],
    lengths: Tensor | None,
    training: bool,
) -> tuple[Tensor, ControllerState]:
    """Run one layer by torch's function, which supports any input size of the weights."""
    flat = [weight for weight in weights if weight is not None]
    # cuDNN has no backward pass in evaluation mode. Nothing else in this code depends on the mode.
    training = training or torch.is_grad_enabled()
    options = (True, 1, 0.0, training, False)  # biases, layers, dropout, training, bidirectional
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    if lengths is None:
        output, h, c = torch.lstm(inputs, (h, c), flat, *options, False)
        return output, (h.squeeze(0), c.squeeze(0))
    packed = pack_inputs(inputs, lengths)
    order, back = packed.sorted_indices, packed.unsorted_indices
    start = (h[:, order], c[:, order])
    data, h_end, c_end = torch.lstm(packed.data, packed.batch_sizes, start, flat, *options)
    ends = (h_end[:, back], c_end[:, back])
    return pad_outputs(packed._replace(data=data), ends, inputs, state, lengths)


def _with_backward(layer: nn.Module, inputs: Tensor) -> AbstractContextManager[None]:
    """Use torch's loop instead of cuDNN for gradients of a layer in evaluation mode."""
    if layer.training or not (inputs.is_cuda and torch.is_grad_enabled()):
        return nullcontext()
    context: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=False)
    return context


def run_module(
    layer: Any, inputs: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """Call one layer, so that its hooks run, for example from torch.nn.utils.prune."""
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    # In `run_symbols`, substituted weights of another width replace the layer's own.
    input_size, layer.input_size = layer.input_size, inputs.shape[-1]
    try:
        with _with_backward(layer, inputs):
            if lengths is None:
                output, (h, c) = layer(inputs, (h, c))
                return output, (h.squeeze(0), c.squeeze(0))
            packed, ends = layer(pack_inputs(inputs, lengths), (h, c))
    finally:
        layer.input_size = input_size
    return pad_outputs(packed, ends, inputs, state, lengths)


def pack_inputs(inputs: Tensor, lengths: Tensor) -> PackedSequence:
    """Pack inputs.

    Torch cannot pack a sequence of 0 steps, so such a sequence is given one step.
    """
    return pack_padded_sequence(inputs, lengths.cpu().clamp(min=1), enforce_sorted=False)


def pad_outputs(
    packed: PackedSequence,
    ends: ControllerState,
    inputs: Tensor,
    state: ControllerState,
    lengths: Tensor,
) -> tuple[Tensor, ControllerState]:
    """Outputs [T, B, H] and last state. The added step of a sequence of 0 steps is undone.

    Args:
        packed: outputs. ends: the last state, [1, B, H] each.
        inputs, lengths: as in `pack_inputs`. state: the initial state, [B, H] each.
    """
    output, _ = pad_packed_sequence(packed, total_length=inputs.shape[0])
    active = (lengths > 0).to(output.device).unsqueeze(-1)
    last = (torch.where(active, end[0], start) for end, start in zip(ends, state, strict=True))
    return torch.where(active, output, 0), tuple(last)


def _draw_initial_state(initial: nn.Parameter | None, hidden_size: int) -> None:
    """Draw a learned initial state from U(-1/sqrt(H), 1/sqrt(H))."""
    if initial is not None:
        bound = 1 / math.sqrt(hidden_size)
        nn.init.uniform_(initial, -bound, bound)


class ControllerRNN(PlainLayer[ControllerState]):
    """A recurrent layer with the interface of MemoryRNN and no memory.

    h_t = sigma(U x_t + R h_{t-1}) with functools.partial(ElmanController, activation="sigmoid",
    bias=False), which is the RNN of Joulin & Mikolov 2015.

    Args:
        input_size: I, size of x_t.
        hidden_size: H, units of the controller, and size of the output.
        controller: "lstm", "gru", "elman", or a callable (input_size, hidden_size, device=, dtype=)
            that makes a Controller.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        learn_initial_state: whether the initial state is learned (drawn as in MemoryRNN) or zero.
        backend: "auto" takes the fused kernels where they are faster than torch's loop, "reference"
            never; "cpu" takes them or raises; "cuda" always raises.
        device, dtype: of the parameters.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, eq. 1.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        controller: str | ControllerFactory = "elman",
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        learn_initial_state: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_bool("batch_first", batch_first)
        check_bool("learn_initial_state", learn_initial_state)
        check_backend(backend)
        check_place(device, dtype)
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.batch_first, self.backend = batch_first, backend
        self.controller = make_controller(
            controller, input_size, hidden_size, device=device, dtype=dtype
        )
        shape = (self.controller.state_size, hidden_size)
        self.initial = (
            nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        _draw_initial_state(self.initial, self.hidden_size)

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, for tools that first create a module on the meta device."""
        self.controller.reset_parameters()
        _draw_initial_state(self.initial, self.hidden_size)

    def weight(self) -> Tensor:
        """The first parameter, because a custom controller may have any parameters."""
        return first_weight(self)

    def inputs_seen(self) -> int:
        """The input size I, or the width of the substituted weights within `run_symbols`."""
        return input_width(self.controller, self.input_size)

    def unchecked_initial_state(self, batch_size: int) -> ControllerState:
        """The controller's tensors, each [B, H]."""
        if self.initial is not None:
            return tuple(part.expand(batch_size, -1) for part in self.initial)
        like, size = first_weight(self), self.controller.state_size
        return tuple(like.new_zeros(batch_size, self.hidden_size) for _ in range(size))

    def parts(self, state: ControllerState) -> list[tuple[str, Tensor, Shape]]:
        """The controller's tensors."""
        count = self.controller.state_size
        if not isinstance(state, tuple) or len(state) != count:
            got = f" of {len(state)}" if isinstance(state, tuple) else ""
            raise ShapeError(
                f"state: expected a tuple of {count} tensor(s), got {type(state).__name__}{got}."
            )
        return [(f"[{k}]", tensor, (self.hidden_size,)) for k, tensor in enumerate(state)]

    def run(
        self, x: Tensor, state: ControllerState, lengths: Tensor | None
    ) -> tuple[Tensor, ControllerState]:
        """Use the kernels or torch's loop where possible, otherwise single steps."""
        controller = self.controller
        reason: str | None = f"no kernel supports the controller {type(controller).__name__}"
        # Only these exact types are supported, because a subclass may compute something else.
        if isinstance(controller, WeightedController) and type(controller) in CONTROLLERS.values():
            name, weights = controller.kernel_name, controller.weights
            reason = why_not_alone(name, x, weights, state)
            reason = why_called(controller, "controller") or reason
            if self.takes_kernels(reason) and name is not None:
                return run_alone(name, controller.cell, x, weights, state, lengths)
        else:
            self.takes_kernels(reason)
        if _is_plain(controller):
            # A relu is unbounded, so steps beyond a length may overflow, and 0 times infinity is
            # NaN.
            if lengths is None or controller.activation != "relu":
                return _run_plain(controller, x, state[0], lengths)
            if x.shape[1] and not (x.is_meta or torch.compiler.is_compiling()):
                return _run_packed(controller, x, state[0], lengths)
        return run_steps(controller, x, state, lengths)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return (
            f"{self.input_size}, {self.hidden_size}, batch_first={self.batch_first}, "
            f"backend={self.backend!r}"
        )


def _is_plain(controller: Controller) -> TypeGuard[ElmanController]:
    """Whether torch has a loop for a controller.

    Torch's loop is about ten times as fast as single steps.
    """
    return (
        type(controller) is ElmanController
        and controller.weight_hh is not None
        and not is_called(controller)
        # Torch's loop has no torch.func rules, so vmap and per-sample gradients use the reference.
        and not is_transformed()
        and autocast_dtype(controller.weight_ih.device) is None
    )


def _run_plain(
    controller: ElmanController, inputs: Tensor, h: Tensor, lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """An Elman network in torch's loop; sigma(a) = (1 + tanh(a / 2)) / 2 handles a sigmoid.

    The loop also runs the steps beyond a length, but their results are discarded. With t = 2 h - 1,
    the sum U x + R h + b equals U x + R t / 2 + b + R 1 / 2. Small values keep their absolute
    precision, but not their relative precision. In float32, a unit below about 1e-7 is exactly 0.
    """
    weights = controller.weights
    weight, recurrent = weights.weight_ih, weights.weight_hh
    assert recurrent is not None
    zero = weight.new_zeros(len(weight))
    bias = zero if weights.bias_ih is None else weights.bias_ih
    sigmoid = controller.activation == "sigmoid"
    start = h
    if sigmoid:
        weight, bias = weight / 2, bias / 2 + recurrent.sum(dim=1) / 4
        recurrent, start = recurrent / 4, 2 * h - 1
    run = torch.rnn_relu if controller.activation == "relu" else torch.rnn_tanh
    # The further arguments mean: with biases, one layer, no dropout, not training, one direction,
    # steps first.
    tensors = (weight, recurrent, bias, zero)
    outputs, _ = run(inputs, start.unsqueeze(0), tensors, True, 1, 0.0, False, False, False)
    if sigmoid:
        outputs = (1 + outputs) / 2
    if lengths is None:
        return outputs, (outputs[-1],)
    steps = torch.arange(inputs.shape[0], device=inputs.device).unsqueeze(1)
    ends = (lengths - 1).clamp(min=0).reshape(1, -1, 1).expand(1, -1, outputs.shape[-1])
    final = torch.where((lengths > 0).unsqueeze(-1), outputs.gather(0, ends)[0], h)
    return torch.where((steps < lengths).unsqueeze(-1), outputs, 0.0), (final,)


def _run_packed(
    controller: ElmanController, inputs: Tensor, h: Tensor, lengths: Tensor
) -> tuple[Tensor, ControllerState]:
    """A relu network in torch's packed loop, which runs no step beyond a length."""
    weight, recurrent, bias, _ = controller.weights
    assert recurrent is not None
    zero = weight.new_zeros(len(weight))
    packed = pack_inputs(inputs, lengths)
    start = h[packed.sorted_indices].unsqueeze(0)
    tensors = (weight, recurrent, zero if bias is None else bias, zero)
    data, end = torch.rnn_relu(
        packed.data, packed.batch_sizes, start, tensors, True, 1, 0.0, False, False
    )
    ends = (end[:, packed.unsorted_indices],)
    return pad_outputs(packed._replace(data=data), ends, inputs, (h,), lengths)


DeepLSTMState = tuple[tuple[Tensor, Tensor], ...]


class DeepLSTM(PlainLayer[DeepLSTMState]):
    """A stack of LSTM layers with the interface of MemoryRNN and no memory.

    Args:
        input_size: I.
        hidden_size: H of every layer.
        num_layers: 1 or more.
        skip_input: whether layers after the first also take the input (as in Graves 2013). This
            interpretation fits the published parameter counts. Otherwise the layers are simply
            stacked.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        learn_initial_state: whether h_0 and c_0 are learned or zero.
        second_bias: whether each gate has two biases, as in torch.nn.LSTM and Yang 2016. With one
            bias, as in the counts of Grefenstette et al., the second bias is a constant zero.
        backend: "auto" takes the fused kernels where they are faster than torch's loop, which is
            with lengths; "reference" never; "cpu" takes them or raises; "cuda" always raises.
    Weights are drawn as in LSTMController; the bias of the forget gate is 1.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.3 and Table 2.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        skip_input: bool = True,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        learn_initial_state: bool = False,
        second_bias: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, choice in (
            ("batch_first", batch_first),
            ("skip_input", skip_input),
            ("learn_initial_state", learn_initial_state),
            ("second_bias", second_bias),
        ):
            check_bool(name, choice)
        check_backend(backend)
        check_place(device, dtype)
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        check_positive("num_layers", num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.skip_input, self.batch_first, self.backend = skip_input, batch_first, backend
        below = hidden_size + (input_size if skip_input else 0)
        layers = [
            LSTMLayer(below if k else input_size, hidden_size, device, dtype)
            for k in range(num_layers)
        ]
        for layer in layers:
            layer.reset_parameters()
            if not second_bias:
                layer.fix_second_bias()
        self.layers = nn.ModuleList(layers)
        self.initial = (
            nn.Parameter(torch.empty(num_layers, 2, hidden_size, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        _draw_initial_state(self.initial, self.hidden_size)

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, for tools that first create a module on the meta device."""
        for layer in self.layers:
            if isinstance(layer, nn.LSTM):
                layer.reset_parameters()
        _draw_initial_state(self.initial, self.hidden_size)

    def weight(self) -> Tensor:
        """The input weights of the first layer."""
        return as_called(self.layers[0], lstm_weights(self.layers[0])[0])

    def inputs_seen(self) -> int:
        """The input size I, or the width of the substituted weights within `run_symbols`."""
        return lstm_weights(self.layers[0])[0].shape[1]

    def unchecked_initial_state(self, batch_size: int) -> DeepLSTMState:
        """(h, c) of every layer, each [B, H]."""
        like = self.weight()
        if self.initial is None:
            shape = (batch_size, self.hidden_size)
            return tuple((like.new_zeros(shape), like.new_zeros(shape)) for _ in self.layers)
        return tuple(
            (pair[0].expand(batch_size, -1), pair[1].expand(batch_size, -1))
            for pair in self.initial
        )

    def parts(self, state: DeepLSTMState) -> list[tuple[str, Tensor, Shape]]:
        """The h and c of every layer."""
        if not _is_tuple(state, self.num_layers) or not all(_is_tuple(pair, 2) for pair in state):
            raise ShapeError(
                f"state: expected (h, c) of each of {self.num_layers} layer(s), got "
                f"{type(state).__name__}{_sizes(state)}."
            )
        return [
            (f"[{k}].{name}", tensor, (self.hidden_size,))
            for k, pair in enumerate(state)
            for name, tensor in zip("hc", pair, strict=True)
        ]

    def run(
        self, x: Tensor, state: DeepLSTMState, lengths: Tensor | None
    ) -> tuple[Tensor, DeepLSTMState]:
        """Run the layers in order, each over all steps."""
        hidden, final = x, []
        if x.shape[1] == 0:
            lengths = None  # torch cannot pack an empty batch
        # On the CPU, torch's LSTM fails under autocast if the processor has no bfloat16 products.
        is_cpu = x.device.type == "cpu"
        with without_autocast(x.device) if is_cpu else nullcontext():
            for k, (layer, pair) in enumerate(zip(self.layers, state, strict=True)):
                if k and self.skip_input:
                    hidden = torch.cat([x, hidden], dim=-1)
                hidden, last = self._run_layer(layer, hidden, pair, lengths)
                final.append(last)
        return hidden, tuple((h, c) for h, c in final)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"skip_input={self.skip_input}, batch_first={self.batch_first}, "
            f"backend={self.backend!r}"
        )

    def _run_layer(
        self, layer: nn.Module, x: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, ControllerState]:
        """Call the layer if the call runs hooks, otherwise use only its weights."""
        reason = why_called(layer, "layer")
        if reason is not None and _has_rules(x):
            self.takes_kernels(reason)
            return run_module(layer, x, state, lengths)
        return self._run_weights(ControllerWeights(*lstm_weights(layer)), x, state, lengths)

    def _run_weights(
        self,
        weights: ControllerWeights,
        x: Tensor,
        state: tuple[Tensor, Tensor],
        lengths: Tensor | None,
    ) -> tuple[Tensor, ControllerState]:
        """Use the kernels or torch's loop, or single steps if torch's loop has no rules."""
        # torch.export keeps torch's loop unchanged. The loop that torch.compile writes may fail.
        in_graph = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
        # The kernels skip steps beyond a length. Torch's packed loop takes twice as long as its
        # plain loop, which is as fast as the kernels.
        is_faster = lengths is not None or self.backend != "auto" or in_graph
        if is_faster and self.takes_kernels(why_not_alone("lstm", x, weights, state)):
            return run_alone("lstm", lstm_cell, x, weights, state, lengths)
        if _has_rules(x) and not in_graph:
            return run_torch(weights, x, state, lengths, self.training)
        return run_steps(functools.partial(_step, weights), x, state, lengths)


def _has_rules(x: Tensor) -> bool:
    """Whether torch's loop can run."""
    return not (is_transformed() or x.is_meta)


def _is_tuple(value: object, size: int) -> bool:
    return isinstance(value, tuple) and len(value) == size


def _sizes(state: object) -> str:
    if not isinstance(state, tuple):
        return ""
    sizes = [str(len(pair)) if isinstance(pair, tuple) else "1" for pair in state]
    return f" of {len(state)}, with {', '.join(sizes)} in each" if sizes else " of none"


def _step(weights: ControllerWeights, x: Tensor, state: ControllerState) -> ControllerState:
    return lstm_cell(x, state, weights)


#: Activations of h, by name.
ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
#: Number of steps for which the context is one matrix product. Longer inputs need several.
BLOCK = 64


@portable
class SRCNState(NamedTuple):
    """Carried state of an SRCN between steps.

    Fields:
        hidden: h, [B, H].
        context: s, [B, C].
    """

    hidden: Tensor
    context: Tensor


class SRCN(PlainLayer[SRCNState]):
    """Hidden units h and context units s, each of which is a slowly decaying sum of the inputs.

    s_t = (1 - alpha) B x_t + alpha s_{t-1}
    h_t = sigma(P s_t + A x_t + R h_{t-1} + b)

    The output is concat(h_t, s_t), for y_t = softmax(U h_t + V s_t). The paper has no bias b. The
    context needs no loop over time. The context is linear, so a block of steps is one product with
    the powers of alpha.

    Args:
        input_size: I, size of x_t.
        hidden_size: H.
        context_size: C; the paper has 10 to 40 with 40 to 300 hidden units.
        alpha: 0 <= alpha < 1, shared by all context units and not learned.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        activation: "sigmoid", as in the paper, or "tanh". With biases, here and in the output, both
            represent the same functions, because sigma(2 a) = (1 + tanh(a)) / 2.
        bias: whether h has a bias.
        learn_initial_state: whether the initial h and s are learned or zero.
        backend: "auto" or "reference"; others raise, since there is no kernel.
        device, dtype: of the parameters.
    Raises:
        ShapeError: a size is not a positive integer. ConfigError: alpha is out of range.
        ChoiceError: an unknown activation.
    Source: Mikolov et al. 2014, arXiv:1412.7753, section 3.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        context_size: int = 40,
        alpha: float = 0.95,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str = "sigmoid",
        bias: bool = False,
        learn_initial_state: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, choice in (
            ("batch_first", batch_first),
            ("bias", bias),
            ("learn_initial_state", learn_initial_state),
        ):
            check_bool(name, choice)
        check_backend(backend)
        check_choice("activation", activation, ACTIVATIONS)
        check_place(device, dtype)
        for name, size in (
            ("input_size", input_size),
            ("hidden_size", hidden_size),
            ("context_size", context_size),
        ):
            check_positive(name, size)
        check_number("alpha", alpha)
        if not 0 <= alpha < 1:
            raise ConfigError(f"alpha: expected a number of at least 0 and below 1, got {alpha!r}")
        self.input_size, self.hidden_size, self.context_size = input_size, hidden_size, context_size
        self.alpha, self.batch_first, self.activation = alpha, batch_first, activation
        self.backend = backend

        def matrix(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(rows, columns, device=device, dtype=dtype))

        #: A, with B below it. Both multiply x_t.
        self.weight_ih = matrix(hidden_size + context_size, input_size)
        #: P.
        self.weight_sh = matrix(hidden_size, context_size)
        #: R.
        self.weight_hh = matrix(hidden_size, hidden_size)
        self.bias = (
            nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype)) if bias else None
        )
        self.initial = (
            nn.Parameter(torch.empty(self.output_size, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from Glorot's uniform distribution. Bias and initial state are 0."""
        for matrix in (self.weight_ih, self.weight_sh, self.weight_hh):
            nn.init.xavier_uniform_(matrix)
        for vector in (self.bias, self.initial):
            if vector is not None:
                nn.init.zeros_(vector)

    @property
    def output_size(self) -> int:
        """H + C."""
        return self.hidden_size + self.context_size

    def weight(self) -> Tensor:
        """A and B."""
        return self.weight_ih

    def inputs_seen(self) -> int:
        """The input size I, or the width of the substituted weights within `run_symbols`."""
        return self.weight_ih.shape[1]

    def unchecked_initial_state(self, batch_size: int) -> SRCNState:
        """The initial h and s."""
        like = self.weight_ih
        if self.initial is not None:
            first = self.initial.expand(batch_size, -1)
            return SRCNState(*torch.split(first, [self.hidden_size, self.context_size], dim=-1))
        return SRCNState(
            like.new_zeros(batch_size, self.hidden_size),
            like.new_zeros(batch_size, self.context_size),
        )

    def parts(self, state: SRCNState) -> list[tuple[str, Tensor, Shape]]:
        """The h and s of a step."""
        if not isinstance(state, tuple) or len(state) != len(SRCNState._fields):
            got = f" of {len(state)}" if isinstance(state, tuple) else ""
            raise ShapeError(
                f"state: expected hidden and context, got {type(state).__name__}{got}."
            )
        hidden, context = state
        sizes = (self.hidden_size,), (self.context_size,)
        return [(".hidden", hidden, sizes[0]), (".context", context, sizes[1])]

    def run(self, x: Tensor, state: SRCNState, lengths: Tensor | None) -> tuple[Tensor, SRCNState]:
        """Compute the context of all steps at once, and h step by step."""
        self.takes_kernels("no kernel is built for it")
        state = SRCNState(*state)
        steps, batch_size = x.shape[:2]
        sizes = [self.hidden_size, self.context_size]
        to_hidden, to_context = torch.split(F.linear(x, self.weight_ih), sizes, dim=-1)
        context = self._context((1 - self.alpha) * to_context, state.context)
        from_context = F.linear(context, self.weight_sh, self.bias)
        hidden = self._hidden(to_hidden + from_context, state.hidden)
        output = torch.cat([hidden, context], dim=-1)
        if lengths is None:
            last = output[-1].clone()  # a change of the output leaves the state as it is
        else:
            # Step 0 of `all_steps` is the initial state, which is the result for a length of 0.
            all_steps = torch.cat([torch.cat(state, dim=-1).unsqueeze(0), output])
            # Lengths cannot always be checked, so lengths beyond T count as T.
            ends = lengths.clamp(0, steps)
            last = all_steps[ends, torch.arange(batch_size, device=lengths.device)]
            is_valid = torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
            output = output * is_valid.unsqueeze(-1)
        final = SRCNState(*torch.split(last, sizes, dim=-1))
        return output, final

    def _context(self, entering: Tensor, before: Tensor) -> Tensor:
        """Compute every s, [T, B, C], from (1 - alpha) B x of every step and s_{-1} [B, C]."""
        blocks = []
        for block in torch.split(entering, BLOCK):
            t = torch.arange(len(block), device=block.device)
            age = (t.unsqueeze(1) - t).clamp(min=0)
            # s_t = alpha^(t+1) s_{-1} + sum_{j<=t} alpha^(t-j) entering_j
            powers = torch.tril(torch.pow(self._alpha(block), age))
            decay = torch.pow(self._alpha(block), t + 1).view(-1, 1, 1)
            new = torch.einsum("tj,jbc->tbc", powers, block) + decay * before
            before = new[-1]
            blocks.append(new)
        return torch.cat(blocks)

    def _alpha(self, like: Tensor) -> Tensor:
        return torch.tensor(self.alpha, device=like.device, dtype=like.dtype)

    def _hidden(self, entering: Tensor, before: Tensor) -> Tensor:
        """Compute every h, [T, B, H]. Only this part has a loop over steps."""
        hidden, recurrent, activate = [], self.weight_hh.t(), ACTIVATIONS[self.activation]
        for step in entering.unbind(0):
            before = activate(torch.addmm(step, before, recurrent))
            hidden.append(before)
        return torch.stack(hidden)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        others = "" if self.activation == "sigmoid" else f", activation={self.activation}"
        others += "" if self.bias is None else ", bias=True"
        return (
            f"{self.input_size}, {self.hidden_size}, context_size={self.context_size}, "
            f"alpha={self.alpha}, batch_first={self.batch_first}, backend={self.backend!r}{others}"
        )
