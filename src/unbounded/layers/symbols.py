"""Symbols into a layer without making them one-hot: a look-up instead of a product over all words.

With x_t one-hot, U x_t is a column of U. A layer's step needs only these columns, so here they are
its input, and the identity stands where U stood: the same numbers for a fraction of the work when
there are many symbols. The layers know nothing of it but that their input is as wide as the matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from unbounded.errors import ConfigError
from unbounded.layers.controller_rnn import ControllerRNN
from unbounded.layers.controllers import WeightedController
from unbounded.layers.deep_lstm import DeepLSTM
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.srcn import SRCN


def input_weight_name(layer: nn.Module) -> str | None:
    """The name of the matrix whose first columns are a layer's symbols; None if unknown."""
    # Exact types: a subclass may use its weights in another way.
    if type(layer) in (MemoryRNN, ControllerRNN):
        is_known = isinstance(layer.controller, WeightedController) and (
            not isinstance(layer, MemoryRNN) or not layer.others
        )
        return "controller.weight_ih" if is_known else None
    if type(layer) is SRCN:
        return "weight_ih"
    if type(layer) is DeepLSTM and (layer.num_layers == 1 or not layer.skip_input):
        return "layers.0.weight_ih_l0"
    return None


def input_weight(layer: nn.Module) -> Tensor | None:
    """The matrix whose first columns are a layer's symbols, [rows, I + ...]; None if unknown."""
    name = input_weight_name(layer)
    try:
        return None if name is None else layer.get_parameter(name)
    except AttributeError:  # a parametrization has taken its place
        return None


def run_symbols(
    layer: nn.Module,
    symbols: Tensor,
    state: Any = None,
    lengths: Tensor | None = None,
    *,
    columns: Tensor | None = None,
) -> tuple[Tensor, Any]:
    """What a layer gives for one-hot symbols.

    Args:
        layer: MemoryRNN, ControllerRNN, SRCN or DeepLSTM, with `batch_first`.
        symbols: int64 [B, T] in 0..I-1.
        state, lengths: as for the layer.
        columns: in place of the layer's matrix [rows, I + R] those U of its columns that are in
            use, and the R behind the symbols, [rows, U + R]; `symbols` count in 0..U-1 then.
    Returns:
        the layer's outputs [B, T, O] and its state.
    Raises:
        ConfigError: the layer is none of these; give it one-hot vectors.
    """
    name = input_weight_name(layer)
    if name is None or not isinstance(layer, MemoryRNN | ControllerRNN | SRCN | DeepLSTM):
        raise ConfigError([f"layer: cannot look up symbols for {type(layer).__name__}"])
    weight = layer.get_parameter(name)
    matrix = weight if columns is None else columns
    size = matrix.shape[1] - (weight.shape[1] - layer.input_size)
    inputs, rest = _columns(matrix, size, symbols)
    identity = torch.eye(len(weight), dtype=weight.dtype, device=weight.device)
    narrow = {name: torch.cat([identity, rest], dim=1)}
    result: tuple[Tensor, Any] = functional_call(
        layer, narrow, (inputs, state, lengths), tie_weights=False
    )
    return result


def _columns(weight: Tensor, size: int, symbols: Tensor) -> tuple[Tensor, Tensor]:
    """The columns [B, T, rows] that symbols stand for, and those behind the first `size`.

    One node of the graph: the gradient of the matrix is put together once, not added up.
    """
    rest = weight.shape[1] - size
    if weight.is_cuda:
        # What index_select does backwards adds in no fixed order there, what embedding does in one.
        columns, others = weight.split([size, rest], dim=1)
        return F.embedding(symbols, columns.t()), others
    # Of an embedding of columns the gradient is laid out the other way around, and to turn that of
    # ten thousand words around takes longer than all else that a step does.
    behind = torch.arange(size, weight.shape[1], device=weight.device)
    chosen = weight.index_select(1, torch.cat([symbols.flatten(), behind]))
    columns, others = chosen.split([symbols.numel(), rest], dim=1)
    return columns.t().reshape(*symbols.shape, len(weight)), others
