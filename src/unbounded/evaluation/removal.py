"""Remove unused stacks, by a depth-first search over subsets.

Source: Joulin & Mikolov 2015 (NIPS), section 3, "Rounding": the tree of removable stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.checks import check_callable
from unbounded.errors import ConfigError
from unbounded.memories import SuperpositionMemory
from unbounded.models.discrete import superposition_layer
from unbounded.models.memory_model import MemoryModel
from unbounded.rnn import MemoryLayer
from unbounded.rnn.controllers import WeightedController


def without_stacks(model: MemoryModel, removed: Iterable[int]) -> MemoryModel:
    """Return a model without some of its stacks or lists. The other weights are kept.

    A removed stack is replaced by the constant that the controller reads from an empty stack. The
    weighted constants are added to the bias if the controller has one, otherwise to the columns of
    all one-hot symbols. The smaller model equals the full model in which the removed stacks are
    always empty.

    Args:
        model: trained or hardened; stays unchanged.
        removed: numbers of the stacks, from 0; at least one stack must remain.
    Returns:
        a model with a smaller `count`, of the same dtype, device and mode.
    Raises:
        ConfigError: an unknown stack, none remains, or the model is of another kind.
    """
    layer, memory = superposition_layer(model)
    kept = _check(model, layer, memory.count, set(removed))
    config = model.config
    with torch.random.fork_rng(devices=[]):  # the drawn weights are discarded
        smaller = MemoryModel(**{**config, "memory": {**config["memory"], "count": len(kept)}})
    weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    _slice_heads(weights, layer, kept)
    _slice_inputs(weights, layer, memory, kept)
    smaller.to(layer.heads.weight.device, layer.heads.weight.dtype).load_state_dict(weights)
    return smaller.train(model.training)


def _check(model: MemoryModel, layer: MemoryLayer, count: int, removed: set[int]) -> list[int]:
    """The stacks that remain."""
    errors = []
    unknown = sorted(removed - set(range(count)))
    if unknown:
        errors.append(f"removed: expected stacks 0..{count - 1}, got {unknown}")
    if removed >= set(range(count)):
        errors.append(f"removed: at least one of the {count} stacks must remain")
    controller = layer.controller
    if not isinstance(controller, WeightedController):
        errors.append(f"model: cannot slice the controller {type(controller).__name__}")
    elif not model.sequence.one_hot and controller.bias_ih is None:
        errors.append("model: expected one-hot symbols or a controller with a bias")
    if errors:
        raise ConfigError(errors)
    return [stack for stack in range(count) if stack not in removed]


def _slice_heads(weights: dict[str, Tensor], layer: MemoryLayer, kept: list[int]) -> None:
    """Keep the rows of the remaining stacks. The first axis of every head counts the stacks."""
    for part in ("weight", "bias"):
        name = f"sequence.layer.layers.0.heads.{part}"
        if name in weights:
            weights[name] = torch.cat(
                [
                    torch.unflatten(
                        weights[name][layer.heads.rows(head.name)], 0, (head.shape[0], -1)
                    )[kept].flatten(0, 1)
                    for head in layer.memory.heads
                ]
            )


def _slice_inputs(
    weights: dict[str, Tensor],
    layer: MemoryLayer,
    memory: SuperpositionMemory[Any],
    kept: list[int],
) -> None:
    """Drop the columns of removed stacks and add their constants to symbols or bias."""
    name, bias = (f"sequence.layer.layers.0.controller.{part}_ih" for part in ("weight", "bias"))
    symbols, cells = weights[name].tensor_split([layer.input_size], dim=1)
    cells = torch.unflatten(cells, 1, (memory.count, -1))
    constant = torch.full_like(cells[0], memory.empty)
    constant[kept] = 0
    constants = (cells * constant).sum(dim=(1, 2))
    if bias in weights:
        weights[bias] = weights[bias] + constants
    else:
        symbols = symbols + constants.unsqueeze(1)
    weights[name] = torch.cat([symbols, cells[:, kept].flatten(1)], dim=1)


class Removal(NamedTuple):
    """The result of the search.

    Fields:
        model: the model without the unused stacks.
        removed: the numbers that they had, in order; may be empty.
        scored: number of scored models, the whole one included.
        whole: original number of stacks or lists.
        complete: whether the search finished; if not, a larger subset may be removable.
    """

    model: MemoryModel
    removed: tuple[int, ...]
    scored: int
    whole: int
    complete: bool


class _Search:
    """The search tree. A node is a removable subset, and each child has one more, later stack."""

    def __init__(
        self, is_removable: Callable[[tuple[int, ...]], bool], largest: int, max_scored: int | None
    ) -> None:
        self._is_removable, self._largest, self._max_scored = is_removable, largest, max_scored
        self.best: tuple[int, ...] = ()
        self.scored = 0
        self.complete = True

    def descend(self, removed: tuple[int, ...], later: list[int]) -> None:
        """Search below `removed`, with the candidates `later`."""
        if len(removed) > len(self.best):
            self.best = removed
        children: list[int] = []
        for place, stack in enumerate(later):
            # Subsets below this node cannot be larger than the best subset.
            possible = min(len(removed) + len(children) + len(later) - place, self._largest)
            if possible <= len(self.best):
                return
            if self._max_scored is not None and self.scored >= self._max_scored:
                self.complete = False
                break
            self.scored += 1
            if self._is_removable((*removed, stack)):
                children.append(stack)
        for place, stack in enumerate(children):
            if len(removed) + len(children) - place > len(self.best):
                self.descend((*removed, stack), children[place + 1 :])


def remove_unused(
    model: MemoryModel,
    score: Callable[[MemoryModel], float],
    *,
    most: int | None = None,
) -> Removal:
    """Remove as many stacks or lists as the score allows.

    A subset is removable if the model in which these stacks are empty scores at least as well as
    the full model. From each removable subset, the search continues with one more stack. The search
    does not extend a subset that is not removable. Among the largest removable subsets, the first
    in the order of the stacks' numbers is removed.

    Args:
        model: hardened (`unbounded.models.discretized`) or not. It is not changed.
        score: score of a model on validation data, higher is better, for example the number of
            correct sequences.
        most: most subsets to score; None for all. The worst case for 10 stacks is 1022.
    Raises:
        ConfigError: `most` is not an integer of at least 1, or the model is not of this kind.
    """
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ConfigError(f"most: expected an integer >= 1 or None, got {most!r}")
    count = superposition_layer(model)[1].count
    check_callable("score", score)
    whole = score(model)

    def is_removable(removed: tuple[int, ...]) -> bool:
        return score(without_stacks(model, removed)) >= whole

    search = _Search(is_removable, count - 1, most)
    search.descend((), list(range(count)))
    smaller = without_stacks(model, search.best)
    return Removal(smaller, search.best, search.scored + 1, count, search.complete)
