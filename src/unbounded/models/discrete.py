"""Hardening: raise the inverse temperature of the gates, and make a model with gates 0 or 1.

During training the inputs of the controller's units can be scaled too. The units of a hardened
model stay soft.

Multiplying the weights and biases of a head by a factor multiplies the logits of its sigmoid or
softmax. Memories and kernels need no change: a hardened model is the same model with other weights.
The memory declares its gates (`unbounded.memories.Head`).

Source: Joulin & Mikolov 2015 (NIPS), section 3, "Rounding", for the actions of their stacks.
"""

from __future__ import annotations

import copy
import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from unbounded.checks import check_module, number_errors
from unbounded.errors import ConfigError
from unbounded.memories import SuperpositionMemory
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn import MemoryAttention, MemoryLayer

ModelT = TypeVar("ModelT", bound=nn.Module)

#: In a hardened model the largest weight of a gate is about 2 to this power. With such a weight,
#: the gate's distance from 0 or 1 underflows, but the weight is far below float32's largest number.
HARD_EXPONENT = 64


def deciding_layers(model: nn.Module) -> list[MemoryLayer]:
    """The layers of a model whose memories have gates. At least one layer is returned.

    Raises:
        ConfigError: there is none.
    """
    check_module("model", model)
    layers = [module for module in model.modules() if isinstance(module, MemoryLayer)]
    with_gates = [layer for layer in layers if any(head.can_harden for head in layer.memory.heads)]
    if not with_gates:
        raise ConfigError(
            "model: expected a memory with gates (Head.gate), such as push and "
            f"pop of --model.memory stack, got {_memories(model)}"
        )
    return with_gates


def superposition_layer(model: nn.Module) -> tuple[MemoryLayer, SuperpositionMemory[Any]]:
    """The layer of a model with superposition stacks or lists, and its memory.

    Raises:
        ConfigError: there is none.
    """
    check_module("model", model)
    for module in model.modules():
        if isinstance(module, MemoryLayer) and isinstance(module.memory, SuperpositionMemory):
            return module, module.memory
    raise ConfigError(
        "model: expected one with superposition stacks or lists, such as that of "
        f"--model.memory superposition_stack, got {_memories(model)}. unbounded explore RUN shows "
        "other memories step by step"
    )


def sequence_model(model: nn.Module) -> SequenceModel:
    """Return the SequenceModel that a model is or contains.

    Raises:
        ConfigError: there is none.
    """
    check_module("model", model)
    for module in model.modules():
        if isinstance(module, SequenceModel):
            return module
    raise ConfigError(f"model: expected a SequenceModel in it, got {type(model).__name__}")


def sharpen(model: nn.Module, factor: float) -> None:
    """Multiply the weights and biases of a model's gates, in place.

    Args:
        model: has a memory with gates.
        factor: above 0; above 1 brings every gate closer to saturation.
    Raises:
        ConfigError: `factor` is not above 0 and finite, or the model has no such memory.
    """
    _check_factor(factor)
    with torch.no_grad():
        for layer in deciding_layers(model):
            for rows in _rows(layer):
                _scale(layer, rows, float(factor))


def gate_biases(model: nn.Module) -> list[Tensor]:
    """The biases of a model's gates, as a view [G] for each head with biases, without a graph.

    Args:
        model: has a memory with gates. The heads of superposition stacks and lists have no biases.
    Raises:
        ConfigError: the model has no such memory.
    """
    return [
        layer.heads.bias.detach()[rows]
        for layer in deciding_layers(model)
        if layer.heads.bias is not None
        for rows in _rows(layer)
    ]


def sharpen_units(model: nn.Module, factor: float) -> None:
    """Multiply the weights and biases of the controllers that drive the gates, in place.

    Units that are a sigmoid or tanh of a sum come closer to saturation, and so do the gates.
    `discretized` does not change the units.

    Args:
        model: has a memory with gates. Every parameter of its controllers is multiplied once, which
            suits the library's controllers, whose units are one affine map each.
        factor: above 0; above 1 brings every unit closer to saturation.
    Raises:
        ConfigError: `factor` is not above 0 and finite, or the model has no such memory.
    """
    _check_factor(factor)
    with torch.no_grad():
        controllers = nn.ModuleList(layer.controller for layer in deciding_layers(model))
        for weight in controllers.parameters():  # a shared parameter occurs once
            weight.mul_(float(factor))


def discretized(model: ModelT) -> ModelT:
    """Return the hardened model, a copy of a model whose gates fully select the likeliest choice.

    The logits of gates are multiplied by a power of two that is so large that a sigmoid becomes 0
    or 1, and a softmax one-hot. A power of two causes no rounding error, so with equal hidden units
    the original model makes the same choice. Kernels and files need no change, because a saved copy
    is hardened wherever it is loaded.

    Two actions with exactly equal logits keep half of the weight each, as `least_saturated` shows.
    The copy is for evaluation in float32 or float64, because float16 cannot represent its weights.
    The copy's parameters require no gradient. The operation is idempotent.

    Args:
        model: has a memory with gates; stays unchanged.
    Raises:
        ConfigError: the model has no such memory.
    Source: the program of Joulin & Mikolov 2015, option -hard.
    """
    deciding_layers(model)
    hardened = copy.deepcopy(model).requires_grad_(False)
    for layer in deciding_layers(hardened):
        for rows in _rows(layer):
            _, exponent = math.frexp(float(layer.heads.weight[rows].abs().max()))
            _scale(layer, rows, 2.0 ** (HARD_EXPONENT - exponent))
    return hardened


def _memories(model: nn.Module) -> str:
    """The memories of a model, for messages."""
    if any(isinstance(module, MemoryAttention) for module in model.modules()):
        return "the memory of a Transformer, whose gates cannot be hardened or discretized"
    memories = [repr(m.memory) for m in model.modules() if isinstance(m, MemoryLayer)]
    return ", ".join(memories) or "a model without a memory"


def _rows(layer: MemoryLayer) -> list[slice]:
    """Yield the rows of each head with gates."""
    return [layer.heads.rows(head.name) for head in layer.memory.heads if head.can_harden]


def _scale(layer: MemoryLayer, rows: slice, factor: float) -> None:
    layer.heads.weight[rows] *= factor
    if layer.heads.bias is not None:
        layer.heads.bias[rows] *= factor


def _check_factor(factor: float) -> None:
    errors = number_errors("factor", factor, above=0)
    if errors:
        raise ConfigError(errors)
