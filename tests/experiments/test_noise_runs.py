"""Runs with noise on temperatures or logits: interruption, hardening and invalid options."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny import assert_interruption_changes_nothing, gradual, metrics, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.run import train_run
from unbounded.training import LoopState
from unbounded.training.chunk_update import ChunkUpdate
from unbounded.training.hooks.logit_noise import LogitNoise
from unbounded.training.hooks.temperature_noise import TemperatureNoise

NOISE: dict[str, Any] = {"name": "doubling", "limit": 8, "units": 2, "below": 100.0}
SHARP: dict[str, Any] = {"temperature_noise": NOISE}


@pytest.mark.parametrize("streams", [True, False])
def test_a_run_interrupted_in_a_batch_ends_the_same(tmp_path: Path, streams: bool) -> None:
    config = (
        tiny_streams(batches=8, **SHARP) if streams else tiny(batches=8, report_every=1, **SHARP)
    )

    def first_of_five(place: int, trainer: ChunkUpdate, chunk: Any, number: int) -> bool:
        return number == 5 and trainer._carried.chunk == 0

    full = assert_interruption_changes_nothing(
        config, tmp_path, ChunkUpdate, "_step", first_of_five
    )
    for name, noise in (("plain", {"name": "none"}), ("soft", {**NOISE, "units": 1})):
        training = dataclasses.replace(config.training, temperature_noise=noise)
        other = dataclasses.replace(config, training=training)
        folder = train_run(other, root=tmp_path / name, quiet=True).folder
        assert metrics(folder) != metrics(full)


def noting(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Batch and greatest factor of each step with temperature noise."""
    seen: list[tuple[int, int]] = []
    around_step = TemperatureNoise.around_step

    def noted(
        inverse_temperature: TemperatureNoise, batch: int, chunk: int
    ) -> AbstractContextManager[None]:
        seen.append((batch, inverse_temperature.most))
        return around_step(inverse_temperature, batch, chunk)

    monkeypatch.setattr(TemperatureNoise, "around_step", noted)
    return seen


def test_hardening_continues_with_temperature_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_streams(batches=5, **SHARP)
    own = {"batches": 4, "every": 1, "learning_rate": 0.1, "tolerance": 1.0}
    config.hardening = {"name": "gradual", **own}
    seen = noting(monkeypatch)
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["hardened"]["batches"] == 4
    last = max(place for place, (batch, _) in enumerate(seen) if batch == 4)
    assert list(dict(seen[: last + 1])) == [0, 1, 2, 3, 4]
    # It reports at its checks, and the factor starts at 1 again.
    assert dict(seen[last + 1 :]) == {0: 1, 1: 2, 2: 4, 3: 8}


