"""Runs whose decisions are sharpened in training: interrupted, hardened, described wrongly."""

from __future__ import annotations

import dataclasses
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny import assert_same_run, metrics, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.compose import merged, preset_of
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.run import train_run
from unbounded.training import Interrupted, loop
from unbounded.training.steps import BatchTrainer
from unbounded.training.temperature_noise import TemperatureNoise

SHARP: dict[str, Any] = {
    "temperature_noise": 8,
    "temperature_noise_units": 2,
    "temperature_noise_below": 100.0,
}


@pytest.mark.parametrize("streams", [True, False])
def test_interrupted_in_a_batch_it_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    config = (
        tiny_streams(batches=8, **SHARP) if streams else tiny(batches=8, report_every=1, **SHARP)
    )
    config.hardening.batches = 0
    whole = train_run(config, root=tmp_path / "whole", quiet=True).folder
    plain = dataclasses.replace(
        config.training,
        temperature_noise=1,
        temperature_noise_units=1,
        temperature_noise_below=1e-3,
    )
    other = dataclasses.replace(config, training=plain)
    folder = train_run(other, root=tmp_path / "plain", quiet=True).folder
    assert metrics(folder) != metrics(whole)
    soft = dataclasses.replace(
        config, training=dataclasses.replace(config.training, temperature_noise_units=1)
    )
    folder = train_run(soft, root=tmp_path / "soft", quiet=True).folder
    assert metrics(folder) != metrics(whole)
    step = BatchTrainer._step

    def interrupting(trainer: BatchTrainer, chunk: Any, number: int) -> Any:
        result = step(trainer, chunk, number)
        if number == 5 and trainer._carried.chunk <= 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(BatchTrainer, "_step", interrupting)
        with pytest.raises(Interrupted):
            train_run(config, root=tmp_path / "cut", quiet=True)
    parted = train_run(config, root=tmp_path / "cut", quiet=True, resume=True).folder
    assert_same_run(whole, parted)


def noting(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Batch and greatest factor of each step that is sharpened."""
    seen: list[tuple[int, int]] = []
    of_step = TemperatureNoise.of_step

    def noted(
        inverse_temperature: TemperatureNoise, batch: int, chunk: int
    ) -> AbstractContextManager[None]:
        seen.append((batch, inverse_temperature.most))
        return of_step(inverse_temperature, batch, chunk)

    monkeypatch.setattr(TemperatureNoise, "of_step", noted)
    return seen


def test_a_hardening_goes_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_streams(batches=5, **SHARP)
    config.hardening = dataclasses.replace(
        config.hardening, batches=4, every=1, learning_rate=0.1, tolerance=1.0
    )
    seen = noting(monkeypatch)
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["hardened"]["batches"] == 4
    last = max(place for place, (batch, _) in enumerate(seen) if batch == 4)
    assert list(dict(seen[: last + 1])) == [0, 1, 2, 3, 4]
    # Its reports come with its looks, and it begins with 1 again.
    assert dict(seen[last + 1 :]) == {0: 1, 1: 2, 2: 4, 3: 8}


def test_factors_double_while_the_task_is_learned_at_all_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each report below the bound on whose batches all lengths were; else they halve."""
    seen = noting(monkeypatch)
    config = tiny_streams(batches=10, curriculum_every=2, **SHARP)
    config.hardening.batches = 0
    logged = metrics(train_run(config, root=tmp_path, quiet=True).folder)
    reports = [each for each in logged if each["kind"] == "train"]
    # Lengths of 2, 3 and 4: from batch 4 on there are all.
    most = [1, 1, 1, 1, 1, 2, 4, 8, 8, 8]
    assert list(dict(seen).values()) == most
    assert [each["greatest_factor"] for each in reports] == most
    least = min(each["loss_nats_per_token"] for each in reports)
    config.training.temperature_noise_below = least / 2
    seen.clear()
    train_run(config, root=tmp_path, quiet=True)
    assert set(dict(seen).values()) == {1}
    # Where the bound falls, what was below it is ten times above.
    bounds = iter([100.0] * 7 + [least / 20] * 3)
    greatest = loop.greatest_factor

    def falling(before: int, loss: float, *, below: float, limit: int) -> int:
        return greatest(before, loss, below=next(bounds), limit=limit)

    monkeypatch.setattr(loop, "greatest_factor", falling)
    config.training.temperature_noise_below, config.training.curriculum = 100.0, "none"
    config.training.curriculum_every = 1
    seen.clear()
    train_run(config, root=tmp_path, quiet=True)
    assert list(dict(seen).values()) == [1, 2, 4, 8, 8, 8, 8, 8, 4, 2]


def changed(*changes: dict[str, Any]) -> RunConfig:
    return from_dict(merged(preset_of("anbn"), {"training": SHARP}, *changes))


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            {"temperature_noise": 6},
            "temperature_noise: expected 1, for none, or a power of two up to",
        ),
        (
            {"temperature_noise_units": 3},
            "temperature_noise_units: expected 1, for none, or a power of two up to",
        ),
        (
            {"temperature_noise_units": 16},
            "temperature_noise_units: expected at most temperature_noise (8), got 16",
        ),
        ({"precision": "fp16"}, "temperature_noise: scaled logits exceed fp16; use bf16"),
        ({"temperature_noise_below": 0.0}, "temperature_noise_below: expected"),
        (
            {"update": "per_symbol"},
            "temperature_noise: a per-symbol update needs 1, got 8",
        ),
    ],
)
def test_what_is_wrong_with_it_is_said(training: dict[str, Any], message: str) -> None:
    assert any(message in error for error in errors(changed({"training": training})))


