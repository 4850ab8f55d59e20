"""Layers with parameters in half precision, which compute in float32.

Strengths and weights of a memory are sums of many small terms, which half precision would lose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import PackedSequence

from unbounded.checks import check_like
from unbounded.memories.core import move_state
from unbounded.rnn.state import MemoryRNNState

_HALF = (torch.float16, torch.bfloat16)


def is_half(tensor: Tensor) -> bool:
    """Whether a tensor is in half precision."""
    return tensor.dtype in _HALF


class _Forward(nn.Module):
    """A layer's `forward` without its hooks, which run around the outer call."""

    def __init__(self, layer: nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.run = layer, run

    def forward(self, *arguments: Any) -> Any:
        return self.run(*arguments)


def run_in_float32(
    layer: nn.Module, run: Callable[..., Any], x: Any, state: Any, lengths: Any, *others: Any
) -> Any:
    """Run a layer in half precision as one in float32.

    Args:
        run: a method of the layer that takes the remaining arguments, such as its `forward`.
        x: the layer's input, in the layer's dtype.
        others: further arguments of `run`.
    Returns:
        the layer's results: output and hidden state in its dtype, read vector and memory in
        float32.
    Raises:
        DTypeError: x has another dtype than the layer.
    """
    like = next(layer.parameters())
    data = x.data if isinstance(x, PackedSequence) else x
    if isinstance(data, Tensor):
        check_like("x", data, "the layer", like)
    state = None if state is None else move_state(state, dtype=torch.float32)
    weights = {f"layer.{name}": weight.float() for name, weight in layer.named_parameters()}
    buffers = [
        (f"layer.{name}", buffer) for name, buffer in layer.named_buffers() if is_half(buffer)
    ]
    weights |= {name: buffer.float() for name, buffer in buffers}
    arguments = (_float(x), state, lengths, *others)
    output, last, *trace = functional_call(
        _Forward(layer, run), weights, arguments, tie_weights=False
    )
    for name, buffer in buffers:
        if layer.training and _may_be_written(weights[name]):
            with torch.no_grad():
                buffer.copy_(weights[name])
    if isinstance(output, PackedSequence):
        output = output._replace(data=output.data.to(like.dtype))
    else:
        output = output.to(like.dtype)
    return (output, _with_half(last, like.dtype), *trace)


def _may_be_written(tensor: Tensor) -> bool:
    """Whether a new tensor may have been changed in place; True if torch counts no versions."""
    return torch.compiler.is_compiling() or tensor.is_inference() or tensor._version > 0


def _float(x: Any) -> Any:
    if isinstance(x, PackedSequence):
        return x._replace(data=x.data.float())
    return x.float() if isinstance(x, Tensor) else x


def _with_half(state: Any, dtype: torch.dtype) -> Any:
    if not isinstance(state, MemoryRNNState):
        return move_state(state, dtype=dtype)
    hidden, cell = move_state((state.hidden, state.cell), dtype=dtype)
    return state._replace(hidden=hidden, cell=cell)
