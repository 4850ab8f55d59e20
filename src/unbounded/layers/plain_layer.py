"""PlainLayer: base class of recurrent layers without a memory, with MemoryRNN's interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils.rnn import PackedSequence

from unbounded.checks import check_like, check_shape, check_size
from unbounded.errors import ShapeError
from unbounded.layers.call import Lengths, check_inputs, check_sequences, new_call
from unbounded.layers.half import is_half, run_in_float32
from unbounded.layers.offloaded import as_called
from unbounded.memories.core import autocast_dtype, choose_backend, map_state
from unbounded.replaced import remember_methods

StateT = TypeVar("StateT", bound=tuple[Any, ...])


class PlainLayer(nn.Module, ABC, Generic[StateT]):
    """A recurrent layer with the interface of MemoryRNN and no memory.

    Its state is a tuple of tensors [B, H], or of such tuples; each tensor has its own H.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

    batch_first: bool
    backend: str = "auto"

    def takes_kernels(self, reason: str | None) -> bool:
        """Whether a call uses the fused kernels, where "auto" would take them.

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
        """One of the weights, with the dtype and device that x and states must have."""

    @abstractmethod
    def inputs_seen(self) -> int:
        """The size of x_t that the weights take."""

    @abstractmethod
    def unchecked_initial_state(self, batch_size: int) -> StateT:
        """The initial state of every sequence."""

    @abstractmethod
    def parts(self, state: StateT) -> list[tuple[str, Tensor, int]]:
        """Name, tensor and size of each part of a state from the caller.

        Raises:
            ShapeError: the number of parts is not this layer's.
        """

    @abstractmethod
    def run(self, x: Tensor, state: StateT, lengths: Tensor | None) -> tuple[Tensor, StateT]:
        """Run over checked inputs [T, B, I] and a checked state."""

    def initial_state(self, batch_size: int) -> StateT:
        """Return the initial state of every sequence, tensors [B, H].

        Raises:
            ShapeError: `batch_size` is no integer of at least 0.
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
        else:
            batch = () if call.unbatched else (batch_size,)
            for name, tensor, size in self.parts(state):
                check_shape(f"state{name}", tensor, (*batch, size))
                check_like(f"state{name}", tensor, "the layer", like)
            if call.unbatched:
                state = map_state(lambda tensor: tensor.unsqueeze(0), state)
        output, last = self.run(inputs, state, call.lengths)
        if cast is not None:
            output = output.to(cast)
            last = map_state(lambda tensor: tensor.to(like.dtype), last)
        if call.unbatched:
            last = map_state(lambda tensor: tensor.squeeze(0), last)
        return call.laid_out(output), last


def _with_tuples(state: Any) -> Any:
    """Convert a state of lists, such as from a file, to tuples."""
    if not isinstance(state, list | tuple) or hasattr(state, "_fields"):
        return state
    return tuple(_with_tuples(part) for part in state)


def first_weight(module: nn.Module) -> Tensor:
    """The first parameter of a module; also of a replica, whose parameters are plain tensors."""
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
