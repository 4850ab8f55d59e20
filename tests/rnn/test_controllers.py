"""Each cell against PyTorch's, with a read vector of zero effect."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import unbounded as ub
from tests.tolerances import assert_close
from unbounded.errors import ConfigError

DOUBLE = torch.float64


def run(controller, x, state):
    outputs = []
    for step in x:
        state = controller(step, state)
        outputs.append(state[0])
    return torch.stack(outputs), state


def test_lstm_equals_torch():
    torch_layer, layer = nn.LSTM(3, 5, dtype=DOUBLE), ub.LSTMController(3, 5, dtype=DOUBLE)
    with torch.no_grad():
        layer.weight_ih.copy_(torch_layer.weight_ih_l0)
        layer.weight_hh.copy_(torch_layer.weight_hh_l0)
        layer.bias_ih.copy_(torch_layer.bias_ih_l0 + torch_layer.bias_hh_l0)
    x, h, c = (torch.randn(*shape, dtype=DOUBLE) for shape in [(7, 2, 3), (2, 5), (2, 5)])
    want, (want_h, want_c) = torch_layer(x, (h[None], c[None]))
    got, (got_h, got_c) = run(layer, x, (h, c))
    assert_close(got, want)
    assert_close(got_h, want_h[0])
    assert_close(got_c, want_c[0])


@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_gru_and_elman_equal_torch(kind):
    if kind == "gru":
        torch_layer, layer = nn.GRU(3, 5, dtype=DOUBLE), ub.GRUController(3, 5, dtype=DOUBLE)
    else:
        torch_layer = nn.RNN(3, 5, nonlinearity=kind, dtype=DOUBLE)
        layer = ub.ElmanController(3, 5, activation=kind, dtype=DOUBLE)
    with torch.no_grad():
        layer.weight_ih.copy_(torch_layer.weight_ih_l0)
        layer.weight_hh.copy_(torch_layer.weight_hh_l0)
        layer.bias_ih.copy_(torch_layer.bias_ih_l0)
        if kind == "gru":
            layer.bias_hh.copy_(torch_layer.bias_hh_l0)
        else:
            layer.bias_ih.add_(torch_layer.bias_hh_l0)
    x, h = torch.randn(7, 2, 3, dtype=DOUBLE), torch.randn(2, 5, dtype=DOUBLE)
    want, want_h = torch_layer(x, h[None])
    got, (got_h,) = run(layer, x, (h,))
    assert_close(got, want)
    assert_close(got_h, want_h[0])


def test_an_elman_controller_with_two_biases_equals_torch():
    torch_layer = nn.RNN(3, 5, dtype=DOUBLE)
    layer = ub.ElmanController(3, 5, dtype=DOUBLE, second_bias=True)
    names = {name: f"{name}_l0" for name, _ in layer.named_parameters()}
    assert len(names) == 4
    layer.load_state_dict({name: torch_layer.state_dict()[other] for name, other in names.items()})
    x, h = torch.randn(7, 2, 3, dtype=DOUBLE), torch.randn(2, 5, dtype=DOUBLE)
    assert_close(run(layer, x, (h,))[0], torch_layer(x, h[None])[0])


def test_a_second_bias_counts_without_recurrence_too():
    layer = ub.ElmanController(3, 5, activation="relu", recurrent=False, second_bias=True)
    x = torch.randn(2, 3)
    expected = x @ layer.weight_ih.T + layer.bias_ih + layer.bias_hh
    assert torch.allclose(layer(x, (torch.zeros(2, 5),))[0], expected.relu(), atol=1e-6)
    with pytest.raises(ConfigError, match="second_bias: expected False without a bias, got True"):
        ub.ElmanController(3, 5, bias=False, second_bias=True)


def test_an_elman_controller_without_recurrence_forgets():
    layer = ub.ElmanController(3, 5, activation="sigmoid", recurrent=False, bias=False)
    x = torch.randn(2, 3)
    one = layer(x, (torch.zeros(2, 5),))[0]
    other = layer(x, (torch.ones(2, 5),))[0]
    assert torch.equal(one, other)
    assert torch.allclose(one, torch.sigmoid(x @ layer.weight_ih.T))
