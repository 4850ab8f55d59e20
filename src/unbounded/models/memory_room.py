"""Models whose memory has room for longer sequences than those of training."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import nn

from unbounded.checks import check_module, check_size
from unbounded.memories import SuperpositionMemory
from unbounded.rnn import MemoryLayer

ModelT = TypeVar("ModelT", bound=nn.Module)


def with_room(model: ModelT, symbols: int) -> tuple[ModelT, int | None]:
    """Return a model with the same weights whose superposition memories hold `symbols` cells.

    A capacity chosen for the lengths of training must not affect the scores of longer sequences.

    Args:
        model: stays unchanged.
        symbols: number of symbols in the longest sequence.
    Returns:
        the model itself and None if no capacity is lower; else a copy, in which each memory of
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
    if not isinstance(part, MemoryLayer) or not isinstance(part.memory, SuperpositionMemory):
        return False
    return part.memory.capacity is not None and part.memory.capacity < symbols
