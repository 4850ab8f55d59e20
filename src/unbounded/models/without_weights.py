"""Models created for their sizes only: on the meta device, without weight draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class _Undrawn(TorchFunctionMode):
    """Skips normal draws: on the meta device they would load torch's compiler."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is nn.init.normal_ or func is Tensor.normal_:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def without_weights() -> Iterator[None]:
    """Create modules inside without memory for their weights and without drawing them."""
    with torch.device("meta"), _Undrawn():
        yield
