"""The search for unused stacks, on constructed networks."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.constructions import counter
from unbounded.errors import ConfigError
from unbounded.evaluation import remove_unused, score_lengths
from unbounded.evaluation.removal import _Search
from unbounded.models import discretized
from unbounded.tasks import LengthRange, make_task

TASK = make_task("anbn", sequences=4)


def correct(model):
    return sum(score.correct for score in score_lengths(model, TASK, LengthRange(2, 9), seed=0))


@pytest.mark.parametrize(("count", "place"), [(1, 0), (4, 2), (5, 0)])
def test_all_but_the_needed_stack_are_removed(count, place):
    hardened = discretized(counter(count, place))
    removal = remove_unused(hardened, correct)
    assert removal.removed == tuple(stack for stack in range(count) if stack != place)
    assert removal.complete
    assert removal.model.sequence.layer.memory.count == 1
    assert correct(removal.model) == correct(hardened) == 3 * 8
    far = LengthRange(100, 100)
    assert score_lengths(removal.model, TASK, far, seed=1)[0].accuracy == 1


def test_of_two_stacks_that_do_the_same_one_is_removed():
    model = counter(3, 0)
    layer = model.sequence.layer
    with torch.no_grad():
        layer.layers[0].heads.weight[2:4] = layer.layers[0].heads.weight[0:2]
        layer.layers[0].heads.weight[7] = layer.layers[0].heads.weight[6]
        symbols, cells = layer.layers[0].controller.weight_ih.tensor_split([2], dim=1)
        cells[:, 2:4] = cells[:, 0:2]
        # Signs are correct with both stacks, and with one of them and -1 for the other.
        symbols[:, 0] -= torch.tensor([0.0, 40.0, 60.0])
        symbols[:, 1] += torch.tensor([0.0, 20.0, -20.0])
    hardened = discretized(model)
    assert correct(hardened) == 24
    removal = remove_unused(hardened, correct)
    assert removal.removed == (0, 2)
    assert correct(removal.model) == 24


def test_a_stack_is_kept_whose_removal_breaks_the_model():
    """Its top is always 0.5, which acts as a bias."""
    model = counter(2, 0)
    layer = model.sequence.layer
    with torch.no_grad():
        layer.layers[0].heads.weight[2], layer.layers[0].heads.weight[3] = 9.0, -9.0  # always PUSH
        layer.layers[0].heads.weight[5] = 0.0  # of 0.5
        layer.layers[0].controller.weight_ih[:, 4] = torch.tensor([0.0, 40.0, -40.0])
        layer.layers[0].controller.weight_ih[:, 1] -= 20 * torch.tensor([0.0, 1.0, -1.0])
    hardened = discretized(model)
    assert correct(hardened) == 24
    assert remove_unused(hardened, correct).removed == ()


def largest_by_brute_force(keeps, count):
    def whole_path(subset):
        return all(keeps(subset[:size]) for size in range(1, len(subset) + 1))

    sizes = [
        len(subset)
        for size in range(count)
        for subset in itertools.combinations(range(count), size)
        if whole_path(subset)
    ]
    return max(sizes)


@pytest.mark.parametrize("seed", range(30))
def test_the_search_finds_a_largest_subset_if_parts_of_removable_ones_are_removable(seed):
    generator = torch.Generator().manual_seed(seed)
    count = 6
    tops = [
        frozenset(torch.nonzero(torch.rand(count, generator=generator) < 0.6).flatten().tolist())
        for _ in range(3)
    ]

    def keeps(removed):
        return len(removed) < count and any(set(removed) <= top for top in tops)

    search = _Search(keeps, count - 1, None)
    search.descend((), list(range(count)))
    assert keeps(search.best) or search.best == ()
    assert len(search.best) == largest_by_brute_force(keeps, count)
    assert search.complete


def test_a_limited_search_is_marked_incomplete():
    hardened = discretized(counter(4, 0))
    removal = remove_unused(hardened, correct, most=3)
    assert not removal.complete
    assert removal.scored == 4
    assert correct(removal.model) == 24
    with pytest.raises(ConfigError, match="most: expected an integer >= 1 or None, got 0"):
        remove_unused(hardened, correct, most=0)
