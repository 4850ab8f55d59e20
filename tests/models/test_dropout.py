"""Dropout of the output layer's input in training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.experiments.tiny import planned, tiny
from unbounded.errors import ConfigError, ShapeError
from unbounded.experiments.config.check import errors
from unbounded.experiments.run.build import build_run
from unbounded.models import MemoryModel, SequenceModel


def test_dropout_only_in_training() -> None:
    torch.manual_seed(0)
    model = MemoryModel(inputs=5, outputs=7, dropout=0.5, hidden_size=6, embedding_size=4)
    tokens = torch.tensor([[0, 3, 4, 1]])
    hidden, _ = model.sequence.hidden(tokens)
    full = model.sequence.output(hidden)
    assert torch.equal(model.eval()(tokens)[0], full)
    model.train()
    seen = torch.stack([model(tokens)[0] for _ in range(2000)])
    assert not torch.equal(seen[0], seen[1])
    # The rest is divided by its share, so that the mean is unchanged.
    spread = seen.std(dim=0) / len(seen) ** 0.5
    assert bool(((seen.mean(dim=0) - full).abs() < 5 * spread).all())


@pytest.mark.parametrize("dropout", [-0.1, 1, 1.5, True, "0.5"])
def test_an_invalid_dropout(dropout: Any) -> None:
    with pytest.raises(ConfigError, match=r"dropout: expected a number in \[0, 1\), got"):
        MemoryModel(inputs=2, outputs=2, dropout=dropout)
    with pytest.raises(ShapeError, match=r"dropout: expected a number in \[0, 1\), got"):
        SequenceModel(2, 2, 2, torch.nn.LSTM(2, 2, batch_first=True), 2, dropout=dropout)


def test_errors_of_dropout_in_a_config() -> None:
    config = tiny()
    config.model.dropout = 1.0
    assert errors(config) == ["model.dropout: expected a number in [0, 1), got 1.0"]
    online = tiny(update="per_symbol")
    online.model.dropout = 0.5
    assert "model.dropout: a per-symbol update needs 0.0, got 0.5" in errors(online)


def test_a_loaded_model_keeps_its_dropout(tmp_path: Path) -> None:
    model = MemoryModel(inputs=2, outputs=2, dropout=0.25, hidden_size=4)
    model.save_pretrained(tmp_path)
    assert MemoryModel.from_pretrained(tmp_path).sequence.dropout == 0.25


def test_processes_share_weights_and_differ_in_dropout() -> None:
    def built(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        accelerator: Any = SimpleNamespace(
            process_index=rank,
            num_processes=3,
            device=torch.device("cpu"),
            prepare=lambda *parts: parts,
            unwrap_model=lambda model: model,
        )
        model = build_run(planned(tiny()), accelerator).model
        return torch.nn.utils.parameters_to_vector(model.parameters()), torch.rand(8)

    ranks = [built(rank) for rank in range(3)]
    assert all(torch.equal(ranks[0][0], weights) for weights, _ in ranks)
    assert len({tuple(drawn.tolist()) for _, drawn in ranks}) == 3
