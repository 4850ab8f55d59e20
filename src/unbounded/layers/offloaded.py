"""Weights that accelerate offloads between the calls of their modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def as_called(module: nn.Module, weight: Tensor) -> Tensor:
    """A tensor with the dtype and device of a module's weight during a call.

    accelerate.cpu_offload leaves weights on the meta device, and its hooks load them for a call.

    Args:
        weight: of the module; returned unchanged unless hooks offload it.
    """
    if not weight.is_meta:
        return weight
    hook: Any = vars(module).get("_hf_hook")
    for hook_part in (
        hook,
        *getattr(hook, "hooks", ()),
    ):  # accelerate.hooks.SequentialHook has `hooks`
        device = getattr(hook_part, "execution_device", None)
        if device is not None:
            return torch.empty(0, dtype=weight.dtype, device=device)
    return weight
