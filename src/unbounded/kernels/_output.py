"""The output layer of a small vocabulary with its cross entropy, on static buffers.

Next to `StaticRecurrence`, torch's separate calls for it are most of a small network's training
step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unbounded.errors import DTypeError, ShapeError
from unbounded.kernels._call import OutputCall
from unbounded.kernels._checks import check_dtype, require
from unbounded.kernels._library import most_symbols, run_output_loss


class OutputResult(NamedTuple):
    """Result of `StaticOutput.run`.

    Fields:
        nats: the summed cross entropy where the mask is True; one number.
        logits: [T, B, V].
        grad_outputs: [T, B, H], gradient of the sum times the scale.
    """

    nats: Tensor
    logits: Tensor
    grad_outputs: Tensor


class StaticOutput:
    """logits = weight h + bias and their summed cross entropy, forward and backward at once.

    Args:
        weight: [V, H], V at most `most_symbols()`; on the CPU, float32 or float64, contiguous. Each
            call reads it in place.
        bias: [V], likewise, or None.
    Fields:
        grad_weight, grad_bias: of the last call, always the same tensors; None without a bias.
    Raises:
        ShapeError, DTypeError: there are more symbols, or the bias disagrees with the weight.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        symbols, hidden = weight.shape
        if symbols > most_symbols():
            raise ShapeError(f"weight: expected at most {most_symbols()} symbols, got {symbols}.")
        check_dtype("weight", weight)
        require({"weight": weight}, {"weight": (symbols, hidden)}, weight)
        if bias is not None:
            require({"bias": bias}, {"bias": (symbols,)}, weight)
        self.grad_weight = torch.empty_like(weight)
        self.grad_bias = None if bias is None else torch.empty_like(bias)
        self._call = call = OutputCall(hidden=hidden, symbols=symbols)
        call.weight, call.grad_weight = weight.data_ptr(), self.grad_weight.data_ptr()
        if bias is not None and self.grad_bias is not None:
            call.bias, call.grad_bias = bias.data_ptr(), self.grad_bias.data_ptr()
        self._weight, self._bias = weight, bias  # a call holds addresses, not tensors

    def run(self, outputs: Tensor, targets: Tensor, mask: Tensor, scale: float) -> OutputResult:
        """Compute the summed loss and its gradients times `scale`.

        Args:
            outputs: h of every step, [T, B, H], contiguous.
            targets: [B, T] of symbols 0 to V - 1 where the mask is True; int64.
            mask: [B, T], the steps that count; bool.
        Raises:
            ShapeError, DTypeError: a tensor disagrees with the others.
            IndexError: a target under the mask is no symbol.
        """
        call = self._call
        steps, batch = outputs.shape[:2]
        require({"outputs": outputs}, {"outputs": (steps, batch, call.hidden)}, self._weight)
        if targets.shape != (batch, steps) or mask.shape != (batch, steps):
            raise ShapeError(
                f"targets, mask: expected [{batch}, {steps}], got {list(targets.shape)} and "
                f"{list(mask.shape)}."
            )
        if targets.dtype != torch.int64 or mask.dtype != torch.bool:
            raise DTypeError(
                f"targets, mask: expected int64 and bool, got {targets.dtype} and {mask.dtype}."
            )
        result = OutputResult(
            outputs.new_empty(()),
            outputs.new_empty(steps, batch, call.symbols),
            torch.empty_like(outputs),
        )
        call.steps, call.batch, call.scale = steps, batch, scale
        call.target_strides[:] = targets.stride()
        call.mask_strides[:] = mask.stride()
        call.outputs, call.targets, call.mask = (
            tensor.data_ptr() for tensor in (outputs, targets, mask)
        )
        call.nats, call.logits, call.grad_outputs = (tensor.data_ptr() for tensor in result)
        run_output_loss(outputs.element_size(), call)
        return result
