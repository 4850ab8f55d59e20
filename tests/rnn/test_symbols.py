"""Symbol lookup against the same symbols one-hot."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

import unbounded as ub
from tests.constructions import stream_model
from tests.tolerances import assert_close
from unbounded.errors import ConfigError, ShapeError
from unbounded.memories.core import state_tensors
from unbounded.models import SequenceModel
from unbounded.rnn.symbols import input_weight_name, run_symbols

OPTIONS = [
    {},
    {"recurrent": True},
    {"controller": "gru"},
    {"memory": "superposition_list", "controller": "lstm"},
    {"memory": "none", "recurrent": True},
    {"memory": "none", "controller": "srcn", "context_size": 3},
    {"memory": "none", "controller": "lstm"},
    {"memory": "none", "controller": "lstm", "layers": 2},
]
VOCABULARY = 50


def make(**options):
    torch.manual_seed(0)
    return stream_model(vocabulary=VOCABULARY, hidden_size=4, count=3, **options).double()


def tokens(rows=3, steps=7):
    return torch.randint(VOCABULARY, (rows, steps), generator=torch.Generator().manual_seed(1))


def results(model, run, lengths):
    """Outputs, states and every gradient of two calls, the state carried."""
    model.zero_grad()
    first, state = run(tokens(), None, None)
    second, state = run(tokens().flip(1), state, lengths)
    loss = (first * first).sum() + (second.sin() * torch.arange(7.0).view(1, 7, 1)).sum()
    loss.backward()
    return [
        first,
        second,
        *state_tensors(state),
        *(p.grad for p in model.parameters() if p.requires_grad),
    ]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("lengths", [None, [7, 2, 1]])
def test_a_lookup_equals_the_product_with_one_hot_symbols(options, backend, lengths):
    model = make(backend=backend, **options)
    sequence, layer = model.sequence, model.sequence.layer
    lengths = None if lengths is None else torch.tensor(lengths)

    def dense(symbols, state, lengths):
        one_hot = F.one_hot(symbols, VOCABULARY).double()
        hidden, state = layer(one_hot, state, lengths)
        return sequence.output(hidden), state

    assert sequence._looks_up
    for got, want in zip(
        results(model, model, lengths), results(model, dense, lengths), strict=True
    ):
        assert_close(got, want, "with a lookup")
    names = {name for name, _ in model.named_parameters()}
    assert names == {name for name, _ in make(**options).named_parameters()}
    assert model.sequence.layer is layer
    assert layer.input_size == VOCABULARY


@pytest.mark.parametrize("options", [{"memory": "none", "controller": "lstm"}, {}])
def test_the_gradient_of_columns_equals_an_embeddings_bitwise(options):
    model = make(**options).float()
    layer, name = model.sequence.layer, input_weight_name(model.sequence.layer)
    weight = layer.get_parameter(name)
    assert VOCABULARY > tokens().unique().numel() > 1
    run_symbols(layer, tokens())[0].sum().backward()
    gradient = weight.grad
    assert gradient.is_contiguous()

    columns, rest = weight.detach().split([VOCABULARY, weight.shape[1] - VOCABULARY], dim=1)
    table, rest = columns.t().clone().requires_grad_(), rest.clone().requires_grad_()
    narrow = {name: torch.cat([torch.eye(len(weight)), rest], dim=1)}
    functional_call(layer, narrow, (F.embedding(tokens(), table),))[0].sum().backward()
    others = torch.zeros_like(rest) if rest.grad is None else rest.grad
    assert torch.equal(gradient, torch.cat([table.grad.t(), others], dim=1))


def test_few_symbols_stay_one_hot():
    assert not stream_model(vocabulary=2).sequence._looks_up
    assert not stream_model(vocabulary=40, hidden_size=40).sequence._looks_up
    assert stream_model(vocabulary=41, hidden_size=40).sequence._looks_up


def test_other_layers_get_one_hot_symbols():
    class CustomRNN(ub.ControllerRNN):
        pass

    layer = CustomRNN(VOCABULARY, 4, batch_first=True)
    model = SequenceModel(VOCABULARY, VOCABULARY, None, layer, 4)
    assert not model._looks_up
    assert model(tokens())[0].shape == (3, 7, VOCABULARY)
    with pytest.raises(ConfigError, match="cannot look up symbols for CustomRNN"):
        run_symbols(layer, tokens())


def test_unknown_symbols():
    with pytest.raises(ShapeError, match=f"{VOCABULARY}"):
        make()(torch.tensor([[VOCABULARY]]))