def test_a_memory_that_decides_nothing_has_none() -> None:
    config = changed()
    assert errors(config) == []
    config.model.memory = {"name": "none"}
    message = "training.temperature_noise: memory 'none' has no gates; leave it at 1"
    assert message in errors(config)


def test_another_memory_than_the_presets_and_1_have_none_of_it() -> None:
    for change in ({"model": {"memory": "none"}}, {"training": {"temperature_noise": 1}}):
        training = changed(change).training
        assert {name: getattr(training, name) for name in SHARP} == {
            "temperature_noise": 1,
            "temperature_noise_units": 1,
            "temperature_noise_below": 1e-3,
        }
    own = changed({"model": {"memory": "stack"}, "training": SHARP}).training
    assert {name: getattr(own, name) for name in SHARP} == SHARP
    config = changed({"training": {"temperature_noise": 1}})
    config.training.temperature_noise_below, config.training.temperature_noise_units = 3.0, 2
    for name in ("temperature_noise_below", "temperature_noise_units"):
        message = f"training.{name}: has no effect without temperature_noise"
        assert message in str(errors(config))


def test_units_without_a_bound_are_not_sharpened() -> None:
    relu = {"model": {"controller": {"name": "elman", "activation": "relu"}}}
    config = from_dict(merged(preset_of("anbn"), relu, {"training": SHARP}))
    message = "training.temperature_noise_units: needs bounded units, sigmoid or tanh"
    (error,) = errors(config)
    assert error.startswith(message)
    # What a preset says of them is not meant for such.
    config = from_dict(merged(preset_of("binary_addition"), relu))
    assert config.training.temperature_noise_units == 1
    assert config.training.temperature_noise > 1
    assert errors(config) == []


def test_a_loss_that_is_never_so_low_is_said() -> None:
    usual = {"training": {"temperature_noise_below": 1e-3}}
    message = "training.temperature_noise_below: a loss of 0.001 is never reached on task 'anbn'"
    (error,) = errors(changed(usual))
    assert error.startswith(message)
    assert errors(changed({"training": {"temperature_noise_below": 0.3}})) == []


def test_streams_converge_where_what_counts_is_determined() -> None:
    stop = {"training": {"stop": "converged"}}
    assert errors(from_dict(merged(preset_of("binary_addition"), stop))) == []
    message = "training.stop: 'converged' has no meaning on task 'binary_addition'; choose solved"
    everything = {"task_options": {"loss": "all"}, "training": {"temperature_noise": 1}}
    (error,) = errors(from_dict(merged(preset_of("binary_addition"), stop, everything)))
    assert error.startswith(message)
