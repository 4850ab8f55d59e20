from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.experiments.tiny import tiny
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.run import train_run
from unbounded.rnn import MemoryRNN


def learner(**training: Any) -> RunConfig:
    config = tiny(**{"batch_size": 16, "accuracy_every": 0, "validation_count": 100, **training})
    config.model.hidden_size, config.model.embedding_size, config.model.readout_size = 16, 8, 8
    config.model.memory["width"] = 8
    config.seed = 1
    return config


def generaliser() -> RunConfig:
    """The strings are too long for the controller; without a memory it solves few of them."""
    config = learner(batches=1500, stop="budget", checkpoint_every=2000)
    config.task |= {"symbols": 8, "train_lengths": "3:8", "test_lengths": "9:14"}
    config.evaluation["count"] = 100
    return config


@contextmanager
def zeroed_read_vector() -> Iterator[None]:
    """The controller gets zeros instead of the read vector, without a gradient."""
    original = MemoryRNN.forward

    def forward(layer: MemoryRNN, x: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        width = layer.memory.read_vector_size
        with torch.no_grad():
            columns = layer.layers[0].controller.weight_ih
            assert isinstance(columns, torch.Tensor)
            columns[:, -width:] = 0
        return original(layer, x, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryRNN, "forward", forward)
        yield


@contextmanager
def broken_gradient() -> Iterator[None]:
    """The gradient of the loss has the wrong sign."""
    from accelerate import Accelerator

    backward = Accelerator.backward

    def negated(self: Accelerator, loss: torch.Tensor, **named: Any) -> None:
        backward(self, -loss, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Accelerator, "backward", negated)
        yield


def test_training_learns_the_training_range(tmp_path: Path) -> None:
    config = learner(batches=150, stop="budget")
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["rows"][0]["exact_match"] >= 0.9
    assert report["perplexity_train"] < 1.2


def test_nothing_is_learned_from_a_broken_gradient(tmp_path: Path) -> None:
    config = learner(batches=150, stop="budget")
    with broken_gradient():
        report = train_run(config, root=tmp_path, quiet=True).report
    assert report["rows"][0]["exact_match"] <= 0.2
    assert report["perplexity_train"] > 2


@pytest.mark.slow
def test_a_queue_lstm_generalises_beyond_its_training_lengths(tmp_path: Path) -> None:
    report = train_run(generaliser(), root=tmp_path, quiet=True).report
    # The threshold allows for the roundings of kernels, reference and processors.
    assert report["rows"][0]["exact_match"] >= 0.95
    assert report["rows"][1]["exact_match"] >= 0.6


@pytest.mark.slow
def test_without_the_read_vector_a_queue_lstm_does_not_generalise(tmp_path: Path) -> None:
    with zeroed_read_vector():
        report = train_run(generaliser(), root=tmp_path, quiet=True).report
    assert report["rows"][1]["exact_match"] <= 0.3
