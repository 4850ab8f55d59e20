"""Choice of the backend for a call, the fused kernels or the reference; dtypes under autocast."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from unbounded import kernels
from unbounded.checks import check_choice
from unbounded.errors import BackendError, BackendWarning, say_once
from unbounded.replaced import replaced_method

BACKENDS = ("auto", "reference", "cpu", "cuda")


def kernel_of(memory: Any) -> kernels.Structure | None:
    """The kernels' declaration of a Memory, or None.

    Only exact types have one: a subclass may compute something else.
    """
    return memory.kernel if "kernel" in vars(type(memory)) else None


def why_no_kernel(memory: Any) -> str | None:
    """Why no kernel supports a Memory; None if one does."""
    if kernel_of(memory) is None:
        reason: str = memory.no_kernel
        return reason
    name = replaced_method(memory)
    if name is not None:
        return f"{type(memory).__name__}.{name} is replaced, which only the reference calls"
    return None


def negative_field(kernel: kernels.Structure, *groups: Any) -> str | None:
    """Name the field with a negative number, which the kernel cannot take; None if there is none.

    Args:
        groups: instructions and states. Nothing is checked while a graph is being captured.
    """
    if torch.compiler.is_compiling():
        return None
    for name in kernel.nonnegative:
        for group in groups:
            field = getattr(group, name, None)
            # An empty field needs no check, and a check synchronizes the device.
            if field is not None and field.numel() and bool((field < 0).any()):
                return f"the kernels take a {name} of at least 0"
    return None


def choose_backend(backend: str, what: str, reason: str | None, device: str) -> bool:
    """Choose between the fused kernel and the reference implementation.

    Args:
        backend: one of BACKENDS.
        what: the class that calls, for the message.
        reason: why the kernel cannot serve the call; None if it can.
        device: the type of the tensors' device.
    Returns:
        whether to take the kernel.
    Raises:
        BackendError: the kernels of the chosen device cannot serve the call, or kernels that the
            environment requires are missing.
    """
    if backend == "reference":
        return False
    if backend not in ("auto", device):
        reason = f"a tensor is on {device}"
    if reason is None:
        return True
    kernels.check_expected()
    if backend != "auto":
        raise BackendError(
            f"{what}: backend {backend!r} cannot serve this call: {reason}. "
            "Use backend='auto' or 'reference'."
        )
    if torch.compiler.is_dynamo_compiling():  # its graph cannot hold a warning
        return False
    say_once(
        f"{what} runs on the reference implementation path, which is slower: {reason}.",
        BackendWarning,
    )
    return False


def check_backend(backend: str) -> None:
    """Raise ChoiceError unless `backend` is one of BACKENDS."""
    check_choice("backend", backend, BACKENDS)


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
