"""Sizes that do not fit into memory are errors that name the option to lower."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.experiments.tiny import planned, tiny
from tests.experiments.tiny_streams import tiny_streams, tiny_text
from unbounded.cli.overlay import compose_config, sorted_words
from unbounded.errors import ConfigError
from unbounded.experiments.config.compose import composed
from unbounded.experiments.config.presets import PRESETS
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run import ram_check
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.ram_check import check_ram, memory_of
from unbounded.experiments.run.run import train_run

CPU = torch.device("cpu")
GB = 1e9


def preset(task: str, *options: str) -> RunConfig:
    words = sorted_words(options)
    return composed(compose_config(task, words.options).data)


@pytest.fixture
def small_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ram_check, "memory_of", lambda device: 8 * GB)


@pytest.mark.parametrize(
    ("task", "name", "value"),
    [
        ("copy", "training.batch_size", 1_000_000),
        ("anbn", "training.batch_size", 1_000_000),
        ("copy", "model.hidden_size", 100_000),
        ("copy", "model.memory.width", 900_000),
        ("anbn", "model.hidden_size", 50_000_000),
        ("anbn", "training.validation_count", 1_000_000_000),
        ("anbn", "evaluation.count", 1_000_000_000),
        ("copy", "evaluation.count", 1_000_000_000),
        ("copy", "training.accuracy_count", 1_000_000_000),
    ],
)
def test_absurd_sizes_are_refused(small_host: None, task: str, name: str, value: int) -> None:
    config = preset(task, f"--{name}", str(value))
    with pytest.raises(ConfigError) as caught:
        check_ram(planned(config), CPU)
    assert any(error.startswith(f"{name}: {value} would take") for error in caught.value.errors)
    assert "8 GB in all; give a smaller number" in str(caught.value)


@pytest.mark.parametrize(
    ("memory", "name", "value"),
    [
        ("dnc", "slots", 100_000),
        ("turing_tape", "slots", 100_000_000),
        ("nondeterministic_stack", "symbols", 3000),
    ],
)
def test_a_state_that_does_not_fit_is_refused(
    small_host: None, memory: str, name: str, value: int
) -> None:
    """A DNC of 100 000 slots has 10^10 links: once its training started, and torch raised."""
    config = preset("copy", "--model.memory", memory, f"--model.memory.{name}", str(value))
    with pytest.raises(ConfigError, match=f"model.memory.{name}: {value} would take"):
        check_ram(planned(config), CPU)


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        (["--task.train_lengths", "1:5000"], r"after \d+ steps .*lower training.batch_size"),
        (
            ["--model.memory.symbols", "15", "--model.memory.states", "30"],
            r"after \d+ steps .*states or training.batch_size, or shorten",
        ),
        (
            ["--model.memory.symbols", "15", "--model.memory.states", "8"],
            r"after \d+ steps .*states or evaluation.lengths",
        ),
    ],
)
def test_a_state_that_grows_is_checked_for_the_last_step(
    small_host: None, sizes: list[str], error: str
) -> None:
    words = ("even_pairs", "--model.memory", "nondeterministic_stack")
    check_ram(planned(preset(*words)), CPU)
    with pytest.raises(ConfigError, match=error):
        check_ram(planned(preset(*words, *sizes)), CPU)


def test_a_state_of_longer_sequences_that_does_not_fit_is_refused(small_host: None) -> None:
    """Otherwise the run would fail after its training."""
    words = ("copy", "--model.memory", "dnc", "--evaluation.memory")
    check_ram(planned(preset(*words, '{"slots": 1000}')), CPU)
    with pytest.raises(ConfigError, match=r"evaluation.memory.slots: 100000 would take at least"):
        check_ram(planned(preset(*words, '{"slots": 100000}')), CPU)


@pytest.mark.usefixtures("small_host")
@pytest.mark.parametrize("task", sorted(set(PRESETS) - {"penn_treebank", "pairs", "text"}))
def test_presets_fit(task: str) -> None:
    config = preset(task)
    check_ram(planned(config), CPU)


def test_a_text_of_many_strips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = planned(tiny_text(tmp_path))
    check_ram(own, CPU)
    monkeypatch.setattr(ram_check, "memory_of", lambda device: 1000.0)
    with pytest.raises(ConfigError, match="would take at least"):
        check_ram(own, CPU)


def test_too_little_memory_stops_training_and_evaluation_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = train_run(tiny_streams(batches=1), root=tmp_path, quiet=True).folder
    monkeypatch.setattr(ram_check, "memory_of", lambda device: GB)
    with pytest.raises(ConfigError, match="count: 1000000000 would take at least"):
        evaluate_run(folder, count=10**9)
    monkeypatch.setattr(ram_check, "memory_of", lambda device: 100.0)
    config = tiny(batches=1)
    with pytest.raises(ConfigError, match="give a smaller number"):
        train_run(config, root=tmp_path / "none", quiet=True)
    assert not list((tmp_path / "none").glob("copy*"))


def test_the_memory_of_this_host() -> None:
    assert 1e8 < memory_of(CPU) < 1e15
