"""The networks of Joulin & Mikolov by keyword: sizes, saving, streams, bad input."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError
from unbounded.models.stream import StreamModel

#: Weights by hand: U + R + V for d symbols and m units, A + D + P for the stacks.
SIZES = [
    ({}, 2160),
    ({"noop": True}, 2160 + 400),
    ({"recurrent": True}, 2160 + 1600),
    ({"hidden_size": 20, "count": 2, "depth": 1}, 40 + 40 + 80 + 40 + 40),
    ({"memory": "superposition_list", "count": 5}, 80 + 80 + 5 * 40 * 3 + 200 + 400),
    ({"memory": "none", "recurrent": True}, 80 + 80 + 1600),
    ({"memory": "none", "controller": "lstm", "hidden_size": 50}, 4 * 50 * 52 + 200 + 100),
    (
        {"memory": "none", "controller": "lstm", "hidden_size": 50, "layers": 2},
        4 * 50 * 52 + 200 + 4 * 50 * 100 + 200 + 100,
    ),
    # A, B, P, R, then U and V of the output.
    ({"memory": "none", "controller": "srcn"}, 80 + 80 + 40 * 40 + 40 * 40 + 80 + 80),
    (
        {"memory": "none", "controller": "srcn", "hidden_size": 30, "context_size": 10},
        60 + 20 + 300 + 900 + 60 + 20,
    ),
]


@pytest.mark.parametrize(("options", "size"), SIZES)
def test_sizes(options, size):
    model = StreamModel(vocabulary=2, **options)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == size


@pytest.mark.parametrize("options", [options for options, _ in SIZES] + [{"controller": "gru"}])
def test_chunks_with_the_state_carried_equal_the_whole(options, tmp_path):
    torch.manual_seed(0)
    model = StreamModel(vocabulary=2, backend="reference", **options)
    tokens = torch.randint(2, (3, 11), generator=torch.Generator().manual_seed(1))
    whole, _ = model(tokens)
    pieces, state = [], None
    for piece in tokens.split(4, dim=1):
        logits, state = model(piece, ub.detach_state(state) if state is not None else None)
        pieces.append(logits)
    assert_close(torch.cat(pieces, dim=1), whole, "logits")
    ragged, _ = model(tokens, lengths=torch.tensor([11, 4, 1]))
    assert_close(ragged[1, :4], whole[1, :4], "logits of a shorter one")
    model.save_pretrained(tmp_path)
    assert torch.equal(StreamModel.from_pretrained(tmp_path)(tokens)[0], whole)


def test_the_plain_network_is_equation_1():
    torch.manual_seed(0)
    model = StreamModel(vocabulary=3, memory="none", recurrent=True, hidden_size=4).double()
    tokens = torch.tensor([[0, 2, 1]])
    logits, _ = model(tokens)
    u, r = model.sequence.layer.controller.weight_ih, model.sequence.layer.controller.weight_hh
    h = torch.zeros(4, dtype=torch.float64)
    for t, token in enumerate(tokens[0].tolist()):
        h = torch.sigmoid(u[:, token] + r @ h)
        assert_close(logits[0, t], model.sequence.output.weight @ h, f"step {t}")


def test_a_shorter_sequence_keeps_its_state():
    layer = ub.ControllerRNN(2, 3, "gru", dtype=torch.float64)
    x = torch.randn(5, 2, 2, dtype=torch.float64)
    output, state = layer(x, lengths=torch.tensor([5, 2]))
    alone, alone_state = layer(x[:2, 1:])
    assert_close(output[:2, 1], alone[:, 0], "output")
    assert output[2:, 1].abs().sum() == 0
    assert_close(state[0][1], alone_state[0][0], "state")


def test_bad_input():
    with pytest.raises(ChoiceError, match=r"unknown memory 'stack'.*Valid: none, superposition"):
        StreamModel(vocabulary=2, memory="stack")
    with pytest.raises(ChoiceError, match=r"unknown controller with memory='super.* 'rnn'"):
        StreamModel(vocabulary=2, controller="rnn")
    with pytest.raises(ChoiceError, match=r"unknown controller .*Valid: elman, gru, lstm\."):
        StreamModel(vocabulary=2, controller="srcn")
    with pytest.raises(ChoiceError, match=r"Did you mean 'srcn'\? Valid: elman, gru, lstm, srcn"):
        StreamModel(vocabulary=2, memory="none", controller="scrn")
    with pytest.raises(ConfigError, match="context_size: only controller='srcn' has it"):
        StreamModel(vocabulary=2, context_size=10)
    with pytest.raises(ConfigError, match="layers: only an LSTM without a memory"):
        StreamModel(vocabulary=2, layers=2)
    with pytest.raises(ConfigError, match="recurrent: without it and a memory"):
        StreamModel(vocabulary=2, memory="none")
    with pytest.raises(ConfigError, match="capacity: expected an integer >= depth = 2"):
        StreamModel(vocabulary=2, capacity=1)
