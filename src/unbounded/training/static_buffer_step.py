"""Static-buffer gradient of a chunk. Torch's graph takes half of a small model's step."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional

from unbounded import kernels
from unbounded.models import MemoryModel
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn.fused import is_called
from unbounded.rnn.static_buffers import StaticBufferLayer, static_buffer_layer
from unbounded.tasks import Batch
from unbounded.training.objective import LEFT_OUT
from unbounded.training.options import PhaseOptions

_SUM = 2  # torch's number that represents reduction="sum"


class StaticGradient:
    """Computes the result of `loss.backward()` for a model of one-hot symbols, in fewer calls.

    The gradient equals the graph's gradient up to rounding and the order of sums over several
    sequences.

    Args:
        model: a model for which `static_gradient` returns this.
        layer: the model's layer with static buffers.
        batch_size: B of every chunk.
    """

    def __init__(self, model: SequenceModel, layer: StaticBufferLayer, batch_size: int) -> None:
        self._output = model.output
        self._layer, self._batch_size = layer, batch_size
        self._static_output = _static_output(model)
        self._one_hot = torch.eye(model.input_vocabulary, dtype=model.output.weight.dtype)

    def fits(self, chunk: Batch) -> bool:
        """Whether a chunk has the batch size of the buffers."""
        return chunk.inputs.shape[0] == self._batch_size

    @torch.no_grad()
    def step(self, chunk: Batch, state: Any, scale: float) -> tuple[Tensor, Tensor, Any]:
        """Set each parameter's gradient to `scale` times the gradient of the chunk's summed loss.

        Args:
            chunk: B sequences of T symbols, of which at least one counts.
            state: initial state, from the model or an earlier call; None is the initial state.
        Returns:
            the summed loss in nats, the logits [T, B, V], and the state after the chunk: always the
            same tensors.
        """
        layer = self._layer
        layer.set_state(state)
        hidden = layer.forward(functional.embedding(chunk.inputs.t(), self._one_hot))
        nats, logits, grad = self._loss(hidden, chunk, scale)
        layer.backward(grad)
        layer.advance()
        return nats, logits, layer.state

    def _loss(self, hidden: Tensor, chunk: Batch, scale: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return summed loss, logits and gradient [T, B, H], and set the gradients of `output`."""
        output = self._output
        if self._static_output is not None:
            result = self._static_output.run(hidden, chunk.targets, chunk.mask, scale)
            output.weight.grad = self._static_output.grad_weight
            if output.bias is not None:
                output.bias.grad = self._static_output.grad_bias
            return result
        flat = hidden.flatten(0, 1)
        logits = functional.linear(flat, output.weight, output.bias)
        chosen = chunk.targets.masked_fill(~chunk.mask, LEFT_OUT).t().flatten()
        log_probabilities = torch.log_softmax(logits, 1)
        aten = torch.ops.aten
        nats, count = aten.nll_loss_forward(log_probabilities, chosen, None, _SUM, LEFT_OUT)
        grad = aten.nll_loss_backward(
            nats.new_tensor(scale), log_probabilities, chosen, None, _SUM, LEFT_OUT, count
        )
        grad = aten._log_softmax_backward_data(grad, log_probabilities, 1, log_probabilities.dtype)
        output.weight.grad = grad.t() @ flat
        if output.bias is not None:
            output.bias.grad = grad.sum(dim=0)
        return (
            nats, logits.view(*hidden.shape[:2], -1), (grad @ output.weight).view_as(hidden)
        )  # fmt: skip


def _static_output(model: SequenceModel) -> kernels.StaticOutput | None:
    """Make one call for the output layer and its loss; None if torch's operators are faster.

    Torch's operators are faster for a large vocabulary.
    """
    output = model.output
    is_contiguous = all(each.is_contiguous() for each in output.parameters())
    if not is_contiguous or len(output.weight) > kernels.most_symbols():
        return None
    return kernels.StaticOutput(output.weight, output.bias)


def static_gradient(
    model: nn.Module, accelerator: Accelerator, options: PhaseOptions, objective: str
) -> StaticGradient | None:
    """Return a `StaticGradient` for a model if it equals torch's graph, otherwise None.

    Models with subclasses, parametrizations or hooks of modules or parameters use the graph.

    Args:
        model: prepared by `accelerator`. The model may be hardened or loaded later, but hooks must
            not be added to it.
    """
    if (
        accelerator.num_processes > 1
        or accelerator.mixed_precision != "no"
        or accelerator.gradient_accumulation_steps > 1
        or options.chunk_steps is None
        or objective != "cross_entropy"
        or options.label_smoothing
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
    layer = static_buffer_layer(sequence.layer, options.batch_size)
    return None if layer is None else StaticGradient(sequence, layer, options.batch_size)


def _has_gradient_hooks(parameter: nn.Parameter) -> bool:
    return bool(parameter._backward_hooks or parameter._post_accumulate_grad_hooks)
