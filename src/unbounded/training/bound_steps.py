"""The gradient of a piece without torch's graph: for small models half of a step is that graph."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional

from unbounded import kernels
from unbounded.layers.bound import BoundLayer, bound_layer
from unbounded.layers.fused import is_called
from unbounded.models import MemoryModel
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch
from unbounded.training.objective import LEFT_OUT
from unbounded.training.options import PhaseOptions

_SUM = 2  # torch's number for reduction="sum"


class BoundGradient:
    """What `loss.backward()` does for a model of one-hot symbols, in fewer calls.

    The same equations: up to rounding, and to the order of sums over several sequences.

    Args:
        model: one for which `bound_gradient` returns this.
        layer: the model's own, with its tensors in place.
        batch_size: B of every piece.
    """

    def __init__(self, model: SequenceModel, layer: BoundLayer, batch_size: int) -> None:
        self._output = model.output
        self._layer, self._batch_size = layer, batch_size
        self._bound_output = _bound_output(model)
        self._one_hot = torch.eye(model.input_vocabulary, dtype=model.output.weight.dtype)

    def fits(self, piece: Batch) -> bool:
        """Whether a piece has the batch size that this was made for."""
        return piece.inputs.shape[0] == self._batch_size

    @torch.no_grad()
    def step(self, piece: Batch, state: Any, scale: float) -> tuple[Tensor, Tensor, Any]:
        """Set the gradient of each parameter to that of the piece's summed loss times `scale`.

        Args:
            piece: B sequences of T symbols, of which one at least counts.
            state: in which it begins, as the model or an earlier call gave it; None begins anew.
        Returns:
            the summed loss in nats, the logits [T, B, V], and the state after the piece: always the
            same tensors.
        """
        layer = self._layer
        layer.take(state)
        hidden = layer.forward(functional.embedding(piece.inputs.t(), self._one_hot))
        nats, logits, grad = self._loss(hidden, piece, scale)
        layer.backward(grad)
        layer.go_on()
        return nats, logits, layer.state

    def _loss(self, hidden: Tensor, piece: Batch, scale: float) -> tuple[Tensor, Tensor, Tensor]:
        """The summed loss, the logits and the gradient [T, B, H]; sets those of `output`."""
        output = self._output
        if self._bound_output is not None:
            made = self._bound_output.run(hidden, piece.targets, piece.mask, scale)
            output.weight.grad = self._bound_output.grad_weight
            if output.bias is not None:
                output.bias.grad = self._bound_output.grad_bias
            return made
        flat = hidden.flatten(0, 1)
        logits = functional.linear(flat, output.weight, output.bias)
        chosen = piece.targets.masked_fill(~piece.mask, LEFT_OUT).t().flatten()
        chances = torch.log_softmax(logits, 1)
        aten = torch.ops.aten
        nats, count = aten.nll_loss_forward(chances, chosen, None, _SUM, LEFT_OUT)
        grad = aten.nll_loss_backward(
            nats.new_tensor(scale), chances, chosen, None, _SUM, LEFT_OUT, count
        )
        grad = aten._log_softmax_backward_data(grad, chances, 1, chances.dtype)
        output.weight.grad = grad.t() @ flat
        if output.bias is not None:
            output.bias.grad = grad.sum(dim=0)
        return (
            nats, logits.view(*hidden.shape[:2], -1), (grad @ output.weight).view_as(hidden)
        )  # fmt: skip


def _bound_output(model: SequenceModel) -> kernels.BoundOutput | None:
    """The output layer and its loss as one call; None where torch's operators are to be used.

    Of a large vocabulary torch's products are the faster ones.
    """
    output = model.output
    laid_out = all(each.is_contiguous() for each in output.parameters())
    if not laid_out or len(output.weight) > kernels.most_symbols():
        return None
    return kernels.BoundOutput(output.weight, output.bias)


def bound_gradient(
    model: nn.Module, accelerator: Accelerator, options: PhaseOptions, objective: str
) -> BoundGradient | None:
    """A `BoundGradient` of a model, where it gives what the graph would; None otherwise.

    Args:
        model: prepared by `accelerator`; it may be hardened or loaded, but not hooked into later.
    Anything that a forward or backward pass runs beside the library's own classes goes through the
    graph: subclasses, parametrizations, hooks of modules and of parameters.
    """
    if (
        accelerator.num_processes > 1
        or accelerator.mixed_precision != "no"
        or accelerator.gradient_accumulation_steps > 1
        or options.piece_steps is None
        or objective != "cross_entropy"
        or options.label_smoothing
        or options.prediction_clip
    ):
        return None
    if type(model) is not MemoryModel or type(model.sequence) is not SequenceModel:
        return None
    sequence = model.sequence
    if (
        not sequence.one_hot
        or sequence._looks_up
        or sequence.dropout
        or sequence.read_only_token is not None
        or type(sequence.output) is not nn.Linear
        or any(is_called(module) for module in model.modules())
        or any(_has_gradient_hooks(each) for each in model.parameters())
        or not all(each.requires_grad for each in sequence.output.parameters())
    ):
        return None
    layer = bound_layer(sequence.layer, options.batch_size)
    return None if layer is None else BoundGradient(sequence, layer, options.batch_size)


def _has_gradient_hooks(parameter: nn.Parameter) -> bool:
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)
