"""Tied embeddings: one matrix for input and output."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.func import functional_call

from tests.experiments.tiny import planned, tiny
from unbounded.errors import ConfigError, ShapeError
from unbounded.experiments.config.check import errors
from unbounded.models import MemoryModel, SequenceModel


def model(**options: Any) -> MemoryModel:
    torch.manual_seed(0)
    sizes = {"inputs": 5, "outputs": 5, "hidden_size": 4, "embedding_size": 4}
    return MemoryModel(**{**sizes, "tied_embeddings": True, **options})


def test_a_replaced_embedding_has_as_many_symbols() -> None:
    tied = model()
    tied.sequence.embedding = torch.nn.Embedding(7, 4)
    with pytest.raises(ShapeError, match=r"embedding: expected 5 symbols, .* got 7"):
        tied(torch.tensor([[1, 2, 3]]))


def test_the_matrix_is_one_parameter_with_both_gradients() -> None:
    tied, tokens = model(), torch.tensor([[1, 2, 3]])
    names = [name for name, _ in tied.named_parameters()]
    assert "sequence.output.bias" in names
    assert "sequence.output.weight" not in names
    assert tied.sequence.embedding is not None
    table = tied.sequence.embedding.weight
    hidden, _ = tied.sequence.hidden(tokens)
    logits, _ = tied(tokens)
    bias = tied.sequence.output.bias
    assert bias is not None
    assert torch.equal(logits, hidden @ table.T + bias)
    apart = {"embedding": table.detach().clone(), "output": table.detach().clone()}
    both = MemoryModel(inputs=5, outputs=5, hidden_size=4, embedding_size=4)
    both.load_state_dict({**tied.state_dict(), "sequence.output.weight": apart["output"]})
    for each in (tied, both):
        each(tokens)[0].square().sum().backward()
    assert both.sequence.embedding is not None
    input_grad, output_grad = both.sequence.embedding.weight.grad, both.sequence.output.weight.grad
    assert table.grad is not None
    assert input_grad is not None
    assert output_grad is not None
    assert bool(input_grad.any())
    assert bool(output_grad.any())
    assert torch.allclose(table.grad, input_grad + output_grad, atol=1e-5)


@pytest.mark.parametrize("initialization", ["normal", "torch", "sums", "glorot"])
def test_the_matrix_has_the_output_initialization(initialization: str) -> None:
    sizes = {"inputs": 400, "outputs": 400, "hidden_size": 100, "embedding_size": 100}
    weight = model(**sizes, output_initialization=initialization).sequence.output.weight.detach()
    expected = {"normal": 1.0, "torch": 0.1 / 3**0.5, "sums": 0.1, "glorot": (2 / 500) ** 0.5}
    assert float(weight.std()) == pytest.approx(expected[initialization], rel=0.02)
    small = model(**sizes, output_initialization=initialization, symbol_initialization="sums")
    assert float(small.sequence.output.weight.detach().std()) == pytest.approx(0.1, rel=0.02)


def test_copies_casts_and_files_keep_it_tied(tmp_path: Path) -> None:
    tied, tokens = model(), torch.tensor([[1, 2, 3]])
    tied.save_pretrained(tmp_path)
    read = MemoryModel.from_pretrained(tmp_path)
    assert torch.equal(read(tokens)[0], tied(tokens)[0])
    for each in (copy.deepcopy(tied).double(), read):
        assert each.sequence.embedding is not None
        with torch.no_grad():
            each.sequence.embedding.weight.zero_()
        assert not each.sequence.output.weight.any()
    weights = {name: torch.zeros_like(value) for name, value in tied.state_dict().items()}
    assert not functional_call(tied, weights, (tokens,))[0].any()
    assert tied(tokens)[0].any()


def test_a_replaced_embedding_is_also_the_outputs() -> None:
    tied, tokens = model(), torch.tensor([[1, 2, 3]])
    other = torch.nn.Embedding(5, 4)
    tied.sequence.embedding = other
    for each in (tied, copy.deepcopy(tied), pickle.loads(pickle.dumps(tied))):
        hidden, _ = each.sequence.hidden(tokens)
        assert torch.equal(each.sequence.output.weight, other.weight)
        assert torch.equal(each(tokens)[0], hidden @ other.weight.T + each.sequence.output.bias)
    tied.sequence.embedding = None
    with pytest.raises(ShapeError, match=r"embedding: expected an nn\.Embedding, which the output"):
        tied.sequence.output(hidden)


def test_embeddings_that_cannot_be_tied() -> None:
    with pytest.raises(ConfigError, match="one-hot symbols have no embeddings"):
        model(embedding_size=None)
    with pytest.raises(ConfigError, match="got 5 input symbols and 6 output symbols"):
        model(outputs=6)
    with pytest.raises(ShapeError, match="give embedding_size 3"):
        model(readout_size=3)
    layer = torch.nn.LSTM(2, 2, batch_first=True)
    with pytest.raises(ShapeError, match="one-hot symbols have no embeddings"):
        SequenceModel(2, 2, None, layer, 2, tied_embeddings=True)


def test_errors_of_dropout_in_a_config() -> None:
    config = tiny()
    config.model.tied_embeddings = True
    config.model.embedding_size = None
    assert [line for line in errors(config) if line.startswith("model.tied_embeddings: one-hot")]
    config.model.embedding_size = 8
    assert not [line for line in errors(config) if "tied" in line]
    with pytest.raises(ConfigError, match="input symbols and 4 output symbols"):
        planned(config).model()
