"""Multi-query associative recall against a dictionary, and its distributions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange, make_task


def test_each_queried_key_has_its_value():
    task = make_task("mqar", symbols=64, test_lengths="17:20")
    for source, target in task.examples(1, "test", 0, 60, LengthRange(3, 20)):
        pairs = len(source) // 8
        assert len(source) == len(target) == 8 * pairs
        held = dict(zip(source[0 : 2 * pairs : 2], source[1 : 2 * pairs : 2], strict=True))
        assert len(held) == len(set(held.values())) == pairs
        assert all(1 <= int(key[1:]) < 32 <= int(value[1:]) for key, value in held.items())
        asked = {place: value for place, value in enumerate(target) if value != "-"}
        assert all(place >= 2 * pairs and place % 2 == 0 for place in asked)
        assert {source[place]: value for place, value in asked.items()} == held
    batch = task.batch(1, "test", 0, 60, LengthRange(3, 20))
    assert (8 * batch.mask.sum(1) == batch.lengths).all()
    assert not batch.inputs[:, 24:][batch.lengths == 24].any()
    examples = task.examples(1, "train", 5, 4)
    assert task.example(1, "train", 7) == examples[2]
    assert task.examples(2, "train", 5, 4) != examples


def test_distances_follow_the_power_law():
    """With one pair the distance's distribution is the power law itself; fillers are uniform."""
    task = make_task("mqar", symbols=16, steps=12, train_lengths="1:1", test_lengths="2:2")
    batch = task.batch(1, "train", 0, 4000)
    gaps = Counter(((batch.mask.long().argmax(dim=1) - 2) // 2).tolist())
    weights = np.arange(1, 6) ** (0.01 - 1)
    expected = 4000 * weights / weights.sum()
    assert chisquare([gaps[gap] for gap in range(5)], expected).pvalue > 1e-3
    keys, values = Counter(batch.inputs[:, 0].tolist()), Counter(batch.inputs[:, 1].tolist())
    assert (set(keys), set(values)) == (set(range(1, 8)), set(range(8, 16)))
    fillers = Counter(batch.inputs[:, 3].tolist())
    for counts in (keys, values, fillers):
        assert chisquare(list(counts.values())).pvalue > 1e-3
    assert len(fillers) == 16


def test_bad_input_is_named():
    with pytest.raises(ConfigError) as caught:
        make_task("mqar", symbols=1, steps=3, power=0.0)
    assert [error.split(":")[0] for error in caught.value.errors] == ["symbols", "steps", "power"]
    with pytest.raises(ConfigError, match="test_lengths: length range: expected at most 31 pairs"):
        make_task("mqar", symbols=64)
