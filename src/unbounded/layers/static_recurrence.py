"""A recurrence on static buffers, which chunks of a sequence reuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from unbounded import kernels

_KEPT: Final = 2


class StaticRecurrence:
    """Recurrences over different numbers of steps with one carried state.

    Buffers are kept for the last two numbers of steps: those of full chunks and of a batch's last
    chunk.

    Args:
        structure, activations, controller, weights: as in `kernels.StaticRecurrence`.
        initial: the initial state of a sequence.
        of_x: whether a backward pass computes the gradient of x.
    """

    def __init__(
        self,
        structure: kernels.Structure[Any],
        activations: tuple[str, ...],
        controller: str,
        weights: kernels.Weights,
        initial: Sequence[Tensor],
        *,
        of_x: bool = False,
    ) -> None:
        self._initial, self._state = initial, [tensor.clone() for tensor in initial]
        self._arguments = (structure, activations, controller, weights, self._state)
        self._of_x = of_x
        self._by_steps: dict[int, kernels.StaticRecurrence] = {}
        self._run = self._recurrence(1)

    def split(self, size: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The first `size` tensors of the state, and the rest."""
        return tuple(self._state[:size]), tuple(self._state[size:])

    def set_state(self, state: Sequence[Tensor] | None) -> None:
        """Set the carried state, laid out as the initial one; None for the initial one."""
        torch._foreach_copy_(self._state, list(self._initial if state is None else state))

    def forward(self, x: Tensor) -> Tensor:
        """Run over x [T, B, I]; return h of every step, [T, B, H], overwritten by later calls."""
        self._run = run = self._recurrence(len(x))
        run.x.copy_(x)
        run.forward()
        return run.outputs

    def backward(self, grad: Tensor) -> dict[str, Tensor]:
        """Map the gradient [T, B, H] of h to those of the weights, by name."""
        self._run.grad_outputs.copy_(grad)
        self._run.backward()
        return self._run.gradients

    @property
    def grad_x(self) -> Tensor | None:
        """Gradient of the last chunk's x, [T, B, I]."""
        return self._run.grad_x

    def advance(self) -> None:
        """Carry the state after the last call over to the next."""
        torch._foreach_copy_(self._state, self._run.final)

    def _recurrence(self, steps: int) -> kernels.StaticRecurrence:
        recurrence = self._by_steps.pop(steps, None)
        if recurrence is None:
            recurrence = kernels.StaticRecurrence(*self._arguments, steps, of_x=self._of_x)
        # Inserted again, the last one used is the last in order.
        self._by_steps[steps] = recurrence
        if len(self._by_steps) > _KEPT:
            del self._by_steps[next(iter(self._by_steps))]
        return recurrence


def set_gradients(
    weights: kernels.Weights | kernels.ControllerWeights, gradients: dict[str, Tensor]
) -> None:
    """Assign the gradients of a recurrence to the parameters that require one."""
    for name, weight in weights._asdict().items():
        if weight is None or not weight.requires_grad:
            continue
        # The biases of an LSTM or Elman cell are summed; their equal gradients are two tensors.
        weight.grad = gradients[name] if name in gradients else gradients["bias_ih"].clone()
