"""Kernels for CUDA, in Triton: neural stack, queue and deque with every controller.

A launch runs a whole sequence. All its programs are on the device at once; a step has three phases
(controller, heads, memory; backward in the other order), between which they wait for each other.
What goes over all steps at once is left to torch. Triton is imported when it is first needed.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from unbounded.kernels._registry import implement
from unbounded.kernels.gpu import _device
from unbounded.kernels.structures import Structure

#: The memories that have a kernel here, by `Structure.name`.
MEMORIES: Final = ("stack", "queue", "deque")


def why_not(structure: Structure | None, device: int | None = None) -> str | None:
    """Why no kernel here serves a memory on a device, or None if one does.

    Args:
        structure: None for any that has a kernel. device: its number; None for any.
    """
    if structure is not None and structure.name == "register":
        return "no kernel for CUDA runs a controller without a memory"
    if structure is not None and structure.name not in MEMORIES:
        return f"no kernel for CUDA is built for a {structure.name}"
    # A graph that is being captured takes what the call is: a device that cannot says so then.
    return None if torch.compiler.is_compiling() else _device.why_not(device)


# What they ask of torch is not for autocast to make half precision.
def _forward(*call: Any, saves: bool) -> Any:
    from unbounded.kernels.gpu._recurrence import forward

    with torch.autocast("cuda", enabled=False):
        return forward(*call, saves=saves)


def _backward(*call: Any, **of_forward: Any) -> Any:
    from unbounded.kernels.gpu._recurrence import backward

    with torch.autocast("cuda", enabled=False):
        return backward(*call, **of_forward)


def register() -> None:
    """Give the operators their implementation for CUDA; they must be defined."""
    implement("recurrence", "cuda", _forward)
    implement("recurrence_backward", "cuda", _backward)
