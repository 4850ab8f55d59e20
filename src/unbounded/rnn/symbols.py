"""Run layers on symbols without one-hot vectors, by a lookup instead of a product.

With x_t one-hot, U x_t is a column of U. The columns of U become the layer's input, and the
identity replaces U. The results are equal, with much less work for large vocabularies. For the
layers, the only difference is that the input size is the number of the matrix's rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from unbounded.errors import ConfigError
from unbounded.rnn.baselines import SRCN, ControllerRNN, DeepLSTM
from unbounded.rnn.blocks import BlockNetwork
from unbounded.rnn.controllers import WeightedController
from unbounded.rnn.memory_rnn import MemoryRNN


def input_weight_name(layer: nn.Module) -> str | None:
    """Name of the matrix whose first columns belong to a layer's symbols; None if unknown."""
    # Only these exact types are supported, because a subclass may use its weights differently.
    if type(layer) is ControllerRNN:
        return "controller.weight_ih" if _has_weights(layer.controller) else None
    if type(layer) is MemoryRNN:
        is_known = len(layer.layers) == 1 and _has_weights(layer.only_layer().controller)
        return "layers.0.controller.weight_ih" if is_known else None
    if type(layer) is SRCN:
        return "weight_ih"
    if type(layer) is DeepLSTM and (layer.num_layers == 1 or not layer.skip_input):
        return "layers.0.weight_ih_l0"
    if isinstance(layer, BlockNetwork) and type(layer).__module__.startswith("unbounded."):
        return "inputs.weight"
    return None


def _has_weights(controller: nn.Module) -> bool:
    return isinstance(controller, WeightedController)


def input_weight(layer: nn.Module) -> Tensor | None:
    """The matrix [rows, I + ...] whose first columns belong to a layer's symbols, or None."""
    name = input_weight_name(layer)
    try:
        return None if name is None else layer.get_parameter(name)
    except AttributeError:  # a parametrization has replaced it
        return None


def run_symbols(
    layer: nn.Module,
    symbols: Tensor,
    state: Any = None,
    lengths: Tensor | None = None,
    *,
    columns: Tensor | None = None,
) -> tuple[Tensor, Any]:
    """Compute a layer's output for one-hot symbols.

    Args:
        layer: MemoryRNN, ControllerRNN, SRCN, DeepLSTM or BlockNetwork, with `batch_first`.
        symbols: int64 [B, T] in 0..I-1.
        state, lengths: as for the layer.
        columns: replaces the layer's matrix [rows, I + R] by the U of its columns that are in use
            and the R after the symbols, [rows, U + R]; `symbols` are then in 0..U-1.
    Returns:
        the layer's outputs [B, T, O] and its state.
    Raises:
        ConfigError: another layer, which needs one-hot vectors.
    """
    name = input_weight_name(layer)
    known = MemoryRNN | ControllerRNN | SRCN | DeepLSTM | BlockNetwork
    if name is None or not isinstance(layer, known):
        raise ConfigError(f"layer: cannot look up symbols for {type(layer).__name__}")
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
    """The columns [B, T, rows] of the symbols, and the columns after the first `size`.

    Both are one node of the graph, so that the gradient of the matrix is assembled once.
    """
    rest = weight.shape[1] - size
    if weight.is_cuda:
        # On CUDA, the backward pass of index_select adds in no fixed order. The backward pass of
        # embedding adds in a fixed order.
        columns, others = weight.split([size, rest], dim=1)
        return F.embedding(symbols, columns.t()), others
    # The gradient of an embedding of columns has the transposed layout; with ten thousand words,
    # transposing it takes longer than the rest of a step.
    after = torch.arange(size, weight.shape[1], device=weight.device)
    chosen = weight.index_select(1, torch.cat([symbols.flatten(), after]))
    columns, others = chosen.split([symbols.numel(), rest], dim=1)
    return columns.t().reshape(*symbols.shape, len(weight)), others
