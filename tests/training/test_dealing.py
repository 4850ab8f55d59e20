"""Batches of examples of like length: the same examples, each once, and less padding."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from tests.experiments.tiny import assert_same_run, tiny
from unbounded.errors import ConfigError
from unbounded.experiments.config.check import checked
from unbounded.experiments.run.run import train_run
from unbounded.tasks import LengthRange, make_task
from unbounded.training import Interrupted
from unbounded.training.dealing import Dealer
from unbounded.training.metrics_log import MetricsLog

LENGTHS = LengthRange(8, 64)
TASK = make_task("copy", symbols=4)


def words(batch):
    """The examples of a batch as tuples, whatever stands beside them."""
    rows = zip(
        batch.inputs.tolist(), batch.targets.tolist(), batch.mask.tolist(), batch.lengths.tolist(),
        strict=True,
    )  # fmt: skip
    return [tuple(tuple(field[:n]) for field in fields) for *fields, n in rows]


def test_one_has_the_examples_of_its_number_the_longest_first():
    dealer = Dealer(TASK, 3, 5)
    for number in (0, 1, 7):
        batch = dealer.batch(number, LENGTHS)
        want = words(TASK.batch(3, "train", number * 5, 5, LENGTHS))
        # Sorting keeps the order of equal lengths.
        assert words(batch) == sorted(want, key=lambda word: -len(word[0]))


@pytest.mark.parametrize("deal", [1, 4])
def test_the_longest_come_first(deal):
    dealer = Dealer(TASK, 3, 8, deal)
    for number in range(8):
        lengths = dealer.batch(number, LENGTHS).lengths.tolist()
        assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("deal", [2, 7])
def test_the_same_examples_each_once(deal):
    dealer = Dealer(TASK, 3, 5, deal)
    for group in (0, 4):
        numbers = range(group * deal, (group + 1) * deal)
        dealt = [word for n in numbers for word in words(dealer.batch(n, LENGTHS))]
        plain = words(TASK.batch(3, "train", group * deal * 5, deal * 5, LENGTHS))
        assert sorted(dealt) == sorted(plain)
        assert dealt != plain


def test_less_is_padding_and_nothing_is_cut_off():
    def padding(deal):
        dealer = Dealer(TASK, 1, 10, deal)
        batches = [dealer.batch(n, LENGTHS) for n in range(40)]
        for batch in batches:
            assert batch.inputs.shape[1] == int(batch.lengths.max())
            past = torch.arange(batch.inputs.shape[1]) >= batch.lengths.unsqueeze(1)
            assert not batch.mask[past].any()
        steps = sum(batch.inputs.numel() for batch in batches)
        return 1 - sum(int(batch.lengths.sum()) for batch in batches) / steps

    assert padding(1) > 0.3
    assert padding(10) < 0.08


def test_what_a_batch_has_depends_on_its_number_alone():
    one, other = Dealer(TASK, 1, 4, 5), Dealer(TASK, 1, 4, 5)
    forward = [one.batch(n, LENGTHS) for n in range(12)]
    for n in (11, 3, 4, 0, 9):
        assert all(map(torch.equal, other.batch(n, LENGTHS), forward[n]))
    assert not torch.equal(Dealer(TASK, 2, 4, 5).batch(0, LENGTHS).lengths, forward[0].lengths)


def test_short_batches_do_not_always_come_first():
    dealer = Dealer(TASK, 1, 4, 3)
    rising = 0
    for group in range(20):
        longest = [dealer.batch(3 * group + k, LENGTHS).inputs.shape[1] for k in range(3)]
        rising += longest == sorted(longest)
    assert 0 < rising < 12


@pytest.mark.parametrize("batch", [13, 16])
def test_a_run_that_is_interrupted_within_a_group_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    config = tiny(deal=8, batches=24, report_every=1)
    whole = train_run(config, root=tmp_path / "whole", quiet=True).folder
    append = MetricsLog.append

    def interrupting(log, line):
        append(log, line)
        if line["kind"] == "train" and line["batch"] == batch:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsLog, "append", interrupting)
        with pytest.raises(Interrupted):
            train_run(config, root=tmp_path / "cut", quiet=True)
    parted = train_run(config, root=tmp_path / "cut", quiet=True, resume=True).folder
    assert_same_run(whole, parted)


def test_what_it_does_not_go_with():
    with pytest.raises(ConfigError, match=r"training.deal: expected a number"):
        checked(tiny(deal=0))
    with pytest.raises(ConfigError, match="streams that are cut into pieces are not dealt"):
        checked(tiny(deal=2, piece_steps=5))