def test_factors_double_while_the_task_is_learned_at_all_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Factors double after a report below the bound on all lengths, and halve otherwise."""
    seen = noting(monkeypatch)
    config = tiny_streams(batches=10, curriculum={"every": 2}, **SHARP)
    logged = metrics(train_run(config, root=tmp_path, quiet=True).folder)
    reports = [each for each in logged if each["kind"] == "train"]
    # Lengths of 2, 3 and 4: from batch 4 on all are drawn.
    most = [1, 1, 1, 1, 1, 2, 4, 8, 8, 8]
    assert list(dict(seen).values()) == most
    assert [each["greatest_factor"] for each in reports] == most
    least = min(each["loss_nats_per_token"] for each in reports)
    config.training.temperature_noise["below"] = least / 2
    seen.clear()
    train_run(config, root=tmp_path, quiet=True)
    assert set(dict(seen).values()) == {1}
    # After the bound falls, a loss that was below it is ten times above.
    bounds = iter([100.0] * 7 + [least / 20] * 3)
    on_report = TemperatureNoise.on_report

    def falling(noise: TemperatureNoise, state: LoopState, loss: float) -> dict[str, Any]:
        noise._below = next(bounds)
        return on_report(noise, state, loss)

    monkeypatch.setattr(TemperatureNoise, "on_report", falling)
    config.training.curriculum = {"name": "none"}
    seen.clear()
    train_run(config, root=tmp_path, quiet=True)
    assert list(dict(seen).values()) == [1, 2, 4, 8, 8, 8, 8, 8, 4, 2]


def changed(*changes: dict[str, Any]) -> RunConfig:
    return composed(overlay(preset_of("anbn"), {"training": SHARP}, *changes))


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"limit": 6}, "limit: expected a power of two from 2 to 1024, got 6"),
        ({"units": 3}, "units: expected a power of two from 1 to 1024, got 3"),
        ({"units": 16}, "units: expected at most the limit 8, got 16"),
        ({"below": 0.0}, "below: expected a number above"),
    ],
)
def test_an_invalid_option_of_temperature_noise_is_an_error(
    noise: dict[str, Any], message: str
) -> None:
    found = errors(changed({"training": {"temperature_noise": noise}}))
    assert any(f"temperature_noise.{message}" in error for error in found)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"precision": "fp16"}, "scaled logits exceed fp16; use bf16"),
        ({"temperature_noise": {"name": "other"}}, "unknown temperature noise 'other'."),
        ({"update": "per_symbol"}, "a per-symbol update needs 'none', got 'doubling'"),
    ],
)
def test_options_that_exclude_temperature_noise_are_errors(
    training: dict[str, Any], message: str
) -> None:
    found = errors(changed({"training": training}))
    assert any(f"temperature_noise: {message}" in error for error in found)


def test_a_memory_without_gates_trains_without_temperature_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(batches=4, report_every=1, **SHARP)
    config.model.memory = {"name": "none"}
    assert errors(config) == []
    seen = noting(monkeypatch)
    train_run(config, root=tmp_path, quiet=True)
    assert seen == []


def test_units_without_a_bound_are_not_sharpened() -> None:
    relu = {"model": {"controller": {"name": "elman", "activation": "relu"}}}
    config = composed(overlay(preset_of("anbn"), relu, {"training": SHARP}))
    message = "training.temperature_noise.units: needs bounded units, sigmoid or tanh"
    (error,) = errors(config)
    assert error.startswith(message)
    one = {"training": {"temperature_noise": {"units": 1}}}
    assert errors(composed(overlay(preset_of("binary_addition"), relu, one))) == []


def test_an_unreachable_loss_is_an_error() -> None:
    noise = {"name": "doubling", "limit": 8}
    usual = {"training": {"temperature_noise": noise}}
    message = "training.temperature_noise.below: the default loss is never reached on task 'anbn'"
    (error,) = errors(composed(overlay(preset_of("anbn"), usual)))
    assert error.startswith(message)
    assert errors(changed({"training": {"temperature_noise": {"below": 0.3}}})) == []


def test_converged_needs_a_loss_on_determined_symbols() -> None:
    stop = {"training": {"stop": "converged"}}
    assert errors(composed(overlay(preset_of("binary_addition"), stop))) == []
    message = "training.stop: 'converged' has no meaning on task 'binary_addition'; choose solved"
    everything = {"task": {"loss": "all"}, "training": {"temperature_noise": "none"}}
    (error,) = errors(composed(overlay(preset_of("binary_addition"), stop, everything)))
    assert error.startswith(message)


def test_the_offset_grows_with_the_inverse_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {}
    shifted = LogitNoise._shifted

    def noted(
        noise: LogitNoise, size: float, batch: int, chunk: int
    ) -> AbstractContextManager[None]:
        sizes[batch] = size
        return shifted(noise, size, batch, chunk)

    monkeypatch.setattr(LogitNoise, "_shifted", noted)
    config = tiny(batches=4)
    config.hardening = gradual(batches=6, every=2, factor=2.0, tolerance=1.0, logit_noise=0.5)
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["hardened"]["batches"] == 6
    # Sharpened after batches 1, 2 and 4; batch 0 has the gates' own temperature.
    assert sizes == {1: 0.5, 2: 1.5, 3: 1.5, 4: 3.5, 5: 3.5}
