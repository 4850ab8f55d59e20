"""The Transformer against torch's own encoder, its equations, and itself in chunks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import unbounded as ub
from tests.rnn.layers import check_chunks, check_gradients, check_padding, random
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError
from unbounded.memories.core import state_tensors
from unbounded.rnn import transformer
from unbounded.rnn.transformer import POSITIONS, sinusoids

DOUBLE = torch.float64
EACH = pytest.mark.parametrize("positions", POSITIONS)
WINDOWS = pytest.mark.parametrize("window", [None, 1, 3])


def make(positions="sinusoidal", **options):
    torch.manual_seed(0)
    layer = ub.Transformer(
        3, 8, 2, 2, 16, positions, batch_first=True, **{"dtype": DOUBLE, **options}
    )
    with torch.no_grad():  # biases and the biases of relative positions count too
        for parameter in layer.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def torch_encoder(layer, norm_first):
    """torch's encoder with the weights of a layer without positions."""
    kind = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=DOUBLE
    )
    norm = nn.LayerNorm(8, dtype=DOUBLE) if norm_first else None
    encoder = nn.TransformerEncoder(kind, 2, norm, enable_nested_tensor=False)
    with torch.no_grad():
        for block, other in zip(layer.blocks, encoder.layers, strict=True):
            attention = block.mixers[0]
            other.self_attn.in_proj_weight.copy_(attention.projections.weight)
            other.self_attn.in_proj_bias.copy_(attention.projections.bias)
            other.self_attn.out_proj.load_state_dict(attention.output.state_dict())
            for name in ("linear1", "linear2", "norm1", "norm2"):
                getattr(other, name).load_state_dict(getattr(block, name).state_dict())
        if norm is not None:
            encoder.norm.load_state_dict(layer.norm.state_dict())
    return encoder


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_without_positions_it_is_torchs_encoder(norm_first, bidirectional):
    layer = make("none", norm_first=norm_first, bidirectional=bidirectional)
    encoder, x = torch_encoder(layer, norm_first), random(3, 7, 3)
    causal = None if bidirectional else nn.Transformer.generate_square_subsequent_mask(7)
    causal = None if causal is None else causal.to(DOUBLE)
    assert_close(layer(x)[0], encoder(layer.inputs(x), mask=causal), "output")


