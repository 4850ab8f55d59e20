"""A layer's input for a symbol: its number, its bits, or low bits and a number."""

from __future__ import annotations

import warnings

import pytest
import torch

from unbounded.errors import BackendWarning, ConfigError, DTypeError, ShapeError
from unbounded.evaluation.removal import without_stacks
from unbounded.experiments.config.check import model_errors
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.schema import ModelConfig
from unbounded.models.inputs import bit_inputs, input_size
from unbounded.models.memory_model import MemoryModel


def model(symbols, bits, **options):
    options = {"memory": "none", "hidden_size": 5, "embedding_size": None, **options}
    return MemoryModel(inputs=symbols, outputs=2, input_bits=bits, **options)


@pytest.mark.parametrize(
    ("symbols", "bits", "token", "seen"),
    [
        (2, 0, 1, [1.0]),
        (512, 9, 0b100000110, [0, 1, 1, 0, 0, 0, 0, 0, 1]),
        (256, 9, 3, [1, 1, 0, 0, 0, 0, 0, 0, 0]),
        (4 * 7, 2, 4 * 5 + 2, [0, 1, 5]),
        (4, 2, 3, [1, 1]),
    ],
)
def test_a_symbol_as_numbers(symbols, bits, token, seen):
    own = model(symbols, bits).sequence
    tokens = torch.tensor([[token]])
    assert own.embed(tokens).tolist() == [[[float(each) for each in seen]]]
    assert input_size(symbols, bits) == len(seen) == own.layer.input_size
    assert bit_inputs(tokens, symbols, bits, torch.float64).dtype == torch.float64
    assert own(tokens)[0].shape == (1, 1, 2)


@pytest.mark.parametrize(
    ("symbols", "bits", "seen"),
    [
        (8, 0, [0, 0.25, 0.5, 0.75, -1, -0.75, -0.5, -0.25]),
        (4, 1, [0, 0, -1, -1]),
        (3, 0, [0, 2 / 3, -2 / 3]),
    ],
)
def test_a_number_as_a_fraction(symbols, bits, seen):
    own = model(symbols, bits, input_number="fraction").sequence
    numbers = own.embed(torch.arange(symbols).unsqueeze(0))[0, :, -1]
    assert torch.allclose(numbers, torch.tensor(seen, dtype=torch.float32))


def test_a_model_of_bits_is_built_again_from_its_keywords(tmp_path):
    own = model(512, 9, memory="stack")
    own.save_pretrained(tmp_path)
    again = MemoryModel.from_pretrained(tmp_path)
    tokens = torch.randint(512, (2, 4))
    assert torch.equal(again(tokens)[0], own(tokens)[0])


def test_errors():
    for bits, text in ((25, "an integer from 0 to 24, got 25"), (True, "an integer from 0 to 24")):
        with pytest.raises(ConfigError, match=f"input_bits: expected {text}"):
            model(4, bits)
    with pytest.raises(ConfigError, match="input_bits: has no meaning with embeddings"):
        model(4, 2, embedding_size=3)
    with pytest.raises(ConfigError, match=r"unknown input_number 'fractions'. Did you mean 'fract"):
        model(4, 1, input_number="fractions")
    with pytest.raises(ConfigError, match="input_number: fraction has no effect without input_bit"):
        model(4, None, input_number="fraction")
    for symbols in ("normal", "sums"):
        with pytest.raises(ConfigError, match="or feed the symbols one-hot"):
            model(4, 2, symbol_initialization=symbols)
    assert model_errors(ModelConfig(input_bits=2)) == [
        "model.input_bits: has no meaning with embeddings; give embedding_size null, or leave it "
        "out"
    ]


def test_embeddings_exclude_bits():
    preset = preset_of("ntm_copy")
    assert preset["model"]["input_bits"] == 9
    both = composed(overlay(preset, {"model": {"embedding_size": 16}})).model
    assert model_errors(both) == [
        "model.input_bits: has no meaning with embeddings; give embedding_size null, or leave it "
        "out"
    ]
    own = {"model": {"embedding_size": 16, "input_bits": None}}
    assert model_errors(composed(overlay(preset, own)).model) == []


def test_removing_a_stack_adds_no_constant_to_bits_without_a_bias():
    own = model(
        4, 2, memory={"name": "superposition_stack", "count": 3},
        controller={"name": "elman", "recurrent": False, "bias": False},
    )  # fmt: skip
    with pytest.raises(ConfigError, match="expected one-hot symbols or a controller with a bias"):
        without_stacks(own, [0])


@pytest.mark.parametrize("embedding_size", [3, None])
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[1, 5]]), r"expected tokens in 0\.\.4, one of 5 symbols each, got 5"),
        (torch.tensor([[1, -1]]), r"expected tokens in 0\.\.4, one of 5 symbols each, got -1"),
        (torch.tensor([[True]]), r"expected int64 tokens \[B, T\], got torch\.bool"),
        (torch.tensor([[1.0]]), r"expected int64 tokens \[B, T\], got torch\.float32"),
        (torch.tensor([1]), r"expected int64 tokens \[B, T\], got torch\.int64 \[1\]"),
        (torch.tensor([1], dtype=torch.uint8), r"expected int64 tokens \[B, T\], got torch\.uint8"),
        (torch.tensor([[200]], dtype=torch.uint8), r"expected tokens in 0\.\.4, .* got 200"),
        ([[1]], r"expected a tensor, got list"),
    ],
)
def test_invalid_tokens(tokens, message, embedding_size):
    """Tokens out of range, or bools."""
    own = model(5, None, embedding_size=embedding_size)
    with pytest.raises((ShapeError, DTypeError), match=f"inputs: {message}"):
        own(tokens)


@pytest.mark.parametrize("options", [{"embedding_size": 3}, {}, {"input_bits": 9}])
@pytest.mark.parametrize("symbols", [5, 200])
@pytest.mark.parametrize("kind", [torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16])
def test_tokens_may_be_any_integers(kind, symbols, options):
    own = MemoryModel(
        inputs=symbols, outputs=2, hidden_size=5, **{"embedding_size": None, **options}
    )
    tokens = torch.tensor([[1, 4, 0]])
    assert torch.equal(own(tokens.to(kind))[0], own(tokens)[0])


def test_tokens_of_each_sample_by_vmap():
    own = model(4, 2, memory="stack").sequence
    tokens = torch.tensor([[[1, 2, 3]], [[0, 1, 2]]])
    with warnings.catch_warnings(action="ignore", category=BackendWarning):
        logits = torch.func.vmap(lambda each: own(each)[0])(tokens)
    torch.testing.assert_close(logits[:, 0], own(tokens[:, 0])[0])
