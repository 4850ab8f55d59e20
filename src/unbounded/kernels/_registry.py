"""Where every operator of this folder is registered with torch, as `torch.ops.unbounded.*`.

An operator has an implementation for each device that is in DEVICES: kernels for another device are
`implement` calls more, and nothing that calls an operator changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

LIBRARY: Final = torch.library.Library("unbounded", "DEF")

#: The devices that have kernels, and torch's dispatch key for each.
DEVICES: Final = {"cpu": "CPU"}


def define(name: str, schema: str, fake: Callable[..., Any]) -> Callable[..., Any]:
    """Register an operator without an implementation and return it, `torch.ops.unbounded.NAME`.

    Args:
        name: of the operator. schema: its arguments and results in torch's words.
        fake: makes results of the right shapes, for torch.compile.
    """
    LIBRARY.define(name + schema)
    torch.library.register_fake(f"unbounded::{name}", fake, lib=LIBRARY)
    operator: Callable[..., Any] = getattr(torch.ops.unbounded, name)
    return operator


def implement(name: str, device: str, implementation: Callable[..., Any]) -> None:
    """Register what an operator does on a device, one of DEVICES."""
    LIBRARY.impl(name, implementation, DEVICES[device])


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply(*arguments)`, of which torch says no types."""
    return function.apply(*arguments)
