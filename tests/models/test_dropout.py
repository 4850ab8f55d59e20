"""What the logits are made of, in part, while a model trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.experiments.tiny import tiny
from unbounded.errors import ConfigError, ShapeError
from unbounded.experiments.config.check import faults
from unbounded.models import MemoryModel, SequenceModel


def test_it_drops_in_training_alone() -> None:
    torch.manual_seed(0)
    model = MemoryModel(inputs=5, outputs=7, dropout=0.5, hidden_size=6, embedding_size=4)
    tokens = torch.tensor([[0, 3, 4, 1]])
    hidden, _ = model.sequence.hidden(tokens)
    whole = model.sequence.output(hidden)
    assert torch.equal(model.eval()(tokens)[0], whole)
    model.train()
    seen = torch.stack([model(tokens)[0] for _ in range(2000)])
    assert not torch.equal(seen[0], seen[1])
    # What is left is divided by the share that is left, so that the mean is the whole.
    assert torch.allclose(seen.mean(dim=0), whole, atol=0.25)


@pytest.mark.parametrize("dropout", [-0.1, 1, 1.5, True, "0.5"])
def test_a_share_that_is_none(dropout: object) -> None:
    with pytest.raises(ConfigError, match=r"dropout: expected a number in \[0, 1\), got"):
        MemoryModel(inputs=2, outputs=2, dropout=dropout)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"dropout: expected a number in \[0, 1\), got"):
        SequenceModel(
            2,
            2,
            2,
            torch.nn.LSTM(2, 2, batch_first=True),
            2,
            dropout=dropout,  # type: ignore[arg-type]
        )


def test_a_config_says_so_too() -> None:
    config = tiny()
    config.model.dropout = 1.0
    assert faults(config) == ["model.dropout: expected a number in [0, 1), got 1.0"]
    online = tiny(update="symbol")
    online.model.dropout = 0.5
    assert "model.dropout: an update after every symbol needs 0.0, got 0.5" in faults(online)


def test_a_model_that_is_read_back_drops_as_much(tmp_path: Path) -> None:
    model = MemoryModel(inputs=2, outputs=2, dropout=0.25, hidden_size=4)
    model.save_pretrained(tmp_path)
    assert MemoryModel.from_pretrained(tmp_path).sequence.dropout == 0.25
