"""Where a batch that is trained in pieces stands: the next piece and the state carried to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unbounded.errors import CheckpointError
from unbounded.memories.state import map_state, state_tensors

_PIECE = "piece"


class Carry:
    """The place in the middle of a batch, so that a checkpoint may lie between two pieces.

    Between two batches the piece is 0 and there is no state.

    Fields:
        piece: number of the next piece of the batch.
        state: what the model's state is there, without its gradient; None begins anew.
    """

    def __init__(self) -> None:
        self.piece = 0
        self.state: Any = None
        self._loaded: list[Tensor] = []

    def move(self, piece: int, state: Any) -> None:
        """Go on to a piece."""
        self.piece, self.state, self._loaded = piece, state, []

    def rebuild(self, like: Any) -> None:
        """Give the tensors of a checkpoint the structure of a state of the same model.

        Raises:
            CheckpointError: the structure has another number of tensors.
        """
        tensors = iter(self._loaded)
        try:
            self.state = map_state(lambda field: next(tensors).to(field.device), like)
        except (StopIteration, RuntimeError) as error:
            raise CheckpointError("the state carried over has too few tensors") from error
        if next(tensors, None) is not None:
            raise CheckpointError("the state carried over has too many tensors")
        self._loaded = []

    @property
    def loaded(self) -> bool:
        """Whether a checkpoint's tensors wait for `rebuild`."""
        return bool(self._loaded)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of it: the piece, and the state's tensors in order."""
        found = [*self._loaded, *(() if self.state is None else state_tensors(self.state))]
        # safetensors takes no two tensors that share their memory.
        named = {f"{place:03d}": each.detach().clone() for place, each in enumerate(found)}
        named = {name: each.contiguous() for name, each in named.items()}
        return {_PIECE: torch.tensor(self.piece), **named}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave.

        Raises:
            CheckpointError: the piece is missing.
        """
        if _PIECE not in tensors:
            raise CheckpointError("the state carried over has no piece")
        self.move(int(tensors[_PIECE]), None)
        self._loaded = [tensors[name] for name in sorted(set(tensors) - {_PIECE})]
