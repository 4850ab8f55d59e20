"""Where every operator of this folder is registered with torch, as `torch.ops.unbounded.*`."""

from __future__ import annotations

from typing import Final

import torch

LIBRARY: Final = torch.library.Library("unbounded", "DEF")  # type: ignore[no-untyped-call]


def define(name: str, schema: str, implementation: object, fake: object) -> None:
    """Register one operator for the CPU."""
    LIBRARY.define(name + schema)  # type: ignore[no-untyped-call]
    LIBRARY.impl(name, implementation, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"unbounded::{name}", fake, lib=LIBRARY)  # type: ignore[arg-type]
