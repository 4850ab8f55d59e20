"""A model moved to a device, with kernels that serve there."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.plain_layer import PlainLayer

ModelT = TypeVar("ModelT", bound=nn.Module)


def on_device(model: ModelT, device: torch.device) -> ModelT:
    """Move a model, as `Module.to` does: the model itself.

    Args:
        model: whose layers may ask for the kernels of one device (`backend`); of another one than
            `device` these are "auto" then.
        device: where to.
    """
    for module in model.modules():
        if isinstance(module, MemoryRNN | PlainLayer) and module.backend != "reference":
            module.backend = module.backend if module.backend == device.type else "auto"
    return model.to(device)
