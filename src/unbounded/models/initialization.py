"""Initializations that belong to a paper instead of a kind of layer."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.models.sequence_model import SequenceModel, TiedLinear
from unbounded.rnn import MemoryLayer
from unbounded.rnn.baselines import LSTMLayer
from unbounded.rnn.blocks import BlockNetwork
from unbounded.rnn.controllers import (
    ElmanController,
    GRUController,
    LSTMController,
    WeightedController,
)
from unbounded.rnn.heads import Heads
from unbounded.rnn.initial_values import InitialMemory
from unbounded.rnn.symbols import input_weight

#: Initialization of a model's layer. "glorot" is the layer's default and "torch" the default of
#: PyTorch; "sums" adds random numbers; "glorot_parts" is a Glorot draw for each kind of input and
#: each head, with biases of 0.
INITIALIZATIONS = ("glorot", "torch", "sums", "glorot_parts")
#: Initialization of the output embedding. "normal" is N(0, 1), as in torch.nn.Embedding; "torch" is
#: the default of torch.nn.Linear; "sums" adds random numbers; "glorot" is a Glorot draw with biases
#: of 0; "small_normal" is N(0, 0.3^2), the draw of "normal" multiplied by SMALL.
OUTPUT_INITIALIZATIONS = ("normal", "torch", "sums", "glorot", "small_normal")
SMALL: Final = 0.3
#: Initialization of the columns of one-hot symbols. "as_model" keeps the initialization of the
#: layer, "normal" is N(0, 1), as in torch.nn.Embedding, and "sums" adds random numbers. Embeddings
#: keep torch's default, or use "sums".
SYMBOL_INITIALIZATIONS = ("as_model", "normal", "sums")


def initialize(model: SequenceModel, layer: str, output: str, symbols: str) -> None:
    """Reinitialize a new model from torch's generator, starting with the layer.

    Args:
        model: newly created; unchanged parts keep their draw.
        layer: one of INITIALIZATIONS. Layers with gates (LSTM, GRU) and networks of blocks
            (Transformer, DeltaNet) keep their default at "sums" and "glorot_parts".
        output: one of OUTPUT_INITIALIZATIONS.
        symbols: one of SYMBOL_INITIALIZATIONS.
    Raises:
        ConfigError: symbols are to be drawn, but the layer's columns for them are unknown.
    """
    if model.output.weight.is_meta:  # created only for its sizes and errors (without_weights)
        if symbols != "as_model":
            _symbols_of(model)
        return
    if layer == "torch":
        draw_as_torch(model.layer)
    if layer == "sums" and not _keeps_default(model.layer):
        draw_sums(model.layer)
    if layer == "glorot_parts":
        draw_parts(model.layer)
    if output == "torch":
        model.output.reset_parameters()
    if output == "sums":
        if isinstance(model.output, TiedLinear):
            drawn = model.output.weight.detach()
            drawn.copy_(_sum_of_uniform(drawn, bound=0.1, terms=3))
        draw_sums(model.output)
    if output == "glorot":
        nn.init.xavier_uniform_(model.output.weight)
        if model.output.bias is not None:
            nn.init.zeros_(model.output.bias)
    if output == "small_normal":
        model.output.weight.detach().mul_(SMALL)
    if symbols != "as_model":
        drawn = _symbols_of(model)
        if symbols == "normal":
            nn.init.normal_(drawn)
        else:
            drawn.copy_(_sum_of_uniform(drawn, bound=0.1, terms=3))


def _symbols_of(model: SequenceModel) -> Tensor:
    """The weights of symbols, which are embeddings or the input columns of one-hot symbols."""
    if model.embedding is not None:
        return model.embedding.weight.detach()
    weight = input_weight(model.layer)
    if weight is None:
        raise ConfigError(
            "symbol_initialization: the columns of this layer's symbols are unknown (a deep "
            "LSTM with skip_input has them in each layer); leave it at 'as_model', or give "
            "embeddings"
        )
    return weight.detach()[:, : model.input_vocabulary]


def _keeps_default(layer: nn.Module) -> bool:
    kinds = LSTMLayer | LSTMController | GRUController | BlockNetwork
    return any(isinstance(part, kinds) for part in layer.modules())


def draw_as_torch(module: nn.Module) -> None:
    """Draw the weights of controllers, heads and readouts like torch.nn.LSTM and Linear.

    Every number is uniform in +-1/sqrt(hidden size), including the forget gate's bias. Initial
    states, and biases that heads declare, are not changed.

    Args:
        module: its parts are drawn in order, from torch's generator.
    """
    for part in module.modules():
        if isinstance(part, WeightedController | LSTMLayer):
            bound = 1 / math.sqrt(part.hidden_size)
            for parameter in part.parameters():
                if parameter.requires_grad:
                    nn.init.uniform_(parameter, -bound, bound)
        elif isinstance(part, Heads):
            bound = 1 / math.sqrt(part.weight.shape[1])
            nn.init.uniform_(part.weight, -bound, bound)
        elif isinstance(part, nn.Linear):
            part.reset_parameters()


def draw_parts(module: nn.Module) -> None:
    """Draw the parts of Elman controllers and heads from Glorot's distribution, with biases of 0.

    The parts of a controller are the columns of its input, the columns of the read vector, and its
    recurrence. Each head is a part. Biases that a head declares are kept.

    Args:
        module: its MemoryLayers are drawn in order, from torch's generator. Controllers with gates
            stay as they are.
    Source: the program of Deleu & Dureau 2016, in which each part is a separate layer.
    """
    for part in module.modules():
        if not isinstance(part, MemoryLayer):
            continue
        if isinstance(part.controller, ElmanController):
            weights = part.controller.weights
            read_vector = part.memory.read_vector_size
            split = [weights.weight_ih.shape[1] - read_vector, read_vector]
            for columns in weights.weight_ih.detach().split(split, dim=1):
                nn.init.xavier_uniform_(columns)
            if weights.weight_hh is not None:
                nn.init.xavier_uniform_(weights.weight_hh)
            for bias in (weights.bias_ih, weights.bias_hh):
                if bias is not None:
                    nn.init.zeros_(bias)
        for head in part.heads.heads:
            rows = part.heads.rows(head.name)
            nn.init.xavier_uniform_(part.heads.weight.detach()[rows])
            if part.heads.bias is not None:
                biases = part.heads.bias.detach()[rows]
                nn.init.zeros_(biases)
                head.set_initial_biases(biases)


def _sum_of_uniform(like: Tensor, bound: float, terms: int) -> Tensor:
    drawn = torch.rand(terms, *like.shape, dtype=like.dtype)
    return (bound * (2 * drawn - 1)).sum(dim=0)


def draw_sums(module: nn.Module, bound: float = 0.1, terms: int = 3) -> None:
    """Draw each entry of each parameter as a sum of uniform numbers, about N(0, terms bound^2/3).

    Learned initial values of a memory are still drawn by their declared rule.

    Args:
        module: its parameters are drawn in order, from torch's generator.
        bound: each term is uniform in (-bound, bound); above 0.
        terms: number of terms, at least 1. The authors' program has 3 terms with bound 0.1.
    Raises:
        ConfigError: `bound` or `terms` is out of range.
    Source: the authors' program of Joulin & Mikolov 2015.
    """
    errors = []
    if not bound > 0:
        errors.append(f"bound: expected a number above 0, got {bound!r}")
    if terms < 1:
        errors.append(f"terms: expected an integer >= 1, got {terms!r}")
    if errors:
        raise ConfigError(errors)
    declared = {
        id(parameter)
        for part in module.modules()
        if isinstance(part, InitialMemory)
        for parameter in part.parameters()
    }
    with torch.no_grad():
        for parameter in module.parameters():
            if id(parameter) in declared:
                continue
            parameter.copy_(_sum_of_uniform(parameter, bound=bound, terms=terms))
    # A head's single bias is drawn too, as in the program, but several declared biases are kept.
    for part in module.modules():
        if isinstance(part, Heads) and part.bias is not None:
            for head in part.heads:
                if isinstance(head.bias, tuple):
                    head.set_initial_biases(part.bias.detach()[part.rows(head.name)])
