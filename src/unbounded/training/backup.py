"""A copy of a model's weights, which is part of the run's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Backup:
    """A copy of a model's weights, which is empty at first.

    Args:
        model: the model whose weights are copied; not wrapped.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._weights: dict[str, Tensor] = {}

    def keep(self) -> None:
        """Copy the model's current weights into the backup."""
        self._weights = {
            name: weight.detach().clone() for name, weight in self._model.named_parameters()
        }

    def restore(self) -> None:
        """Copy the backup into the model. Before the first `keep`, this does nothing."""
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

    def state_dict(self) -> dict[str, Tensor]:
        """The copied weights by name, for a checkpoint."""
        return dict(self._weights)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        device = next(self._model.parameters()).device
        self._weights = {name: weight.to(device) for name, weight in state.items()}
