"""SGD on the columns that a piece's symbols look up, where all others have no gradient.

Of a vocabulary of ten thousand words a piece of one stream has fifty. The gradient of the matrix
whose columns they are is zero everywhere else, and to make it, to take its norm and to add it is
most of a step.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.layers.fused import is_called
from unbounded.layers.symbols import input_weight, run_symbols
from unbounded.models import MemoryModel
from unbounded.models.inputs import check_tokens
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch


class LookedUp:
    """A model's call whose input matrix is the columns that are used, and their step of plain SGD.

    Args:
        model: one for which `looked_up` returns this.
        weight: its input matrix [rows, I + R], the first I columns its symbols.
        optimizer: its plain SGD, of which other parameters are stepped as ever.
        group: number of the optimizer's group in which `weight` is.
    """

    def __init__(
        self, model: MemoryModel, weight: Tensor, optimizer: torch.optim.Optimizer, group: int
    ) -> None:
        self._model, self._weight, self._optimizer, self._group = model, weight, optimizer, group
        self._behind = torch.arange(model.sequence.input_vocabulary, weight.shape[1])
        self._used = self._behind
        self._columns = weight.detach()[:, :0]

    @property
    def grad(self) -> Tensor | None:
        """The gradient of the columns that the last call used, [rows, U + R], or None."""
        return self._columns.grad

    def fits(self) -> bool:
        """Whether this still is what the model gives: nothing was frozen or hooked into since."""
        return _is_looked_up(self._model, self._weight)

    def run(self, piece: Batch, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """As the model: logits [B, T, V] and the state; gradients go to the columns in use.

        Raises:
            DTypeError, ShapeError: the inputs are no tokens of the vocabulary.
        """
        sequence = self._model.sequence
        inputs = check_tokens(piece.inputs, sequence.input_vocabulary)
        used, places = torch.unique(inputs, return_inverse=True)
        self._used = torch.cat([used, self._behind])
        self._columns = self._weight.detach().index_select(1, self._used).requires_grad_()
        hidden, state = run_symbols(sequence.layer, places, state, lengths, columns=self._columns)
        return sequence.logits(hidden), state

    @torch.no_grad()
    def step(self) -> None:
        """Take the gradient times the rate from the columns that the last call used."""
        if self.grad is not None:
            rate = self._optimizer.param_groups[self._group]["lr"]
            self._columns.add_(self.grad, alpha=-rate)
            self._weight.index_copy_(1, self._used, self._columns)

    def forget(self) -> None:
        """Forget the gradient of the last call."""
        self._columns.grad = None


def looked_up(
    model: nn.Module, accelerator: Accelerator, optimizer: torch.optim.Optimizer
) -> LookedUp | None:
    """A `LookedUp` of a model, where it gives what the model would; None otherwise.

    Args:
        model: prepared by `accelerator`.
        optimizer: its plain SGD, of which other parameters are stepped as ever.
    """
    if (
        accelerator.num_processes > 1
        or accelerator.mixed_precision != "no"
        or accelerator.gradient_accumulation_steps > 1
        or accelerator.device.type != "cpu"
        or type(model) is not MemoryModel
        or type(model.sequence) is not SequenceModel
    ):
        return None
    weight = input_weight(model.sequence.layer)
    if weight is None or not _is_looked_up(model, weight):
        return None
    for number, group in enumerate(optimizer.param_groups):
        if any(each is weight for each in group["params"]):
            return LookedUp(model, weight, optimizer, number)
    return None


def _is_looked_up(model: MemoryModel, weight: Tensor) -> bool:
    """Whether a model does nothing with its input matrix but to look up columns, and to learn them.

    Of numbers of half precision a step of some columns is rounded otherwise than that of all.
    """
    sequence = model.sequence
    names = model.named_parameters(remove_duplicate=False)
    return (
        weight.dtype in (torch.float32, torch.float64)
        and weight.requires_grad
        and not weight._backward_hooks
        and not getattr(weight, "_post_accumulate_grad_hooks", None)
        and sequence._looks_up
        and not sequence.dropout
        and sequence.read_only_token is None
        and sum(each is weight for _, each in names) == 1
        and not any(is_called(module) for module in model.modules())
    )
