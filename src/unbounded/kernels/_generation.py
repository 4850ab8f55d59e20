"""Stepping a fused recurrence without gradients, as generation needs it."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.kernels._checks import (
    Checked,
    ControllerWeights,
    Sized,
    check_length_values,
    check_recurrence,
    check_sequence,
)
from unbounded.kernels._session import Session
from unbounded.kernels._shapes import CONTROLLERS, SUPERPOSITIONS
from unbounded.kernels._superposition import CheckedCells, check_superposition
from unbounded.kernels._superposition_session import SuperpositionSession
from unbounded.kernels._superposition_shapes import MixtureOptions, refuse_options


class Stepper:
    """A fused recurrence that is run a few steps at a time, without gradients.

    The weights are packed once, when it is made: later changes of a parameter are not seen. A step
    costs the products and the rows it touches, however long the memory has become.

    Args:
        structure, controller, weights, head_weight, head_bias, initial: as of `recurrence`.
        capacity: steps that are expected; more are taken, by enlarging the room.
        options: of a superposition stack or list, as of `recurrence`.
    """

    def __init__(
        self,
        structure: str,
        controller: str,
        weights: ControllerWeights,
        head_weight: Tensor,
        head_bias: Tensor | None,
        initial: tuple[Tensor, ...],
        capacity: int = 256,
        options: MixtureOptions | None = None,
    ) -> None:
        self._has_cell = CONTROLLERS[controller].has_cell if controller in CONTROLLERS else False
        self._checked: Sized
        self._session: Session | SuperpositionSession
        if structure in SUPERPOSITIONS:
            options = options or MixtureOptions()
            cells = check_superposition(
                structure, controller, weights, head_weight, head_bias, initial, options
            )
            cells = CheckedCells._make(None if t is None else t.detach() for t in cells)
            self._checked = cells
            self._session = SuperpositionSession(structure, controller, cells, options, capacity)
            return
        refuse_options(structure, options)
        if head_bias is None:
            head_bias = head_weight.new_zeros(head_weight.shape[0])
        checked = check_recurrence(structure, controller, weights, head_weight, head_bias, initial)
        checked = Checked._make(None if t is None else t.detach() for t in checked)
        self._checked = checked
        self._session = Session(
            structure, controller, checked[:4], checked.head_weight, checked.head_bias,
            checked[6:], capacity,
        )  # fmt: skip

    @torch.no_grad()
    def run(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Run over x [T, B, I], T may be 1; return h of every step [T, B, H].

        Args:
            x: the next steps.
            lengths: int64 [B] in 0..T: beyond it a row keeps its state, and its h is 0.
        """
        x, lengths = check_sequence(x, lengths, self._checked)
        check_length_values(lengths, x.shape[0])
        return self._session.run(x, lengths)

    @torch.no_grad()
    def state(self) -> tuple[Tensor, ...]:
        """A copy of the state, laid out as `initial`."""
        hidden, cell, *rest = (tensor.clone() for tensor in self._session.state())
        return (hidden, *((cell,) if self._has_cell else ()), *rest)
