"""A model whose memory has room for a longer sequence than it was trained on."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import nn

from unbounded.checks import check_module, check_size
from unbounded.layers import MemoryRNN
from unbounded.memories import SuperpositionMemory

ModelT = TypeVar("ModelT", bound=nn.Module)


def with_room(model: ModelT, symbols: int) -> tuple[ModelT, int | None]:
    """A model with the same weights whose superposition memories hold that many cells.

    A capacity that was enough for the lengths of training must not decide how a longer sequence is
    scored.

    Args:
        model: it stays as it is.
        symbols: of the longest sequence.
    Returns:
        the model itself and None where no capacity is lower; else a copy, in which each memory of a
        lower capacity is replaced by one of `symbols` cells, and `symbols`.
    Raises:
        ShapeError: `symbols` is no integer of at least 0.
    """
    check_module("model", model)
    check_size("symbols", symbols)
    limited = [name for name, part in model.named_modules() if _is_short(part, symbols)]
    if not limited:
        return model, None
    roomy = copy.deepcopy(model)
    for name in limited:
        layer: Any = roomy.get_submodule(name)
        layer.memory = layer.memory.with_capacity(symbols)
    return roomy, symbols


def _is_short(part: nn.Module, symbols: int) -> bool:
    if not isinstance(part, MemoryRNN) or not isinstance(part.memory, SuperpositionMemory):
        return False
    return part.memory.capacity is not None and part.memory.capacity < symbols
