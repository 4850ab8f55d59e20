"""Each cell against PyTorch's own, with the memory's reading held at zero width effect."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import unbounded as ub
from tests.tolerances import assert_close

DOUBLE = torch.float64


def run(controller, x, state):
    outputs = []
    for step in x:
        state = controller(step, state)
        outputs.append(state[0])
    return torch.stack(outputs), state


def test_lstm_equals_torch():
    theirs, ours = nn.LSTM(3, 5, dtype=DOUBLE), ub.LSTMController(3, 5, dtype=DOUBLE)
    with torch.no_grad():
        ours.weight_ih.copy_(theirs.weight_ih_l0)
        ours.weight_hh.copy_(theirs.weight_hh_l0)
        ours.bias_ih.copy_(theirs.bias_ih_l0 + theirs.bias_hh_l0)
    x, h, c = (torch.randn(*shape, dtype=DOUBLE) for shape in [(7, 2, 3), (2, 5), (2, 5)])
    want, (want_h, want_c) = theirs(x, (h[None], c[None]))
    got, (got_h, got_c) = run(ours, x, (h, c))
    assert_close(got, want)
    assert_close(got_h, want_h[0])
    assert_close(got_c, want_c[0])


@pytest.mark.parametrize("kind", ["gru", "tanh", "relu"])
def test_gru_and_elman_equal_torch(kind):
    if kind == "gru":
        theirs, ours = nn.GRU(3, 5, dtype=DOUBLE), ub.GRUController(3, 5, dtype=DOUBLE)
    else:
        theirs = nn.RNN(3, 5, nonlinearity=kind, dtype=DOUBLE)
        ours = ub.ElmanController(3, 5, activation=kind, dtype=DOUBLE)
    with torch.no_grad():
        ours.weight_ih.copy_(theirs.weight_ih_l0)
        ours.weight_hh.copy_(theirs.weight_hh_l0)
        ours.bias_ih.copy_(theirs.bias_ih_l0)
        if kind == "gru":
            ours.bias_hh.copy_(theirs.bias_hh_l0)
        else:
            ours.bias_ih.add_(theirs.bias_hh_l0)
    x, h = torch.randn(7, 2, 3, dtype=DOUBLE), torch.randn(2, 5, dtype=DOUBLE)
    want, want_h = theirs(x, h[None])
    got, (got_h,) = run(ours, x, (h,))
    assert_close(got, want)
    assert_close(got_h, want_h[0])


def test_an_elman_controller_without_recurrence_forgets():
    ours = ub.ElmanController(3, 5, activation="sigmoid", recurrent=False, bias=False)
    x = torch.randn(2, 3)
    one = ours(x, (torch.zeros(2, 5),))[0]
    other = ours(x, (torch.ones(2, 5),))[0]
    assert torch.equal(one, other)
    assert torch.allclose(one, torch.sigmoid(x @ ours.weight_ih.T))
