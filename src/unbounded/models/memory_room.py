"""Models whose memory is enlarged for longer sequences than in training."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import nn

from unbounded.checks import check_module, check_size
from unbounded.memories import RollingTape, SuperpositionMemory
from unbounded.rnn import MemoryAttention, MemoryLayer

ModelT = TypeVar("ModelT", bound=nn.Module)


def with_room(model: ModelT, symbols: int) -> tuple[ModelT, int | None]:
    """Return a model with the same weights whose memory is large enough for `symbols` symbols.

    Superposition memories and rolling tapes have a capacity that can be raised.
    A capacity chosen for the training lengths must not affect the scores of longer sequences.

    Args:
        model: stays unchanged.
        symbols: number of symbols in the longest sequence.
    Returns:
        the model itself and None, if no capacity is below `symbols`. Otherwise a copy and
        `symbols`; in the copy each memory with a lower capacity is replaced by one with `symbols`
        cells.
    Raises:
        ShapeError: `symbols` is not an integer of at least 0.
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
    if not isinstance(part, MemoryLayer | MemoryAttention):
        return False
    memory = part.memory
    if not isinstance(memory, SuperpositionMemory | RollingTape) or memory.capacity is None:
        return False
    return memory.capacity < symbols
