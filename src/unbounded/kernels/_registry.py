"""Where every operator of this folder is registered with torch, as `torch.ops.unbounded.*`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

LIBRARY: Final = torch.library.Library("unbounded", "DEF")


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply(*arguments)`, of which torch says no types."""
    return function.apply(*arguments)


def define(
    name: str, schema: str, implementation: Callable[..., Any], fake: Callable[..., Any]
) -> Callable[..., Any]:
    """Register one operator for the CPU and return it, `torch.ops.unbounded.NAME`."""
    LIBRARY.define(name + schema)
    LIBRARY.impl(name, implementation, "CPU")
    torch.library.register_fake(f"unbounded::{name}", fake, lib=LIBRARY)
    operator: Callable[..., Any] = getattr(torch.ops.unbounded, name)
    return operator
