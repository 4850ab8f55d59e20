"""Run a layer a few steps at a time without gradients, as in generation."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from unbounded import kernels
from unbounded.memories.core import choose_backend
from unbounded.rnn.controllers import WeightedController
from unbounded.rnn.fused import flatten_state, fused_layer, is_called, why_not_fused
from unbounded.rnn.memory_layer import MemoryLayer
from unbounded.rnn.memory_rnn import MemoryRNN


class Stream(Protocol):
    """A layer with the carried state of a batch of sequences."""

    def run(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Run the next steps.

        Args:
            x: [B, T, I]; T may be 1.
            lengths: int64 [B] in 0..T; beyond it a sequence's state stays and its output is 0.
        Returns:
            outputs [B, T, O].
        """


class _LayerStream:
    """A stream for any batch-first layer, which makes one call after another."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer, self._state = layer, None

    @torch.no_grad()
    def run(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        output, self._state = self._layer(x, self._state, lengths)
        result: Tensor = output
        return result


class _FusedStream:
    """A stream for a MemoryLayer on the fused kernel.

    The time of a step depends only on the rows that it uses.
    """

    def __init__(self, layer: MemoryLayer, session: kernels.Session) -> None:
        self._layer, self._session = layer, session

    @torch.no_grad()
    def run(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        hidden, read_vectors = self._session.run(x.transpose(0, 1), lengths)
        seen = self._layer.seen(hidden, read_vectors)
        return self._layer.read_out(seen, lengths).transpose(0, 1)


def open_stream(layer: nn.Module, batch_size: int, like: Tensor) -> Stream:
    """Start `batch_size` sequences. A MemoryRNN uses the fused kernel if possible.

    The layer's weights must not change while the stream is used.

    Args:
        layer: a batch-first layer, forward(x, state, lengths) -> (output, state).
        like: a tensor of the dtype and device of the later inputs.
    """
    # Sessions run only on the CPU. Sessions bypass the layer's `forward` and its hooks.
    if not isinstance(layer, MemoryRNN) or len(layer.layers) > 1 or like.device.type != "cpu":
        return _LayerStream(layer)
    part = layer.only_layer()
    if is_called(layer) or is_called(part) or not isinstance(part.controller, WeightedController):
        return _LayerStream(layer)
    with torch.no_grad():
        state = part.initial_state(batch_size)
        reason = why_not_fused(part.controller, part.heads, part.memory, like, state)
        if choose_backend(layer.backend, type(layer).__name__, reason, like.device.type):
            loop = fused_layer(part.controller, part.heads, part.memory)
            return _FusedStream(part, loop.open_session(flatten_state(state)))
    return _LayerStream(layer)