def attended(layer, x):
    """One head's scores of a layer of one head, in plain Python, before the softmax."""
    attention = layer.blocks[-1].mixers[0]
    hidden = layer.blocks[-1].norm1(layer.inputs(x))
    query, key, _ = (part[0].tolist() for part in attention.projections(hidden).chunk(3, dim=-1))
    size = len(query[0])

    def dot(a, b):
        return sum(p * q for p, q in zip(a, b, strict=True)) / math.sqrt(size)

    def turned(vector, place):
        half, out = size // 2, [0.0] * size
        for i in range(half):
            angle = place * 10_000 ** (-i / half)
            a, b = vector[i], vector[i + half]
            out[i] = a * math.cos(angle) - b * math.sin(angle)
            out[i + half] = b * math.cos(angle) + a * math.sin(angle)
        return out

    def sines(distance):
        angles = [distance * 10_000 ** (-2 * i / size) for i in range(size // 2)]
        return [part for angle in angles for part in (math.sin(angle), math.cos(angle))]

    def score(i, j):
        if layer.positions == "rotary":
            return dot(turned(query[i], i), turned(key[j], j))
        if layer.positions == "alibi":
            nearer = 0.5 if attention.bidirectional and i > j else 0.0
            return dot(query[i], key[j]) - 2.0**-8 * (abs(i - j) - nearer)
        u, v = attention.content_bias.tolist(), attention.distance_bias.tolist()
        rows = attention.distances.weight.tolist()
        r = [sum(p * q for p, q in zip(row, sines(i - j), strict=True)) for row in rows]
        own = [a + b for a, b in zip(query[i], u, strict=True)]
        far = [a + b for a, b in zip(query[i], v, strict=True)]
        return dot(own, key[j]) + dot(far, r)

    return [[score(i, j) for j in range(len(key))] for i in range(len(query))]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative"])
def test_scores_are_those_of_the_equations(positions, bidirectional):
    torch.manual_seed(0)
    layer = ub.Transformer(3, 6, 1, 1, 5, positions, bidirectional, batch_first=True, dtype=DOUBLE)
    attention, x = layer.blocks[0].mixers[0], random(1, 5, 3)
    if positions == "relative":
        nn.init.normal_(attention.content_bias)
        nn.init.normal_(attention.distance_bias)
    hidden = layer.blocks[0].norm1(layer.inputs(x))
    scores = torch.tensor(attended(layer, x), dtype=DOUBLE)
    if not bidirectional:
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    values = attention.projections(hidden)[0, :, 12:]
    state = attention.initial_state(1, hidden)
    got, _ = attention(hidden, state, None)
    assert_close(got[0], attention.output(scores.softmax(-1) @ values), positions)


def test_alibi_in_both_directions_has_the_dtype_of_the_layer():
    layer = make("alibi", bidirectional=True, dtype=torch.float32)
    x = random(2, 5, 3).float()
    expected, _ = layer(x)
    before = torch.get_default_dtype()
    torch.set_default_dtype(DOUBLE)
    try:
        assert torch.equal(layer(x)[0], expected)
    finally:
        torch.set_default_dtype(before)


def test_sinusoids():
    got = sinusoids(torch.tensor([0.0, 3.0], dtype=DOUBLE), 4)
    want = [[0, 1, 0, 1], [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]]
    assert_close(got, torch.tensor(want, dtype=DOUBLE))
    assert sinusoids(torch.zeros(2), 5).shape == (2, 5)


@EACH
@WINDOWS
@pytest.mark.parametrize("sizes", [[1] * 9, [4, 5], [2, 1, 6]])
def test_chunks_with_carried_state_equal_one_call(positions, window, sizes):
    state = check_chunks(make(positions, window=window), random(4, 9, 3), sizes)
    if window is not None:
        assert all(part.shape[1] == window - 1 for part in state_tensors(state) if part.dim() > 1)


@EACH
@pytest.mark.parametrize("window", [3, 70])
def test_a_window_bounds_the_scores_of_a_long_sequence(positions, window, monkeypatch):
    layer, x, lengths = (
        make(positions, window=window),
        random(3, 300, 3),
        torch.tensor([300, 0, 131]),
    )
    calls, attend = [], transformer._attend

    def recorded(query, keys, values, mask, dropout):
        calls.append(mask.shape[-2] * mask.shape[-1])
        return attend(query, keys, values, mask, dropout)

    monkeypatch.setattr(transformer, "_attend", recorded)
    results, most = [], []
    for shortest in (64, 300):
        monkeypatch.setattr(transformer, "_SHORTEST_PART", shortest)
        calls.clear()
        output, state = layer(x, lengths=lengths)
        gradients = torch.autograd.grad(output.square().sum(), list(layer.parameters()))
        results.append([output, layer(x[:, :5], state)[0], *gradients])
        most.append(max(calls))
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected)
    assert most[0] <= 70 * 140
    assert most[1] == 300 * 300


@EACH
@WINDOWS
def test_padded_equals_unpadded_and_continues(positions, window):
    layer, x, after = make(positions, window=window), random(4, 9, 3), random(4, 3, 3, seed=2)
    lengths = torch.tensor([9, 0, 3, 5])
    output = check_padding(layer, x, after, lengths)
    first, begun = layer(x[:, :4], lengths=lengths.clamp(max=4))
    rest, state = layer(x[:, 4:], begun, (lengths - 4).clamp(min=0))
    assert_close(torch.cat([first, rest], dim=1), output, "chunks of padded sequences")
    full = layer(after, layer(x, lengths=lengths)[1])[0]
    assert_close(layer(after, state)[0], full, "later steps of chunks")


@EACH
@pytest.mark.parametrize("window", [None, 2])
def test_a_bidirectional_layer_does_not_see_padding(positions, window):
    layer, x = make(positions, bidirectional=True, window=window), random(3, 6, 3)
    lengths = torch.tensor([6, 0, 4])
    output, _ = layer(x, lengths=lengths)
    assert output.isfinite().all()
    for row, length in enumerate(lengths.tolist()):
        assert output[row, length:].abs().sum() == 0
        if length:
            assert_close(output[row, :length], layer(x[row : row + 1, :length])[0][0])
    changed = x.clone()
    changed[0, 5] += 1
    differs = (layer(changed)[0] != layer(x)[0]).any(-1)[0]
    assert differs.tolist() == ([True] * 6 if window is None else [False] * 3 + [True] * 3)


@EACH
def test_gradcheck(positions):
    layer = make(positions)
    begun = ub.detach_state(layer(random(2, 2, 3, seed=3))[1])
    check_gradients(layer, random(2, 3, 3), begun, torch.tensor([3, 2]), fast_mode=True)


@EACH
@pytest.mark.parametrize("window", [None, 2])
def test_autocast_and_half_precision_with_a_state(positions, window):
    layer, x = make(positions, window=window, dtype=torch.float32), random(2, 6, 3).float()
    expected, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        first, state = layer(x[:, :4])
        rest, last = layer(x[:, 4:], state)
    both = torch.cat([first, rest], dim=1)
    assert both.dtype == torch.bfloat16
    assert {part.dtype for part in state_tensors(last)} == {torch.float32, torch.int64}
    torch.testing.assert_close(both.float(), expected, atol=0.1, rtol=0.1)
    half, state = layer.bfloat16()(x.bfloat16())
    torch.testing.assert_close(half.float(), expected, atol=0.1, rtol=0.1)
    assert layer(x.bfloat16(), state)[0].dtype == torch.bfloat16


def test_dropout_in_training_only():
    layer, x = make(dropout=0.5, dtype=torch.float32), torch.randn(2, 5, 3)
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])
    layer.train()
    assert not torch.equal(layer(x)[0], layer(x)[0])


