"""Where every operator of this folder is registered with torch, as `torch.ops.unbounded.*`.

An operator has an implementation for each device that is in DEVICES: kernels for another device are
`implement` calls more, and nothing that calls an operator changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from unbounded.kernels._library import VECTOR_BYTES

LIBRARY: Final = torch.library.Library("unbounded", "DEF")


class Device(NamedTuple):
    """A kind of device that has kernels.

    Fields:
        key: torch's dispatch key for it.
        vector_bytes: of a register of its kernels, to which some buffers are padded; 0 for none.
    """

    key: str
    vector_bytes: int


#: The devices that have kernels, by torch's name.
DEVICES: Final = {"cpu": Device("CPU", VECTOR_BYTES), "cuda": Device("CUDA", 0)}
#: Which operators have an implementation for which device, (operator, device).
IMPLEMENTED: Final[set[tuple[str, str]]] = set()
#: What makes a session on each of them; see `open_session`.
SESSIONS: Final[dict[str, Callable[..., Session]]] = {}


class Session(Protocol):
    """A recurrence that is run a few steps at a time, without gradients."""

    def run(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run over x [T, B, I], T may be 1; return h [T, B, H] and r [T, B, R] of every step.

        Args:
            x: the next steps.
            lengths: int64 [B] in 0..T: beyond it a row keeps its state, and its h and r are 0.
        """

    def state(self) -> tuple[Tensor, ...]:
        """A copy of the state, laid out as the one that it began with."""


def lanes_of(like: Tensor) -> int:
    """Values in a register of the kernels that serve a tensor; 1 where there are none."""
    device = DEVICES.get(like.device.type)
    return 1 if device is None else max(1, device.vector_bytes // like.element_size())


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
    LIBRARY.impl(name, implementation, DEVICES[device].key)
    IMPLEMENTED.add((name, device))


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """`function.apply(*arguments)`, of which torch says no types."""
    return function.apply(*arguments)
