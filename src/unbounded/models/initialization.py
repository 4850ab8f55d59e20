"""First weights that belong to a paper rather than to a kind of layer."""

from __future__ import annotations

import math

import torch
from torch import nn

from unbounded.errors import ConfigError
from unbounded.layers.controllers import WeightedController
from unbounded.layers.heads import Heads
from unbounded.layers.initial_memory import InitialMemory

#: How the matrices of a transduction model begin: as its layers draw them, or as PyTorch's would.
INITIALIZATIONS = ("glorot", "torch")
#: How its output embedding begins: N(0, 1) as torch.nn.Embedding, or as torch.nn.Linear.
OUTPUT_INITIALIZATIONS = ("normal", "torch")
#: How the columns of a stream model's one-hot symbols begin: as the rest of the model does, or as
#: those of torch.nn.Embedding, from N(0, 1).
SYMBOL_INITIALIZATIONS = ("as_model", "normal")


def draw_as_torch(module: nn.Module) -> None:
    """Draw the weights of controllers, heads and readouts as torch.nn.LSTM and Linear draw theirs.

    Every number is uniform in +-1/sqrt(hidden size), the forget gate's bias too; initial states and
    the biases that heads declare stay as they are.

    Args:
        module: whose parts are drawn, in their order, from torch's generator.
    """
    for part in module.modules():
        if isinstance(part, WeightedController | nn.LSTM):
            bound = 1 / math.sqrt(part.hidden_size)
            for parameter in part.parameters():
                if parameter.requires_grad:
                    nn.init.uniform_(parameter, -bound, bound)
        elif isinstance(part, Heads):
            bound = 1 / math.sqrt(part.weight.shape[1])
            nn.init.uniform_(part.weight, -bound, bound)
        elif isinstance(part, nn.Linear):
            part.reset_parameters()


def draw_sums(module: nn.Module, bound: float = 0.1, terms: int = 3) -> None:
    """Draw each entry of each parameter as a sum of uniform numbers, nearly N(0, terms bound^2/3).

    How a memory begins is drawn by the rule that it declares, and stays.

    Args:
        module: whose parameters are drawn, in their order, from torch's generator.
        bound: each term is uniform in (-bound, bound); above 0.
        terms: how many, at least 1. With 3 of 0.1 it is the first weights of the authors' program.
    Raises:
        ConfigError: `bound` or `terms` is out of range.
    Source: the authors' program of Joulin & Mikolov 2015.
    """
    faults = []
    if not bound > 0:
        faults.append(f"bound: expected a number above 0, got {bound!r}")
    if terms < 1:
        faults.append(f"terms: expected an integer >= 1, got {terms!r}")
    if faults:
        raise ConfigError(faults)
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
            drawn = torch.rand(terms, *parameter.shape, dtype=parameter.dtype)
            parameter.copy_((bound * (2 * drawn - 1)).sum(dim=0))
