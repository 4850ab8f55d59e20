"""CUDA kernels in Triton, for neural stack, queue and deque with every controller.

A launch runs a full sequence, with all its programs on the device at once. A step has three phases
(controller, heads, memory; backward in reverse order), between which the programs wait for each
other. Torch does the work that can be done for all steps at once. Triton is imported when it is
first used.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from unbounded.kernels._registry import implement
from unbounded.kernels.gpu import _device
from unbounded.memories.core.structure import Structure

#: The memories with a CUDA kernel, by `Structure.name`.
MEMORIES: Final = ("stack", "queue", "deque")


def why_not(structure: Structure[Any] | None, device: int | None = None) -> str | None:
    """The reason why no CUDA kernel supports a memory on a device; None if one does.

    Args:
        structure: None for any with a kernel. device: its number; None for any.
    """
    if structure is not None and structure.name == "register":
        return "no kernel for CUDA runs a controller without a memory"
    if structure is not None and structure.name not in MEMORIES:
        return f"no kernel for CUDA is built for a {structure.name}"
    # A graph that is being captured cannot query the device.
    return None if torch.compiler.is_compiling() else _device.why_not(device)


# Autocast must not change the precision of torch calls in the operators.
def _forward(*call: Any, saves: bool) -> Any:
    from unbounded.kernels.gpu._recurrence import forward

    with torch.autocast("cuda", enabled=False):
        return forward(*call, saves=saves)


def _backward(*call: Any, **of_forward: Any) -> Any:
    from unbounded.kernels.gpu._recurrence import backward

    with torch.autocast("cuda", enabled=False):
        return backward(*call, **of_forward)


def register() -> None:
    """Register the CUDA implementations of the operators, which must be defined."""
    implement("recurrence", "cuda", _forward)
    implement("recurrence_backward", "cuda", _backward)
