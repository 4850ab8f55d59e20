"""A copy of the best weights so far, stored in the run's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from unbounded.errors import CheckpointError

_WEIGHT = "weight."


class Backup:
    """A copy of a model's weights, with numbers that belong to them in a checkpoint.

    Args:
        model: the model whose weights are copied; not wrapped.
        numbers: names of the numbers.
        what: name of the backup, for the message when a checkpoint lacks a number.
    """

    def __init__(self, model: nn.Module, numbers: Sequence[str], what: str) -> None:
        self._model, self._numbers, self._what = model, tuple(numbers), what
        self._weights: dict[str, Tensor] = {}

    def keep(self) -> None:
        """Copy the model's current weights into the backup."""
        self._weights = {
            name: weight.detach().clone() for name, weight in self._model.named_parameters()
        }

    def restore(self) -> None:
        """Copy the backup into the model; before the first `keep` nothing changes."""
        with torch.no_grad():
            for name, weight in self._model.named_parameters():
                if name in self._weights:
                    weight.copy_(self._weights[name])

    def is_kept(self) -> bool:
        """Whether the model's weights equal the backup."""
        return all(
            torch.equal(weight, self._weights[name])
            for name, weight in self._model.named_parameters()
        )

    def tensors(self, *numbers: float) -> dict[str, Tensor]:
        """The numbers, in the order of their names, and the weights, for a checkpoint."""
        return {
            **{
                name: torch.tensor(float(number), dtype=torch.float64)
                for name, number in zip(self._numbers, numbers, strict=True)
            },
            **{_WEIGHT + name: weight for name, weight in self._weights.items()},
        }

    def load(self, tensors: Mapping[str, Tensor]) -> list[float]:
        """Restore what `tensors` returned; return the numbers.

        Raises:
            CheckpointError: a number is missing.
        """
        missing = [name for name in self._numbers if name not in tensors]
        if missing:
            raise CheckpointError(f"{self._what} has no {', '.join(missing)}")
        device = next(self._model.parameters()).device
        self._weights = {
            name.removeprefix(_WEIGHT): tensor.to(device)
            for name, tensor in tensors.items()
            if name.startswith(_WEIGHT)
        }
        return [float(tensors[name]) for name in self._numbers]
