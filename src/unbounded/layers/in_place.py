"""A recurrence on tensors that keep their places, from piece to piece of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from unbounded import kernels

_KEPT: Final = 2


class InPlace:
    """Recurrences of different numbers of steps on one state.

    The tensors of the last two numbers of steps are kept: that of whole pieces, and that of a
    batch's last piece.

    Args:
        structure, activations, controller, weights: as of `kernels.BoundRecurrence`.
        first: the state in which a sequence begins.
        of_x: whether a backward pass makes the gradient of x.
    """

    def __init__(
        self,
        structure: kernels.Structure,
        activations: tuple[str, ...],
        controller: str,
        weights: kernels.Weights,
        first: Sequence[Tensor],
        *,
        of_x: bool = False,
    ) -> None:
        self._first, self._now = first, [tensor.clone() for tensor in first]
        self._arguments = (structure, activations, controller, weights, self._now)
        self._of_x = of_x
        self._of_steps: dict[int, kernels.BoundRecurrence] = {}
        self._run = self._bound(1)

    def split(self, size: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The state's first `size` tensors, and the rest."""
        return tuple(self._now[:size]), tuple(self._now[size:])

    def take(self, state: Sequence[Tensor] | None) -> None:
        """Go on from a state laid out as the first; None for that."""
        torch._foreach_copy_(self._now, list(self._first if state is None else state))

    def forward(self, x: Tensor) -> Tensor:
        """Run over x [T, B, I]; h of every step, [T, B, H], overwritten by later calls."""
        self._run = run = self._bound(len(x))
        run.x.copy_(x)
        run.forward()
        return run.outputs

    def backward(self, grad: Tensor) -> dict[str, Tensor]:
        """From the gradient [T, B, H] of h to those of the weights, by name."""
        self._run.grad_outputs.copy_(grad)
        self._run.backward()
        return self._run.gradients

    @property
    def grad_x(self) -> Tensor | None:
        """Of the last piece, [T, B, I]."""
        return self._run.grad_x

    def go_on(self) -> None:
        """The state after the last call becomes the one before the next."""
        torch._foreach_copy_(self._now, self._run.final)

    def _bound(self, steps: int) -> kernels.BoundRecurrence:
        made = self._of_steps.pop(steps, None)
        if made is None:
            made = kernels.BoundRecurrence(*self._arguments, steps, of_x=self._of_x)
        # The last used is the last in order.
        self._of_steps[steps] = made
        if len(self._of_steps) > _KEPT:
            del self._of_steps[next(iter(self._of_steps))]
        return made


def set_gradients(
    weights: kernels.Weights | kernels.ControllerWeights, made: dict[str, Tensor]
) -> None:
    """Hand the gradients that a recurrence made to the parameters that have one."""
    for name, weight in weights._asdict().items():
        if weight is None or not weight.requires_grad:
            continue
        # The biases of an LSTM or Elman cell are one sum; their gradients are two tensors.
        weight.grad = made[name] if name in made else made["bias_ih"].clone()
