"""A controller without a memory: the baseline against which a memory is compared."""

from __future__ import annotations

import math
from typing import TypeGuard

import torch
from torch import Tensor, nn

from unbounded.checks import check_bool, check_place, check_positive
from unbounded.errors import ShapeError
from unbounded.layers.alone import run_alone, run_steps, why_not_alone
from unbounded.layers.cells import ControllerState
from unbounded.layers.controllers import (
    CONTROLLERS,
    Controller,
    ElmanController,
    WeightedController,
    input_width,
)
from unbounded.layers.fused import is_called, why_called
from unbounded.layers.lstm_layer import pack_inputs, pad_outputs
from unbounded.layers.named_controller import ControllerFactory, make_controller
from unbounded.layers.plain_layer import PlainLayer, first_weight, is_transformed
from unbounded.memories.core import autocast_dtype, check_backend


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
        self._reset_initial_state()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, for tools that first create a module on the meta device."""
        self.controller.reset_parameters()
        self._reset_initial_state()

    def _reset_initial_state(self) -> None:
        if self.initial is not None:
            bound = 1 / math.sqrt(self.hidden_size)
            nn.init.uniform_(self.initial, -bound, bound)

    def weight(self) -> Tensor:
        """The first parameter; a custom controller may have any."""
        return first_weight(self)

    def inputs_seen(self) -> int:
        """I; within `run_symbols`, the width of the substituted weights."""
        return input_width(self.controller, self.input_size)

    def unchecked_initial_state(self, batch_size: int) -> ControllerState:
        """The controller's tensors, [B, H] each."""
        if self.initial is not None:
            return tuple(part.expand(batch_size, -1) for part in self.initial)
        like, size = first_weight(self), self.controller.state_size
        return tuple(like.new_zeros(batch_size, self.hidden_size) for _ in range(size))

    def parts(self, state: ControllerState) -> list[tuple[str, Tensor, int]]:
        """The controller's tensors."""
        count = self.controller.state_size
        if not isinstance(state, tuple) or len(state) != count:
            got = f" of {len(state)}" if isinstance(state, tuple) else ""
            raise ShapeError(
                f"state: expected a tuple of {count} tensor(s), got {type(state).__name__}{got}."
            )
        return [(f"[{k}]", tensor, self.hidden_size) for k, tensor in enumerate(state)]

    def run(
        self, x: Tensor, state: ControllerState, lengths: Tensor | None
    ) -> tuple[Tensor, ControllerState]:
        """Use the kernels or torch's loop where they apply, else single steps."""
        controller = self.controller
        reason: str | None = f"no kernel knows the controller {type(controller).__name__}"
        # Exact types only: a subclass may compute something else.
        if isinstance(controller, WeightedController) and type(controller) in CONTROLLERS.values():
            name, weights = controller.kernel_name, controller.weights
            reason = why_not_alone(name, x, weights, state)
            reason = why_called(controller, "controller") or reason
            if self.takes_kernels(reason) and name is not None:
                return run_alone(name, controller.cell, x, weights, state, lengths)
        else:
            self.takes_kernels(reason)
        if _is_plain(controller):
            # A relu is unbounded: steps beyond a length may overflow, and 0 times infinity is NaN.
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
    """Whether torch has a loop for a controller, which is about ten times as fast."""
    return (
        type(controller) is ElmanController
        and controller.weight_hh is not None
        and not is_called(controller)
        # torch's loop has no torch.func rules: vmap and per-sample gradients take the reference.
        and not is_transformed()
        and autocast_dtype(controller.weight_ih.device) is None
    )


def _run_plain(
    controller: ElmanController, inputs: Tensor, h: Tensor, lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """An Elman network in torch's loop; sigma(a) = (1 + tanh(a / 2)) / 2 handles a sigmoid.

    The loop also runs the steps beyond a length; their results are discarded.
    With t = 2 h - 1 the sum U x + R h + b is U x + R t / 2 + b + R 1 / 2. Small values keep their
    absolute precision, not their relative one: in float32 a unit below about 1e-7 is exactly 0.
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
    # Then: with biases, one layer, no dropout, not training, one direction, steps first.
    tensors = (weight, recurrent, bias, zero)
    outputs, _ = run(inputs, start.unsqueeze(0), tensors, True, 1, 0.0, False, False, False)
    if sigmoid:
        outputs = (1 + outputs) / 2
    if lengths is None:
        return outputs, (outputs[-1],)
    steps = torch.arange(len(inputs), device=inputs.device).unsqueeze(1)
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
