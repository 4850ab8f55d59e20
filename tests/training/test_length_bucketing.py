"""Length bucketing: the same examples, each once, and less padding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.experiments.tiny import assert_interruption_after_changes_nothing, tiny
from unbounded.errors import ConfigError
from unbounded.experiments.config.check import checked
from unbounded.tasks import LengthRange, make_task
from unbounded.training.length_bucketing import LengthBuckets

LENGTHS = LengthRange(8, 64)
TASK = make_task("copy", symbols=4)


def words(batch):
    """The examples of a batch as tuples, without padding."""
    rows = zip(
        batch.inputs.tolist(), batch.targets.tolist(), batch.mask.tolist(), batch.lengths.tolist(),
        strict=True,
    )  # fmt: skip
    return [tuple(tuple(field[:n]) for field in fields) for *fields, n in rows]


def test_a_batch_has_the_examples_of_its_number_sorted_by_length():
    buckets = LengthBuckets(TASK, 3, 5)
    for number in (0, 1, 7):
        batch = buckets.batch(number, LENGTHS)
        want = words(TASK.batch(3, "train", number * 5, 5, LENGTHS))
        # Sorting keeps the order of equal lengths.
        assert words(batch) == sorted(want, key=lambda word: -len(word[0]))


@pytest.mark.parametrize("length_bucketing", [1, 4])
def test_each_batch_is_sorted_by_length(length_bucketing):
    buckets = LengthBuckets(TASK, 3, 8, length_bucketing)
    for number in range(8):
        lengths = buckets.batch(number, LENGTHS).lengths.tolist()
        assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("length_bucketing", [2, 7])
def test_bucketing_has_each_example_once(length_bucketing):
    buckets = LengthBuckets(TASK, 3, 5, length_bucketing)
    for group in (0, 4):
        numbers = range(group * length_bucketing, (group + 1) * length_bucketing)
        dealt = [word for n in numbers for word in words(buckets.batch(n, LENGTHS))]
        plain = words(
            TASK.batch(3, "train", group * length_bucketing * 5, length_bucketing * 5, LENGTHS)
        )
        assert sorted(dealt) == sorted(plain)
        assert dealt != plain


def test_bucketing_reduces_padding_and_truncates_nothing():
    def padding(length_bucketing):
        buckets = LengthBuckets(TASK, 1, 10, length_bucketing)
        batches = [buckets.batch(n, LENGTHS) for n in range(40)]
        for batch in batches:
            assert batch.inputs.shape[1] == int(batch.lengths.max())
            past = torch.arange(batch.inputs.shape[1]) >= batch.lengths.unsqueeze(1)
            assert not batch.mask[past].any()
        steps = sum(batch.inputs.numel() for batch in batches)
        return 1 - sum(int(batch.lengths.sum()) for batch in batches) / steps

    assert padding(1) > 0.3
    assert padding(10) < 0.08


def test_a_batch_depends_on_its_number_alone():
    one, other = LengthBuckets(TASK, 1, 4, 5), LengthBuckets(TASK, 1, 4, 5)
    forward = [one.batch(n, LENGTHS) for n in range(12)]
    for n in (11, 3, 4, 0, 9):
        assert all(map(torch.equal, other.batch(n, LENGTHS), forward[n]))
    assert not torch.equal(
        LengthBuckets(TASK, 2, 4, 5).batch(0, LENGTHS).lengths, forward[0].lengths
    )


def test_batches_are_not_sorted_by_length():
    buckets = LengthBuckets(TASK, 1, 4, 3)
    rising = 0
    for group in range(20):
        longest = [buckets.batch(3 * group + k, LENGTHS).inputs.shape[1] for k in range(3)]
        rising += longest == sorted(longest)
    assert 0 < rising < 12


@pytest.mark.parametrize("batch", [13, 16])
def test_a_run_that_is_interrupted_within_a_group_ends_the_same(tmp_path: Path, batch: int) -> None:
    config = tiny(length_bucketing=8, batches=24, report_every=1)
    assert_interruption_after_changes_nothing(config, tmp_path, batch)


def test_length_bucketing_excludes_other_options():
    with pytest.raises(ConfigError, match=r"training.length_bucketing: expected a number"):
        checked(tiny(length_bucketing=0))
    with pytest.raises(ConfigError, match="streams in chunks cannot be bucketed"):
        checked(tiny(length_bucketing=2, chunk_steps=5))
