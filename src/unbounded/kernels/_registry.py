"""Registration of all operators with torch, as `torch.ops.unbounded.*`.

An operator has an implementation for each device in DEVICES. Kernels for another device add
`implement` calls, without any change to callers of an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from unbounded.kernels._library import VECTOR_BYTES

LIBRARY: Final = torch.library.Library("unbounded", "DEF")


class Device(NamedTuple):
    """A type of device with kernels.

    Fields:
        key: torch's dispatch key for it.
        vector_bytes: register size of its kernels, to which some buffers are padded; 0 for none.
    """

    key: str
    vector_bytes: int


#: The devices with kernels, by torch's name.
DEVICES: Final = {"cpu": Device("CPU", VECTOR_BYTES), "cuda": Device("CUDA", 0)}
#: The implemented pairs (operator, device).
IMPLEMENTED: Final[set[tuple[str, str]]] = set()
#: The session class for each device; see `open_session`.
SESSIONS: Final[dict[str, Callable[..., Session]]] = {}


class Session(Protocol):
    """A recurrence that runs a few steps at a time, without gradients."""

    def run(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run over x [T, B, I], where T may be 1; return h [T, B, H] and r [T, B, R] of each step.

        Args:
            x: the next steps.
            lengths: int64 [B] in 0..T; beyond it a row keeps its state, and its h and r are 0.
        """

    def state(self) -> tuple[Tensor, ...]:
        """Return a copy of the state, in the layout of the initial state."""


def lanes_of(like: Tensor) -> int:
    """Number of values in a register of the tensor's kernels; 1 without kernels."""
    device = DEVICES.get(like.device.type)
    return 1 if device is None else max(1, device.vector_bytes // like.element_size())


def define(name: str, schema: str, fake: Callable[..., Any]) -> Callable[..., Any]:
    """Register an operator without an implementation, and return `torch.ops.unbounded.NAME`.

    Args:
        name: of the operator. schema: its arguments and results in torch's syntax.
        fake: returns results of the right shapes, for torch.compile.
    """
    LIBRARY.define(name + schema)
    torch.library.register_fake(f"unbounded::{name}", fake, lib=LIBRARY)
    operator: Callable[..., Any] = getattr(torch.ops.unbounded, name)
    return operator


def implement(name: str, device: str, implementation: Callable[..., Any]) -> None:
    """Register an operator's implementation for a device, one of DEVICES."""
    LIBRARY.impl(name, implementation, DEVICES[device].key)
    IMPLEMENTED.add((name, device))


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Call `function.apply(*arguments)`, which has no types in torch."""
    return function.apply(*arguments)
