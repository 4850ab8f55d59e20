"""A controller on its own: the plain network beside which a memory must show its worth."""

from __future__ import annotations

import math
from typing import TypeGuard

import torch
from torch import Tensor, nn

from unbounded.checks import check_lengths, check_positive, check_shape, check_tensor
from unbounded.errors import ShapeError
from unbounded.layers.alone import run_alone, run_steps, why_not_alone
from unbounded.layers.call import check_inputs, without_padding
from unbounded.layers.controllers import (
    CONTROLLERS,
    Controller,
    ControllerState,
    ElmanController,
    WeightedController,
    input_width,
)
from unbounded.layers.fused import runs_hooks
from unbounded.layers.named_controller import ControllerFactory, make_controller


class ControllerRNN(nn.Module):
    """A recurrent layer with the interface of MemoryRNN and no memory.

    h_t = sigma(U x_t + R h_{t-1}) with functools.partial(ElmanController, activation="sigmoid",
    bias=False), which is the RNN of Joulin & Mikolov 2015.

    Args:
        input_size: I, size of x_t.
        hidden_size: H, units of the controller, and size of the output.
        controller: "lstm", "gru", "elman", or a callable (input_size, hidden_size, device=, dtype=)
            that makes a Controller.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        learn_initial_state: whether the first state is learned (drawn as in MemoryRNN) or zero.
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
    ) -> None:
        super().__init__()
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.batch_first = batch_first
        self.controller = make_controller(
            controller, input_size, hidden_size, device=device, dtype=dtype
        )
        shape = (self.controller.state_size, hidden_size)
        self.initial = (
            nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        if self.initial is not None:
            nn.init.uniform_(self.initial, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def initial_state(self, batch_size: int) -> ControllerState:
        """Return the state in which every sequence begins, [B, H] each."""
        check_positive("batch_size", batch_size)
        if self.initial is not None:
            return tuple(part.expand(batch_size, -1) for part in self.initial)
        zero = next(self.parameters()).new_zeros(batch_size, self.hidden_size)
        return (zero,) * self.controller.state_size

    def forward(
        self,
        x: Tensor,
        state: ControllerState | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, ControllerState]:
        """Run over a sequence.

        Args:
            x: [T, B, I], or [B, T, I] with `batch_first`.
            state: tensors [B, H]; None begins anew.
            lengths: int64 [B] in 0..T; beyond its length a sequence's state stays, its output is 0.
        Returns:
            h of every step, [T, B, H] (or batch first), and the state.
        Raises:
            ShapeError, DTypeError, DeviceError: an argument disagrees; the message names it.
        """
        check_tensor("x", x)
        axes = ("B", "T") if self.batch_first else ("T", "B")
        check_shape("x", x, (*axes, input_width(self.controller, self.input_size)))
        inputs = x.transpose(0, 1) if self.batch_first else x
        batch_size = inputs.shape[1]
        check_inputs(inputs, next(self.parameters()))
        check_lengths(lengths, inputs.shape[1], inputs.shape[0])
        inputs = without_padding(inputs, lengths)
        if state is None:
            state = self.initial_state(batch_size)
        if len(state) != self.controller.state_size:
            raise ShapeError(
                f"state: expected {self.controller.state_size} tensor(s), got {len(state)}"
            )
        for k, tensor in enumerate(state):
            check_shape(f"state[{k}]", tensor, (batch_size, self.hidden_size))
        outputs, state = self._run(inputs, state, lengths)
        return outputs.transpose(0, 1) if self.batch_first else outputs, state

    def _run(
        self, inputs: Tensor, state: ControllerState, lengths: Tensor | None
    ) -> tuple[Tensor, ControllerState]:
        controller = self.controller
        # Exact types: a subclass may compute something else, which no kernel knows of.
        if isinstance(controller, WeightedController) and type(controller) in CONTROLLERS.values():
            name, weights = controller.kernel_name, controller.weights
            is_fused = why_not_alone(name, inputs, weights, state) is None
            if name is not None and is_fused and not runs_hooks(controller):
                return run_alone(name, controller.cell, inputs, weights, state, lengths)
        if _is_plain(controller):
            return _run_plain(controller, inputs, state[0], lengths)
        return run_steps(controller, inputs, state, lengths)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return f"{self.input_size}, {self.hidden_size}, batch_first={self.batch_first}"


def _is_plain(controller: Controller) -> TypeGuard[ElmanController]:
    """Whether torch has a loop of its own for a controller: about ten times as fast."""
    return (
        type(controller) is ElmanController
        and controller.weight_hh is not None
        and not runs_hooks(controller)
        # No rule of torch.func for it: vmap and per-sample gradients take the readable loop.
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch.is_autocast_enabled(controller.weight_ih.device.type)
    )


def _run_plain(
    controller: ElmanController, inputs: Tensor, h: Tensor, lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """An Elman network in torch's loop; sigma(a) = (1 + tanh(a / 2)) / 2 makes one of a sigmoid.

    With t = 2 h - 1 the sum U x + R h + b is U x + R t / 2 + b + R 1 / 2. What is small keeps its
    absolute precision, not its relative one: in float32 a unit below about 1e-7 is exactly 0.
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
    # After the weights: with biases, one layer, no dropout, not training, one way, steps first.
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
