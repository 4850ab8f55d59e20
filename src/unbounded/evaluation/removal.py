"""Which stacks a model does not need: a depth-first search over subsets.

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
    """What the search found.

    Fields:
        model: without the stacks that it does not need.
        removed: the numbers that they had, in order; may be empty.
        scored: models that were scored, the whole one included.
        whole: how many stacks or lists there were.
        complete: whether the search came to its end; if not, a larger subset may be removable.
    """

    model: MemoryModel
    removed: tuple[int, ...]
    scored: int
    whole: int
    complete: bool


class _Search:
    """The tree: a node is a removable subset, its children are it and one later stack."""

    def __init__(
        self, keeps: Callable[[tuple[int, ...]], bool], largest: int, most: int | None
    ) -> None:
        self._keeps, self._largest, self._most = keeps, largest, most
        self.best: tuple[int, ...] = ()
        self.asked = 0
        self.complete = True

    def descend(self, removed: tuple[int, ...], later: list[int]) -> None:
        """Look below `removed`, to which each of `later` might be added."""
        if len(removed) > len(self.best):
            self.best = removed
        children: list[int] = []
        for place, stack in enumerate(later):
            # What is below here cannot be larger than the best: leave it.
            possible = min(len(removed) + len(children) + len(later) - place, self._largest)
            if possible <= len(self.best):
                return
            if self._most is not None and self.asked >= self._most:
                self.complete = False
                break
            self.asked += 1
            if self._keeps((*removed, stack)):
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

    A subset is removable if the model without it, with empty stacks in its place, scores at least
    as well as the whole one. From each removable subset the search goes on to those with one stack
    more; below one that is not removable it does not look. Of the largest subsets that it meets,
    the first in the order of their numbers is taken.

    Args:
        model: rounded or not; a discrete one (`unbounded.models.discretized`) makes a discrete
            machine. It stays as it is.
        score: of a model on validation data, higher is better, for example how many sequences are
            right.
        most: subsets to score at the most; None for all. The worst case of 10 stacks is 1022.
    Raises:
        ConfigError: `most` is no integer of at least 1, or the model is not of this kind.
    """
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ConfigError([f"most: expected an integer >= 1 or None, got {most!r}"])
    count = superposition_layer(model)[1].count
    check_callable("score", score)
    whole = score(model)

    def keeps(removed: tuple[int, ...]) -> bool:
        return score(without_stacks(model, removed)) >= whole

    search = _Search(keeps, count - 1, most)
    search.descend((), list(range(count)))
    smaller = without_stacks(model, search.best)
    return Removal(smaller, search.best, search.asked + 1, count, search.complete)
