"""Decided actions: how sharp they are, how to sharpen them, and the machine that takes the argmax.

What multiplies the weights of the actions multiplies what their softmax is of, since heads of
superposition memories have no biases. So nothing here is known to a memory or a kernel: a sharper
model is a model with other weights.

Source: Joulin & Mikolov 2015 (NIPS), section 3, "Rounding".
"""

from __future__ import annotations

import copy
import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.layers import MemoryRNN
from unbounded.memories import SuperpositionMemory
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch, pieces

ModelT = TypeVar("ModelT", bound=nn.Module)

#: The head that chooses among actions.
ACTION = "action"
#: In a discretized model the largest weight of an action is about 2 to this power: far enough from
#: 1 that any difference is more than an exponential can show, and far from float32's largest.
HARD_EXPONENT = 64


def superposition_layer(model: nn.Module) -> tuple[MemoryRNN, SuperpositionMemory[Any]]:
    """The layer of a model that has superposition stacks or lists, and these.

    Raises:
        ConfigError: there is none.
    """
    for module in model.modules():
        if isinstance(module, MemoryRNN) and isinstance(module.memory, SuperpositionMemory):
            return module, module.memory
    memories = [repr(m.memory) for m in model.modules() if isinstance(m, MemoryRNN)]
    raise ConfigError(
        [
            "model: expected one with superposition stacks or lists, such as that of "
            "--model.memory superposition_stack, got "
            f"{', '.join(memories) or 'one without a memory'}"
        ]
    )


def sequence_model(model: nn.Module) -> SequenceModel:
    """The SequenceModel that a model is or holds.

    Raises:
        ConfigError: there is none.
    """
    for module in model.modules():
        if isinstance(module, SequenceModel):
            return module
    raise ConfigError([f"model: expected a SequenceModel in it, got {type(model).__name__}"])


def scale_actions(model: nn.Module, factor: float) -> None:
    """Multiply the weights that choose the actions, in place.

    Args:
        model: has superposition stacks or lists.
        factor: above 0; more than 1 makes every action more decided.
    Raises:
        ConfigError: `factor` is not above 0 and finite, or the model has no such memory.
    """
    if not 0 < factor < math.inf:
        raise ConfigError([f"factor: expected a finite number above 0, got {factor!r}"])
    heads = superposition_layer(model)[0].heads
    with torch.no_grad():
        heads.weight[heads.rows(ACTION)] *= factor


def discretized(model: ModelT) -> ModelT:
    """A copy of a model that always takes the likeliest action, to the full weight.

    Its action weights are multiplied by a power of two so large that the softmax is one-hot. Such a
    scaling rounds nothing, so from the same hidden units the argmax is the model's own. Kernels and
    files need no change: a saved copy is a discrete machine wherever it is loaded.

    Where two actions are equal to the last bit, each keeps half of the weight, as `least_decided`
    shows. The copy is for evaluation in float32 or float64: float16 cannot hold its weights, and
    its parameters want no gradient. To discretize twice is to do it once.

    Args:
        model: has superposition stacks or lists; it stays as it is.
    Raises:
        ConfigError: the model has no such memory.
    Source: the authors' program, option -hard.
    """
    machine = copy.deepcopy(model).requires_grad_(False)
    heads = superposition_layer(machine)[0].heads
    _, exponent = math.frexp(float(heads.weight[heads.rows(ACTION)].abs().max()))
    scale_actions(machine, 2.0 ** (HARD_EXPONENT - exponent))
    return machine


def least_decided(
    model: nn.Module,
    batch: Batch,
    *,
    piece_steps: int = 1000,
    device: torch.device | str = "cpu",
) -> float:
    """The weight of the least decided action: over all steps and stacks, the least of the largest.

    Args:
        model: has superposition stacks or lists.
        batch: the streams to look at, run from empty memories to their ends.
        piece_steps: steps of one call of the layer.
        device: where the model is.
    Returns:
        1 over the number of actions to 1; 1 where every action is one-hot.
    Raises:
        ConfigError: the model has no such memory.
    """
    least = 1.0
    sequence = sequence_model(model)
    layer, _ = superposition_layer(model)
    if layer.readout is not None:
        raise ConfigError(["model: its layer must give its hidden units (output_size=None)"])
    ragged = bool((batch.lengths != batch.inputs.shape[1]).any())
    state = None
    with torch.no_grad():
        for piece in pieces(batch, piece_steps):
            lengths = piece.lengths.to(device)
            embedded = sequence.embed(piece.inputs.to(device))
            hidden, state = layer(embedded, state, lengths if ragged else None)
            there = torch.arange(hidden.shape[1], device=device) < lengths.unsqueeze(1)
            if bool(there.any()):
                actions: Tensor = layer.heads(hidden[there])[0]
                least = min(least, float(actions.amax(dim=-1).min()))
    return least
