"""Symbols into a layer without making them one-hot: a look-up instead of a product over all words.

With x_t one-hot, U x_t is a column of U. A layer's step needs only these columns, so here they are
its input, and the identity stands where U stood: the same numbers for a fraction of the work when
there are many symbols. The layers know nothing of it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.errors import ConfigError
from unbounded.layers.controller_rnn import ControllerRNN
from unbounded.layers.controllers import WeightedController
from unbounded.layers.deep_lstm import DeepLSTM
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.srcn import SRCN

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def input_weight(layer: nn.Module) -> Tensor | None:
    """The matrix whose first columns are a layer's symbols, [rows, I + ...]; None if unknown."""
    # Exact types: a subclass may use its weights in another way.
    if type(layer) in (MemoryRNN, ControllerRNN):
        controller = layer.controller
        return controller.weight_ih if isinstance(controller, WeightedController) else None
    if type(layer) is SRCN:
        return layer.weight_ih
    if type(layer) is DeepLSTM and (layer.num_layers == 1 or not layer.skip_input):
        return layer.layers[0].get_parameter("weight_ih_l0")
    return None


def run_symbols(
    layer: nn.Module, symbols: Tensor, state: Any = None, lengths: Tensor | None = None
) -> tuple[Tensor, Any]:
    """What a layer gives for one-hot symbols.

    Args:
        layer: MemoryRNN, ControllerRNN, SRCN or DeepLSTM, with `batch_first`.
        symbols: int64 [B, T] in 0..I-1.
        state, lengths: as for the layer.
    Returns:
        the layer's outputs [B, T, O] and its state.
    Raises:
        ConfigError: the layer is none of these; give it one-hot vectors.
    """
    weight = input_weight(layer)
    if weight is None or not isinstance(layer, MemoryRNN | ControllerRNN | SRCN | DeepLSTM):
        raise ConfigError([f"layer: cannot look up symbols for {type(layer).__name__}"])
    rows = len(weight)
    columns, rest = torch.tensor_split(weight, [layer.input_size], dim=1)
    narrow = torch.cat([torch.eye(rows, dtype=weight.dtype, device=weight.device), rest], dim=1)
    result: tuple[Tensor, Any] = _narrowed(layer, narrow, rows)(
        F.embedding(symbols, columns.t()), state, lengths
    )
    return result


def _narrowed(layer: nn.Module, weight: Tensor, rows: int) -> nn.Module:
    """The layer with another input matrix and input size; all else is shared with it."""
    if isinstance(layer, MemoryRNN | ControllerRNN):
        inner = _view(layer.controller, weight_ih=weight)
        return _view(layer, input_size=rows, _modules={**layer._modules, "controller": inner})
    if isinstance(layer, DeepLSTM):
        first = layer.layers[0]
        # nn.LSTM sees that the weight is another and gathers its weights anew.
        lstm = _view(first, input_size=rows, weight_ih_l0=weight)
        # A plain list: a ModuleList would take the first layer's place in the model.
        return _view(layer, input_size=rows, layers=[lstm, *layer.layers[1:]])
    return _view(layer, input_size=rows, weight_ih=weight)


def _view(module: ModuleT, **changed: Any) -> ModuleT:
    """A module that shares everything with another but a few attributes."""
    view = object.__new__(type(module))
    view.__dict__.update(module.__dict__)
    view.__dict__.update(changed)
    return view