@EACH
def test_it_learns_to_copy_the_first_symbol(positions):
    torch.manual_seed(1)
    layer = ub.Transformer(4, 16, 1, 2, positions=positions, batch_first=True)
    readout = nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*layer.parameters(), *readout.parameters()], lr=1e-2)
    symbols = torch.randint(0, 3, (64, 6))
    symbols[:, 1:] = 3 - (symbols[:, 1:] == 0).long()  # later symbols are others
    x = nn.functional.one_hot(symbols, 4).float()
    for _ in range(60):
        loss = nn.functional.cross_entropy(readout(layer(x)[0][:, -1]), symbols[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_bad_input():
    with pytest.raises(ShapeError, match="num_heads: expected a divisor of hidden_size 6, got 4"):
        ub.Transformer(3, 6)
    with pytest.raises(ChoiceError, match="positions 'rotarry'"):
        ub.Transformer(3, 8, positions="rotarry")
    with pytest.raises(ConfigError, match=r"rotary needs heads of an even size, got .* = 1"):
        ub.Transformer(3, 4, positions="rotary")
    with pytest.raises(ConfigError, match=r"dropout: expected a number in \[0, 1\), got 1.0"):
        ub.Transformer(3, 8, dropout=1.0)
    for name in ("input_size", "hidden_size", "num_layers", "num_heads", "feed_forward_size"):
        sizes = {"input_size": 3, "hidden_size": 8, name: 0}
        with pytest.raises(ShapeError, match=f"{name}: expected an integer >= 1, got 0"):
            ub.Transformer(**sizes)
    with pytest.raises(ShapeError, match="window: expected an integer >= 1, got 0"):
        ub.Transformer(3, 8, window=0)
    for name in ("bidirectional", "norm_first", "batch_first"):
        with pytest.raises(DTypeError, match=f"{name}: expected a bool, got 'no'"):
            ub.Transformer(3, 8, **{name: "no"})
    layer, x = make(), random(2, 4, 3)
    state = layer(x)[1]
    with pytest.raises(ShapeError, match=r"state\[1\]\[0\].steps: expected shape \[1\], got \[2\]"):
        layer(x[:1], (ub.index_state(state[0], [0]), *state[1:]))
    ((steps, keys, values),), *rest = state[1:]
    with pytest.raises(ShapeError, match=r"state\[1\]\[0\].keys: expected shape \[2, P, 8\]"):
        layer(x, (state[0], ((steps, keys[..., 1:], values),), *rest))
    with pytest.raises(ShapeError, match=r"state\[1\]\[0\].values: expected shape \[2, 4, 8\]"):
        layer(x, (state[0], ((steps, keys, values[:, 1:]),), *rest))
    with pytest.raises(ShapeError, match=r"state: expected \[0\], \[1\], \[2\], got tuple of 1"):
        layer(x, (state,))
    with pytest.raises(ShapeError, match=r"state\[0\]: expected steps, got tuple of 2"):
        layer(x, ((state[0].steps,) * 2, *state[1:]))
    with pytest.raises(DTypeError, match=r"state\[0\].steps: expected dtype torch.int64"):
        layer(x, ((state[0].steps.double(),), *state[1:]))
    with pytest.raises(ShapeError, match="state: expected None, because a bidirectional"):
        make(bidirectional=True)(x, state)
    assert repr(layer).startswith(
        "Transformer(\n  3, 8, num_layers=2, num_heads=2, positions='sinusoidal', "
        "batch_first=True, backend='auto'"
    )
