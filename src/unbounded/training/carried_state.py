"""The position inside a batch that is trained in chunks: the next chunk and the carried state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from unbounded.errors import CheckpointError
from unbounded.memories.core import map_state, state_tensors
from unbounded.training.hook import Hook


class CarriedState(Hook):
    """The position inside a batch, so that a checkpoint may lie between two chunks.

    Between two batches the chunk number is 0 and there is no carried state.

    Fields:
        chunk: number of the next chunk of the batch.
        state: the model's state there, detached; None is the initial state.
    """

    def __init__(self) -> None:
        self.chunk = 0
        self.state: Any = None
        self._loaded: list[Tensor] = []

    def move(self, chunk: int, state: Any) -> None:
        """Move to a chunk."""
        self.chunk, self.state, self._loaded = chunk, state, []

    def rebuild(self, like: Any) -> None:
        """Build the carried state from the tensors of a checkpoint.

        Args:
            like: a state of the same model, for its structure.
        Raises:
            CheckpointError: the structure has another number of tensors.
        """
        tensors = iter(self._loaded)
        try:
            self.state = map_state(lambda field: next(tensors).to(field.device), like)
        except (StopIteration, RuntimeError) as error:
            raise CheckpointError("the carried state has too few tensors") from error
        if next(tensors, None) is not None:
            raise CheckpointError("the carried state has too many tensors")
        self._loaded = []

    @property
    def loaded(self) -> bool:
        """Whether tensors of a checkpoint are waiting for `rebuild`."""
        return bool(self._loaded)

    def state_dict(self) -> dict[str, Any]:
        """Return the chunk number, and the state's tensors in order, for a checkpoint."""
        tensors = [*self._loaded, *(() if self.state is None else state_tensors(self.state))]
        # The tensors are cloned, because a view would be saved with its complete buffer.
        return {"chunk": self.chunk, "tensors": [each.detach().clone() for each in tensors]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        `rebuild` then restores the structure of the state.
        """
        self.move(int(state["chunk"]), None)
        self._loaded = list(state["tensors"])
