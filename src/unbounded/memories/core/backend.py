"""Choose fused kernels or reference for a call, and handle dtypes under autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.checks import check_choice
from unbounded.errors import BackendError, BackendWarning, say_once

BACKENDS = ("auto", "reference", "cpu", "cuda")


class FusedKernels(NamedTuple):
    """The functions that the fused kernels provide for a memory.

    Fields:
        why_not_unroll: why they cannot serve an unroll, from the memory, its instructions and its
            state; None if they can.
        unroll: read vectors and final state, from the same arguments and the reference, for
            gradients that no kernel has.
        check_expected: raises BackendError if the environment requires kernels that are missing.
    """

    why_not_unroll: Callable[[Any, tuple[Tensor, ...], tuple[Tensor, ...]], str | None]
    unroll: Callable[..., tuple[Tensor, tuple[Tensor, ...]]]
    check_expected: Callable[[], None]


_registered: list[FusedKernels] = []


def register_kernels(kernels: FusedKernels) -> None:
    """Set the kernels that `Memory.unroll` uses. `unbounded.kernels` calls this when imported."""
    _registered.append(kernels)


def fused_kernels() -> FusedKernels:
    """The kernels that were registered last."""
    return _registered[-1]


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
    fused_kernels().check_expected()
    if backend != "auto":
        raise BackendError(
            f"{what}: backend {backend!r} cannot serve this call: {reason}. "
            "Use backend='auto' or 'reference'."
        )
    if torch.compiler.is_dynamo_compiling():  # a captured graph cannot contain a warning
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
    """The dtype of autocast on a device; None if autocast is off or unknown there."""
    kind = device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Within the block, compute in the dtype of the tensors.

    Strengths are sums of many small terms, which half precision under autocast would lose.
    """
    if autocast_dtype(device) is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
