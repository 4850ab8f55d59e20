"""Removal of unused stacks: a depth-first search over subsets.

Source: Joulin & Mikolov 2015 (NIPS), section 3, "Rounding": the tree of removable stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from unbounded.checks import check_callable
from unbounded.errors import ConfigError
from unbounded.models.discrete import superposition_layer
from unbounded.models.memory_model import MemoryModel
from unbounded.models.pruning import without_stacks


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
    """The search tree: a node is a removable subset; each child has one later stack more."""

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
            # Subsets below here cannot be larger than the best.
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

    A subset is removable if the model with empty stacks in its place scores at least as well as the
    whole one. From each removable subset the search continues with one stack more; below one that
    is not removable it does not search. Among the largest subsets found, it takes the first in the
    order of their numbers.

    Args:
        model: hardened (`unbounded.models.discretized`) or not. It is not changed.
        score: score of a model on validation data, higher is better, for example the number of
            correct sequences.
        most: most subsets to score; None for all. The worst case for 10 stacks is 1022.
    Raises:
        ConfigError: `most` is no integer of at least 1, or the model is not of this kind.
    """
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ConfigError([f"most: expected an integer >= 1 or None, got {most!r}"])
    count = superposition_layer(model)[1].count
    check_callable("score", score)
    whole = score(model)

    def is_removable(removed: tuple[int, ...]) -> bool:
        return score(without_stacks(model, removed)) >= whole

    search = _Search(is_removable, count - 1, most)
    search.descend((), list(range(count)))
    smaller = without_stacks(model, search.best)
    return Removal(smaller, search.best, search.scored + 1, count, search.complete)
