"""Decisions made harder: sharper heads, and the machine whose every decision is made wholly.

And sharper units of the controller in front of them, for training alone: a machine's stay soft.

What multiplies the weights and biases of a head multiplies what its sigmoid or softmax is of. So
nothing here is known to a memory or a kernel: a harder model is a model with other weights. What is
a decision the memory declares (`unbounded.memories.Head`).

Source: Joulin & Mikolov 2015 (NIPS), section 3, "Rounding", for the actions of their stacks.
"""

from __future__ import annotations

import copy
import math
from typing import Any, TypeVar

import torch
from torch import nn

from unbounded.checks import check_module, number_faults
from unbounded.errors import ConfigError
from unbounded.layers import MemoryRNN
from unbounded.memories import SuperpositionMemory
from unbounded.models.sequence_model import SequenceModel

ModelT = TypeVar("ModelT", bound=nn.Module)

#: In a discretized model the largest weight of a decision is about 2 to this power: far enough from
#: 1 that any difference is more than an exponential can show, and far from float32's largest.
HARD_EXPONENT = 64


def deciding_layers(model: nn.Module) -> list[MemoryRNN]:
    """The layers of a model whose memories decide something; at least one.

    Raises:
        ConfigError: there is none.
    """
    check_module("model", model)
    layers = [module for module in model.modules() if isinstance(module, MemoryRNN)]
    found = [layer for layer in layers if any(head.can_harden for head in layer.memory.heads)]
    if not found:
        memories = ", ".join(repr(layer.memory) for layer in layers)
        raise ConfigError(
            [
                "model: expected a memory with heads that decide (Head.decision), such as push and "
                f"pop of --model.memory stack, got {memories or 'a model without a memory'}"
            ]
        )
    return found


def superposition_layer(model: nn.Module) -> tuple[MemoryRNN, SuperpositionMemory[Any]]:
    """The layer of a model that has superposition stacks or lists, and these.

    Raises:
        ConfigError: there is none.
    """
    check_module("model", model)
    for module in model.modules():
        if isinstance(module, MemoryRNN) and isinstance(module.memory, SuperpositionMemory):
            return module, module.memory
    memories = [repr(m.memory) for m in model.modules() if isinstance(m, MemoryRNN)]
    raise ConfigError(
        [
            "model: expected one with superposition stacks or lists, such as that of "
            "--model.memory superposition_stack, got "
            f"{', '.join(memories) or 'one without a memory'}. Memories of the library at work, "
            "step by step: unbounded explore RUN"
        ]
    )


def sequence_model(model: nn.Module) -> SequenceModel:
    """The SequenceModel that a model is or holds.

    Raises:
        ConfigError: there is none.
    """
    check_module("model", model)
    for module in model.modules():
        if isinstance(module, SequenceModel):
            return module
    raise ConfigError([f"model: expected a SequenceModel in it, got {type(model).__name__}"])


def sharpen(model: nn.Module, factor: float) -> None:
    """Multiply what decides in a model, weights and biases, in place.

    Args:
        model: has a memory with decisions.
        factor: above 0; more than 1 makes every decision a surer one.
    Raises:
        ConfigError: `factor` is not above 0 and finite, or the model has no such memory.
    """
    _check_factor(factor)
    with torch.no_grad():
        for layer in deciding_layers(model):
            for rows in _rows(layer):
                _scale(layer, rows, float(factor))


def sharpen_units(model: nn.Module, factor: float) -> None:
    """Multiply what the controllers in front of decisions sum up, weights and biases, in place.

    Units that are a sigmoid or tanh of a sum are nearer to their ends so, and gates surer;
    `discretized` leaves them as they are.

    Args:
        model: has a memory with decisions. Every parameter of its controllers is multiplied, once:
            it is meant for those of the library, whose units are of one affine map each.
        factor: above 0; more than 1 makes every unit a surer one.
    Raises:
        ConfigError: `factor` is not above 0 and finite, or the model has no such memory.
    """
    _check_factor(factor)
    with torch.no_grad():
        controllers = nn.ModuleList(layer.controller for layer in deciding_layers(model))
        for weight in controllers.parameters():  # one that two layers share is there once
            weight.mul_(float(factor))


def discretized(model: ModelT) -> ModelT:
    """A copy of a model that always takes the likelier choice, wholly.

    What decides is multiplied by a power of two so large that a sigmoid is 0 or 1 and a softmax
    one-hot. Such a scaling rounds nothing, so from the same hidden units the choice is the model's
    own. Kernels and files need no change: a saved copy is a discrete machine wherever it is loaded.

    Where two actions are equal to the last bit, each keeps half of the weight, as `least_decided`
    shows. The copy is for evaluation in float32 or float64: float16 cannot hold its weights, and
    its parameters want no gradient. To discretize twice is to do it once.

    Args:
        model: has a memory with decisions; it stays as it is.
    Raises:
        ConfigError: the model has no such memory.
    Source: the authors' program of Joulin & Mikolov 2015, option -hard.
    """
    deciding_layers(model)
    machine = copy.deepcopy(model).requires_grad_(False)
    for layer in deciding_layers(machine):
        for rows in _rows(layer):
            _, exponent = math.frexp(float(layer.heads.weight[rows].abs().max()))
            _scale(layer, rows, 2.0 ** (HARD_EXPONENT - exponent))
    return machine


def _rows(layer: MemoryRNN) -> list[slice]:
    """The rows of each head that can harden."""
    return [layer.heads.rows(head.name) for head in layer.memory.heads if head.can_harden]


def _scale(layer: MemoryRNN, rows: slice, factor: float) -> None:
    layer.heads.weight[rows] *= factor
    if layer.heads.bias is not None:
        layer.heads.bias[rows] *= factor


def _check_factor(factor: float) -> None:
    faults = number_faults("factor", factor, above=0)
    if faults:
        raise ConfigError(faults)
