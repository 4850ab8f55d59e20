"""Correlation of a head's position with a path, by hand and for a constructed layer."""

from __future__ import annotations

import pytest
import torch

from unbounded.evaluation.following import correlation, following, head_position
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import LengthRange, make_task

TAPE = {"name": "turing_tape", "slots": 16, "width": 2, "shift": "zero"}


class Text:
    has_path = False


def model(**options):
    options = {"memory": TAPE, "hidden_size": 2, "embedding_size": None, **options}
    controller = {"name": "elman", "recurrent": False}
    return MemoryModel(inputs=2, outputs=1, controller=controller, **options)


def test_positions_and_correlations_by_hand():
    weights = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.25, 0.75]])
    assert head_position(weights).tolist() == [1, 0, 2]
    background = torch.full((128,), 0.01)
    background[3] = 0.4
    assert head_position(background).item() == 3
    rising, falling = torch.tensor([1, 2, 3]), torch.tensor([6.0, 4.0, 2.0])
    assert correlation(rising, falling) == pytest.approx(-1)
    assert correlation(rising, torch.ones(3)) is None
    assert correlation(rising, torch.tensor([1, 2, 4])) == pytest.approx(0.981981, abs=1e-5)


def test_a_head_that_is_moved_by_each_bracket_follows_the_path():
    own = model()
    heads = own.sequence.layer.layers[0].heads
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.zero_()
        own.sequence.layer.layers[0].controller.weight_ih[0, 0] = 3.0  # u: h = tanh 3
        own.sequence.layer.layers[0].controller.weight_ih[0, 1] = -3.0
        heads.bias[heads.rows("read_gate")] = -50.0  # keep the current weights
        shift = heads.rows("read_shift")
        heads.weight[shift] = torch.tensor([[-60.0, 0], [0, 0], [60.0, 0]])
        heads.bias[heads.rows("read_sharpening")] = 5.0
    words = make_task("dyck")
    value = following(own.sequence, words, 1, LengthRange(6, 6), count=20)
    assert value == pytest.approx(1)
    below = make_task("dyck", train_lengths=LengthRange(1, 1), test_lengths=LengthRange(1, 1))
    seeds = (n for n in range(99) if (below.heights(below.batch(n, "test", 0, 1).inputs) < 0).any())
    assert following(own.sequence, below, next(seeds), LengthRange(1, 1), count=1) is None


def test_only_tapes_on_paths_have_a_correlation():
    lengths = LengthRange(2, 3)
    assert following(model().sequence, make_task("ntm_copy"), 1, lengths) is None
    assert following(model(memory="stack").sequence, make_task("dyck"), 1, lengths) is None
    # A text has no hundred examples; none are drawn.
    assert following(model().sequence, Text(), 1, lengths) is None
    alone = MemoryModel(inputs=2, outputs=1, memory="none", hidden_size=2)
    assert following(alone.sequence, make_task("dyck"), 1, lengths) is None
