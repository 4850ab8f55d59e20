"""Which path serves a call: the fused kernels or the readable reference."""

from __future__ import annotations

from typing import Any

import torch

from unbounded import kernels
from unbounded.checks import check_choice
from unbounded.errors import BackendError, BackendWarning, say_once
from unbounded.replaced import replaced_method

BACKENDS = ("auto", "reference", "cpu", "cuda")


def kernel_of(memory: Any) -> kernels.Structure | None:
    """What the kernels know of a Memory, or None.

    Exact types: a subclass may compute something else, which no kernel knows of.
    """
    return memory.kernel if "kernel" in vars(type(memory)) else None


def why_no_kernel(memory: Any) -> str | None:
    """Why no kernel computes what a Memory computes, or None if one does."""
    if kernel_of(memory) is None:
        reason: str = memory.no_kernel
        return reason
    name = replaced_method(memory)
    if name is not None:
        return f"{type(memory).__name__}.{name} is replaced, which only the readable loop calls"
    return None


def negative_field(kernel: kernels.Structure, *groups: Any) -> str | None:
    """Say which field the kernel cannot take because a number in it is below 0; None if all can be.

    Args:
        groups: instructions and states. While a graph is being captured nothing is known of them.
    """
    if torch.compiler.is_compiling():
        return None
    for name in kernel.nonnegative:
        for group in groups:
            field = getattr(group, name, None)
            # Of none there is nothing to look at, and to look makes a device wait.
            if field is not None and field.numel() and bool((field < 0).any()):
                return f"the kernels take a {name} of at least 0"
    return None


def choose_backend(backend: str, what: str, reason: str | None, device: str) -> bool:
    """Decide between the fused kernel and the reference.

    Args:
        backend: one of BACKENDS.
        what: the class that asks, for the message.
        reason: why the kernel cannot serve the call; None if it can.
        device: the kind that the call's tensors are on.
    Returns:
        whether to take the kernel.
    Raises:
        BackendError: a device's kernels were asked for and cannot serve; or the environment asks
            for kernels that are not there.
    """
    if backend == "reference":
        return False
    if backend not in ("auto", device):
        reason = f"a tensor is on {device}"
    if reason is None:
        return True
    kernels.check_wanted()
    if backend != "auto":
        raise BackendError(
            f"{what}: backend {backend!r} cannot serve this call: {reason}. "
            "Use backend='auto' or 'reference'."
        )
    if torch.compiler.is_dynamo_compiling():  # its graph holds no warning
        return False
    say_once(
        f"{what} runs on the readable reference path, which is slower: {reason}.", BackendWarning
    )
    return False


def check_backend(backend: str) -> None:
    """Raise ChoiceError unless `backend` is one of BACKENDS."""
    check_choice("backend", backend, BACKENDS)
