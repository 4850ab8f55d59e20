"""Clipping the error signals inside a recurrence, instead of the gradient of the weights.

Source: the authors' program of Joulin & Mikolov 2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.layers.controller_rnn import ControllerRNN
from unbounded.layers.memory_rnn import MemoryRNN


def clip_error_signals(model: nn.Module, bound: float = 15.0) -> Callable[[], None]:
    """Cut each element of the error signals of every step to -bound..bound, from now on.

    These are the derivatives of the loss by what a step computes: the controller's state, the
    fields of the instruction (actions and values), and the reading that the controller sees. They
    are cut where they arise, step by step backwards, as in the authors' program; there the sum of
    the errors in each cell of a stack is cut as well, which is left alone here.

    Kernels know nothing of it, so a model that has it runs on the reference path. The program's
    errors are those of single symbols: where a loss is divided by the number of its tokens, so
    must be the bound.

    Args:
        model: has MemoryRNN or ControllerRNN layers.
        bound: above 0; 15 in the paper.
    Returns:
        what takes the clipping away again when called.
    Raises:
        ConfigError: `bound` is not above 0 and finite, or the model has no such layer.
    """
    layers = [each for each in model.modules() if isinstance(each, MemoryRNN | ControllerRNN)]
    faults = []
    if not 0 < bound < math.inf:
        faults.append(f"bound: expected a finite number above 0, got {bound!r}")
    if not layers:
        faults.append("model: expected a MemoryRNN or ControllerRNN in it, and found none")
    if faults:
        raise ConfigError(faults)

    def clip(tensor: Tensor) -> None:
        if tensor.requires_grad:
            tensor.register_hook(lambda error: error.clamp(-bound, bound))

    def clip_inputs(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        clip(arguments[0])

    def clip_outputs(module: nn.Module, arguments: tuple[Any, ...], outputs: Any) -> None:
        for output in outputs:
            clip(output)

    handles = []
    for layer in layers:
        handles.append(layer.controller.register_forward_pre_hook(clip_inputs))
        handles.append(layer.controller.register_forward_hook(clip_outputs))
        if isinstance(layer, MemoryRNN):
            handles.append(layer.heads.register_forward_hook(clip_outputs))

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return remove
