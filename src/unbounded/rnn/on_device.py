"""Move a model to a device, together with its choice of kernels."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from unbounded.rnn.baselines import PlainLayer
from unbounded.rnn.memory_rnn import MemoryRNN

ModelT = TypeVar("ModelT", bound=nn.Module)


def on_device(model: ModelT, device: torch.device) -> ModelT:
    """Move a model in place, as `Module.to` does, and return it.

    Args:
        model: its layers may require the kernels of one device (`backend`). A backend other than
            that of `device` becomes "auto".
        device: the target.
    """
    for module in model.modules():
        if isinstance(module, MemoryRNN | PlainLayer) and module.backend != "reference":
            module.backend = module.backend if module.backend == device.type else "auto"
    return model.to(device)
