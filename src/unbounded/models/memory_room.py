"""A model whose memory has room for a longer sequence than it was trained on."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import nn

from unbounded.checks import check_module, check_size
from unbounded.errors import RoomWarning, say_once
from unbounded.layers import MemoryRNN
from unbounded.memories import SuperpositionMemory

ModelT = TypeVar("ModelT", bound=nn.Module)

_DROPS_ARE_MEANT: ContextVar[bool] = ContextVar("drops_are_meant", default=False)


@contextmanager
def drops_are_meant() -> Iterator[None]:
    """No `RoomWarning` within: a stream of many sequences needs room for the longest alone."""
    token = _DROPS_ARE_MEANT.set(True)
    try:
        yield
    finally:
        _DROPS_ARE_MEANT.reset(token)


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


def warn_of_drops(model: nn.Module, symbols: int) -> None:
    """Warn, once, where a memory drops cells of sequences that are longer than its capacity.

    Args:
        model: whose memories are looked at.
        symbols: of the longest sequence.
    """
    # A graph holds no warning.
    if torch.compiler.is_compiling() or _DROPS_ARE_MEANT.get():
        return
    for part in model.modules():
        most = part.memory.dropped_beyond if isinstance(part, MemoryRNN) else None
        if most is None or most >= symbols:
            continue
        advice = "Make the memory with a larger capacity."
        if isinstance(part.memory, SuperpositionMemory):
            advice = "model, _ = unbounded.models.with_room(model, steps) gives a model with room."
        say_once(
            f"inputs: expected at most {most} steps, the capacity of {type(part.memory).__name__}, "
            f"got {symbols}. Cells beyond it are dropped. {advice}",
            RoomWarning,
        )
        return


def _is_short(part: nn.Module, symbols: int) -> bool:
    if not isinstance(part, MemoryRNN) or not isinstance(part.memory, SuperpositionMemory):
        return False
    return part.memory.capacity is not None and part.memory.capacity < symbols
