"""The devices for which the CUDA kernels can be compiled, with reasons for the others."""

from __future__ import annotations

import os
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import torch

#: The oldest version of Triton with cooperative launches, and the oldest supported device.
OLDEST_TRITON: Final = (3, 3)
OLDEST_CAPABILITY: Final = (8, 0)
_COMPILERS: Final = ("cc", "gcc", "clang")
#: Bytes of shared memory for a program on the smallest of these devices.
LEAST_SHARED: Final = 99 * 1024


def _triton() -> tuple[int, ...] | None:
    """The version of Triton; None if it is not installed."""
    try:
        return tuple(int(part) for part in version("triton").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return None


def why_not_triton(installed: tuple[int, ...] | None) -> str | None:
    """The reason why a version of Triton cannot launch the kernels; None if it can."""
    if installed is None:
        return "the kernels for CUDA need triton, which is not installed"
    if installed < OLDEST_TRITON:
        oldest, here = (".".join(map(str, parts)) for parts in (OLDEST_TRITON, installed))
        return f"the kernels for CUDA need triton {oldest} or newer, but {here} is installed"
    return None


def why_not_capability(capability: tuple[int, int]) -> str | None:
    """The reason why a compute capability has no kernels; None if it has kernels."""
    if capability < OLDEST_CAPABILITY:
        oldest, here = (".".join(map(str, parts)) for parts in (OLDEST_CAPABILITY, capability))
        return f"the kernels for CUDA need a device of compute capability {oldest}, this has {here}"
    return None


@cache
def why_not(device: int | None) -> str | None:
    """Why the kernels cannot be compiled for the device with a number; None if they can.

    Args:
        device: None checks only what is independent of it.
    """
    if torch.version.hip is not None:
        return "no kernel is built for ROCm"
    reason = why_not_triton(_triton())
    if reason is not None:
        return reason
    compiler = os.environ.get("CC")
    if not any(shutil.which(name) for name in ((compiler,) if compiler else _COMPILERS)):
        return "the kernels for CUDA are compiled at their first use, and there is no C compiler"
    if device is None or not torch.cuda.is_available():
        return None
    return why_not_capability(torch.cuda.get_device_capability(device))


@cache
def multiprocessors(device: int) -> int:
    """Largest number of simultaneous programs, which is one per multiprocessor."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def shared_bytes(device: int) -> int:
    """Bytes of shared memory for a program."""
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", LEAST_SHARED))
