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

from unbounded.layers.fused import runs_hooks
from unbounded.layers.symbols import input_weight, run_symbols
from unbounded.models import MemoryModel
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch


class LookedUp:
    """A model's call whose input matrix is the columns that are used, and their step of plain SGD.

    Args:
        sequence: one for which `looked_up` returns this.
        weight: its input matrix [rows, I + R], the first I columns its symbols.
        group: of the optimizer, with its learning rate.
    """

    def __init__(self, sequence: SequenceModel, weight: Tensor, group: dict[str, Any]) -> None:
        self._sequence, self._weight, self._group = sequence, weight, group
        self._behind = torch.arange(sequence.input_vocabulary, weight.shape[1])
        self._used = self._behind
        self._columns = weight.detach()[:, :0]

    @property
    def grad(self) -> Tensor | None:
        """The gradient of the columns that the last call used, [rows, U + R]."""
        return self._columns.grad

    def run(self, piece: Batch, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """As the model: logits [B, T, V] and the state; gradients go to the columns in use."""
        used, places = torch.unique(piece.inputs, return_inverse=True)
        self._used = torch.cat([used, self._behind])
        self._columns = self._weight.detach().index_select(1, self._used).requires_grad_()
        hidden, state = run_symbols(
            self._sequence.layer, places, state, lengths, columns=self._columns
        )
        return self._sequence.output(hidden), state

    @torch.no_grad()
    def step(self) -> None:
        """Take the gradient times the rate from the columns that the last call used."""
        if self.grad is not None:
            self._columns.add_(self.grad, alpha=-self._group["lr"])
            self._weight.index_copy_(1, self._used, self._columns)
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
    sequence = model.sequence
    weight = input_weight(sequence.layer)
    if (
        weight is None
        or not sequence._looks_up
        or sequence.dropout
        or sequence.read_only_token is not None
        or not weight.requires_grad
        or weight._backward_hooks
        or getattr(weight, "_post_accumulate_grad_hooks", None)
        or any(runs_hooks(module) for module in model.modules())
        or sum(each is weight for _, each in model.named_parameters(remove_duplicate=False)) > 1
    ):
        return None
    for group in optimizer.param_groups:
        if any(each is weight for each in group["params"]):
            return LookedUp(sequence, weight, group)
    return None
