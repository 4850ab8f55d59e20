"""Runs whose decisions are sharpened in training: interrupted, hardened, described wrongly."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny import assert_same_run, metrics, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.config.check import faults
from unbounded.experiments.config.compose import merged, preset_of
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.run import train_run
from unbounded.training import Interrupted
from unbounded.training.random_sharpness import RandomSharpness
from unbounded.training.steps import BatchTrainer

SHARP: dict[str, Any] = {
    "random_sharpness": 8,
    "random_sharpness_below": 100.0,
}


@pytest.mark.parametrize("streams", [True, False])
def test_interrupted_in_a_batch_it_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    config = (
        tiny_streams(batches=8, **SHARP) if streams else tiny(batches=8, report_every=1, **SHARP)
    )
    config.rounding.batches = 0
    whole = train_run(config, root=tmp_path / "whole", quiet=True).folder
    plain = dataclasses.replace(config.training, random_sharpness=1)
    plain = dataclasses.replace(plain, random_sharpness_below=1e-3)
    other = dataclasses.replace(config, training=plain)
    folder = train_run(other, root=tmp_path / "plain", quiet=True).folder
    assert metrics(folder) != metrics(whole)
    step = BatchTrainer._step

    def interrupting(trainer: BatchTrainer, piece: Any, number: int) -> Any:
        result = step(trainer, piece, number)
        if number == 5 and trainer._carry.piece <= 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(BatchTrainer, "_step", interrupting)
        with pytest.raises(Interrupted):
            train_run(config, root=tmp_path / "cut", quiet=True)
    parted = train_run(config, root=tmp_path / "cut", quiet=True, resume=True).folder
    assert_same_run(whole, parted)


def test_a_hardening_sharpens_by_its_own_schedule_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_streams(batches=5, **SHARP)
    config.rounding = dataclasses.replace(
        config.rounding, batches=4, every=1, learning_rate=0.1, tolerance=1.0
    )
    seen: list[int] = []
    factor = RandomSharpness.factor

    def noting(sharpness: RandomSharpness, batch: int, piece: int) -> float:
        seen.append(batch)
        return factor(sharpness, batch, piece)

    monkeypatch.setattr(RandomSharpness, "factor", noting)
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["rounded"]["batches"] >= 1
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3, 4}


def test_factors_double_while_the_task_is_learned_at_all_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each report below the bound on whose batches all lengths were."""
    most: dict[int, int] = {}
    factor = RandomSharpness.factor

    def noting(sharpness: RandomSharpness, batch: int, piece: int) -> float:
        most[batch] = sharpness.most
        drawn = factor(sharpness, batch, piece)
        assert 1 <= drawn <= sharpness.most
        return drawn

    monkeypatch.setattr(RandomSharpness, "factor", noting)
    config = tiny_streams(batches=10, curriculum_every=2, **SHARP)
    config.rounding.batches = 0
    losses = metrics(train_run(config, root=tmp_path, quiet=True).folder)
    # Lengths of 2, 3 and 4: from batch 4 on there are all.
    assert list(most.values()) == [1, 1, 1, 1, 1, 2, 4, 8, 8, 8]
    least = min(each["loss_nats_per_token"] for each in losses if each["kind"] == "train")
    config.training.random_sharpness_below = least / 2
    most.clear()
    train_run(config, root=tmp_path, quiet=True)
    assert set(most.values()) == {1}


def changed(*changes: dict[str, Any]) -> RunConfig:
    return from_dict(merged(preset_of("anbn"), {"training": SHARP}, *changes))


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            {"random_sharpness": 6},
            "random_sharpness: expected 1, for none, or a power of two up to",
        ),
        ({"random_sharpness_below": 0.0}, "random_sharpness_below: expected"),
        ({"update": "symbol"}, "random_sharpness: an update after every symbol needs 1, got 8"),
    ],
)
def test_what_is_wrong_with_it_is_said(training: dict[str, Any], message: str) -> None:
    assert any(message in fault for fault in faults(changed({"training": training})))


def test_a_memory_that_decides_nothing_has_none() -> None:
    config = changed()
    assert faults(config) == []
    config.model.memory = {"name": "none"}
    message = "training.random_sharpness: memory 'none' decides nothing; leave it at 1"
    assert message in faults(config)


def test_another_memory_than_the_presets_and_1_have_none_of_it() -> None:
    for change in ({"model": {"memory": "none"}}, {"training": {"random_sharpness": 1}}):
        training = changed(change).training
        assert {name: getattr(training, name) for name in SHARP} == {
            "random_sharpness": 1,
            "random_sharpness_below": 1e-3,
        }
    own = changed({"model": {"memory": "stack"}, "training": SHARP}).training
    assert {name: getattr(own, name) for name in SHARP} == SHARP
    config = changed({"training": {"random_sharpness": 1}})
    config.training.random_sharpness_below = 3.0
    assert "training.random_sharpness_below: has no effect without random_sharpness" in str(
        faults(config)
    )


def test_streams_converge_where_what_counts_is_determined() -> None:
    stop = {"training": {"stop": "converged"}}
    assert faults(from_dict(merged(preset_of("binary_addition"), stop))) == []
    message = "training.stop: 'converged' has no meaning on task 'binary_addition'; choose solved"
    everything = {"task_options": {"loss": "all"}}
    (fault,) = faults(from_dict(merged(preset_of("binary_addition"), stop, everything)))
    assert fault.startswith(message)
