"""Row-sparse gradients: plain SGD only on the columns of the input matrix that a chunk uses.

A chunk of one stream uses fifty words of a vocabulary of ten thousand. The gradient of all other
columns is zero. Allocating, measuring and adding it would take most of the time of a step.
"""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.models import MemoryModel
from unbounded.models.inputs import check_tokens
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn.fused import is_called
from unbounded.rnn.symbols import input_weight, run_symbols
from unbounded.tasks import Batch


class RowSparse:
    """A model's call with only the used columns of its input matrix, and their plain SGD step.

    Args:
        model: a model for which `row_sparse` returns this.
        weight: its input matrix [rows, I + R]; the first I columns belong to the symbols.
        optimizer: its plain SGD, which steps the other parameters.
        group: number of the optimizer's group that holds `weight`.
    """

    def __init__(
        self, model: MemoryModel, weight: Tensor, optimizer: torch.optim.Optimizer, group: int
    ) -> None:
        self._model, self._weight, self._optimizer, self._group = model, weight, optimizer, group
        self._read_columns = torch.arange(model.sequence.input_vocabulary, weight.shape[1])
        self._used = self._read_columns
        self._columns = weight.detach()[:, :0]

    @property
    def grad(self) -> Tensor | None:
        """The gradient of the columns that the last call used, [rows, U + R], or None."""
        return self._columns.grad

    def fits(self) -> bool:
        """Whether this still equals the model's call, as no part was frozen and no hook added."""
        return _is_row_sparse(self._model, self._weight)

    def run(self, chunk: Batch, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """Run the model and return logits [B, T, V] and the state.

        Gradients go to the used columns.

        Raises:
            DTypeError, ShapeError: the inputs are no tokens of the vocabulary.
        """
        sequence = self._model.sequence
        inputs = check_tokens(chunk.inputs, sequence.input_vocabulary)
        symbols, places = torch.unique(inputs, return_inverse=True)
        self._used = torch.cat([symbols, self._read_columns])
        self._columns = self._weight.detach().index_select(1, self._used).requires_grad_()
        hidden, state = run_symbols(sequence.layer, places, state, lengths, columns=self._columns)
        return sequence.logits(hidden), state

    @torch.no_grad()
    def step(self) -> None:
        """Subtract the gradient times the rate from the columns that the last call used."""
        if self.grad is not None:
            rate = self._optimizer.param_groups[self._group]["lr"]
            self._columns.add_(self.grad, alpha=-rate)
            self._weight.index_copy_(1, self._used, self._columns)

    def forget(self) -> None:
        """Clear the gradient of the last call."""
        self._columns.grad = None


def row_sparse(
    model: nn.Module, accelerator: Accelerator, optimizer: torch.optim.Optimizer
) -> RowSparse | None:
    """Return a `RowSparse` for a model if it equals the model's call, otherwise None.

    Args:
        model: prepared by `accelerator`.
        optimizer: its plain SGD, which steps the other parameters.
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
    if weight is None or not _is_row_sparse(model, weight):
        return None
    for number, group in enumerate(optimizer.param_groups):
        if any(parameter is weight for parameter in group["params"]):
            return RowSparse(model, weight, optimizer, number)
    return None


def _is_row_sparse(model: MemoryModel, weight: Tensor) -> bool:
    """Whether a model uses its input matrix only for lookups of columns, and trains it.

    In half precision, a step on some columns rounds differently from a step on all columns.
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
        and sum(parameter is weight for _, parameter in names) == 1
        and not any(is_called(module) for module in model.modules())
    )
