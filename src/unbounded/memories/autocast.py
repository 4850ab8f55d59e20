"""What torch.autocast asks of memories and layers, on any device."""

from __future__ import annotations

import contextlib

import torch


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype of autocast on a device; None where it is off or unknown there."""
    kind = device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Compute in the dtype of the tensors meanwhile.

    Strengths are sums of many small terms: half precision would lose them under autocast.
    """
    if autocast_dtype(device) is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
