"""The delta rule in chunks against its steps and plain Python; DeltaNet and DeltaProduct."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import unbounded as ub
from tests.rnn.layers import (
    DELTA_LAYERS,
    check_chunks,
    check_gradients,
    check_padding,
    delta_layer,
    random,
)
from tests.tolerances import assert_close
from unbounded.errors import ConfigError, DTypeError, ShapeError
from unbounded.rnn.deltanet import CHUNK, delta_rule

DOUBLE = torch.float64
EACH = pytest.mark.parametrize("kind", DELTA_LAYERS)


def delta_rule_by_steps(queries, keys, values, strengths, state):
    """The result of `delta_rule`, step by step, as in its equations."""
    outputs = []
    for t in range(queries.shape[2]):
        for j in range(keys.shape[3]):
            key, value = keys[:, :, t, j], values[:, :, t, j]
            read = torch.einsum("bhde,bhd->bhe", state, key)
            written = strengths[:, :, t, j].unsqueeze(-1) * (value - read)
            state = state + torch.einsum("bhd,bhe->bhde", key, written)
        outputs.append(torch.einsum("bhde,bhd->bhe", state, queries[:, :, t]))
    return torch.stack(outputs, dim=2), state


def inputs(tokens, steps, batch=2, heads=2):
    strengths = 2 * torch.sigmoid(random(batch, heads, tokens, steps, seed=4))
    return (
        random(batch, heads, tokens, 3),
        F.normalize(random(batch, heads, tokens, steps, 3, seed=2), dim=-1),
        random(batch, heads, tokens, steps, 4, seed=3),
        strengths,
        random(batch, heads, 3, 4, seed=5),
    )


def oracle(queries, keys, values, strengths, state):
    """One head of one sequence, in Python's lists."""
    outputs, matrix = [], [row[:] for row in state]
    for query, own_keys, own_values, own in zip(queries, keys, values, strengths, strict=True):
        for key, value, strength in zip(own_keys, own_values, own, strict=True):
            for column in range(len(value)):
                read = sum(key[i] * matrix[i][column] for i in range(len(key)))
                for i in range(len(key)):
                    matrix[i][column] += strength * key[i] * (value[column] - read)
        outputs.append(
            [sum(q * row[e] for q, row in zip(query, matrix, strict=True)) for e in range(4)]
        )
    return outputs, matrix


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("rule", [delta_rule, delta_rule_by_steps])
def test_agrees_with_the_oracle(rule, steps):
    given = inputs(7, steps)
    output, state = rule(*given)
    for row in range(2):
        for head in range(2):
            want, matrix = oracle(*(part[row, head].tolist() for part in given))
            assert_close(output[row, head], torch.tensor(want, dtype=DOUBLE), "output")
            assert_close(state[row, head], torch.tensor(matrix, dtype=DOUBLE), "state")


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("tokens", [1, CHUNK // 2, CHUNK, 2 * CHUNK + 5])
def test_chunks_equal_steps(tokens, steps):
    given = inputs(tokens, steps)
    for one, other in zip(delta_rule(*given), delta_rule_by_steps(*given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    in_float = tuple(part.float() for part in given)
    for one, other in zip(delta_rule(*in_float), delta_rule_by_steps(*in_float), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
# Warnings of torch itself, while tracing.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_rule_takes_any_number_of_tokens():
    torch.compiler.reset()
    compiled = torch.compile(delta_rule, backend="aot_eager", dynamic=True)
    for tokens in (5, 3):
        query, keys, values, strengths, state = inputs(tokens, 2)
        keys = keys.transpose(0, 1).contiguous().transpose(0, 1)
        given = (query, keys, values, strengths, state)
        assert_close(compiled(*given)[0], delta_rule(*given)[0], "output")
    torch.compiler.reset()


@pytest.mark.parametrize("steps", [1, 2])
def test_gradients_of_the_rule(steps, monkeypatch):
    monkeypatch.setattr("unbounded.rnn.deltanet.CHUNK", 2 * steps)
    given = tuple(part.requires_grad_() for part in inputs(5, steps, 1, 1))
    assert torch.autograd.gradcheck(delta_rule, given)
    weights = random(1, 1, 5, 4, seed=6)

    def gradients(rule):
        output, state = rule(*given)
        return torch.autograd.grad((output * weights).sum() + state.square().sum(), given)

    for one, other in zip(gradients(delta_rule), gradients(delta_rule_by_steps), strict=True):
        assert_close(one, other, "gradient")


@EACH
def test_gradcheck(kind):
    layer = delta_layer(kind)
    begun = ub.detach_state(layer(random(2, 2, 3, seed=3))[1])
    check_gradients(layer, random(2, 3, 3), begun, torch.tensor([3, 2]), fast_mode=True)


@EACH
@pytest.mark.parametrize("sizes", [[1] * 9, [4, 5], [2, 1, 6]])
def test_chunks_with_carried_state_equal_one_call(kind, sizes):
    check_chunks(delta_layer(kind), random(4, 9, 3), sizes)


@EACH
def test_padded_equals_unpadded_and_continues(kind):
    after = random(4, 3, 3, seed=2)
    check_padding(delta_layer(kind), random(4, 9, 3), after, torch.tensor([9, 0, 3, 5]))


@pytest.mark.parametrize("negative", [True, False])
def test_eigenvalues(negative):
    layer = ub.DeltaNet(3, 8, 1, 2, negative_eigenvalues=negative, backend="reference")
    part = layer.blocks[0].mixers[0]
    with torch.no_grad():
        part.strengths.weight.fill_(50.0)
    seen = []
    hook = "unbounded.rnn.deltanet.delta_rule"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hook, lambda *given: (seen.append(given[3]), delta_rule(*given))[1])
        part(torch.ones(1, 2, 8), part.initial_state(1, part.output.weight), None)
    assert (1 - seen[0]).min().item() == pytest.approx(-1.0 if negative else 0.0)


def test_steps_of_strength_0_change_nothing():
    query, key, value, strength, state = inputs(7, 3)
    strength = strength * torch.tensor([1.0, 0.0, 0.0])
    output, last = delta_rule(query, key, value, strength, state)
    first = (key[:, :, :, :1], value[:, :, :, :1], strength[..., :1])
    alone, end = delta_rule(query, *first, state)
    assert_close(output, alone, "output")
    assert_close(last, end, "state")


def test_two_steps_swap_two_directions_and_turn():
    """One reflection has determinant -1; two form a rotation, which one step cannot do."""
    keys = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=DOUBLE), dim=-1)
    state = torch.eye(2, dtype=DOUBLE).view(1, 1, 2, 2)
    zeros, twos = torch.zeros(1, 1, 1, 2, 2, dtype=DOUBLE), torch.full((1, 1, 1, 2), 2.0)
    _, turned = delta_rule(
        zeros[:, :, :, 0], keys.view(1, 1, 1, 2, 2), zeros, twos.to(DOUBLE), state
    )
    assert_close(turned[0, 0], torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=DOUBLE))


def parity(layer, length, batches):
    """Share of correct parities of prefixes, at twice the training length."""
    torch.manual_seed(3)
    readout = nn.Linear(layer.hidden_size, 2)
    optimizer = torch.optim.Adam([*layer.parameters(), *readout.parameters()], lr=1e-2)
    for _ in range(batches):
        bits = torch.randint(0, 2, (64, length))
        hidden, _ = layer(F.one_hot(bits, 2).float())
        target = bits.cumsum(1) % 2
        loss = F.cross_entropy(readout(hidden).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    bits = torch.randint(0, 2, (256, 2 * length))
    with torch.no_grad():
        correct = readout(layer(F.one_hot(bits, 2).float())[0]).argmax(-1) == bits.cumsum(1) % 2
    return correct[:, length:].double().mean().item()


KINDS = {
    "deltanet": lambda **options: ub.DeltaNet(2, 16, 1, 2, conv_size=0, **options),
    "deltaproduct": lambda **options: ub.DeltaProduct(2, 16, 2, 1, 2, conv_size=0, **options),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negative", [True, False], ids=["[-1,1]", "[0,1]"])
def test_parity_needs_negative_eigenvalues(kind, negative):
    torch.manual_seed(1)
    layer = KINDS[kind](negative_eigenvalues=negative, batch_first=True)
    share = parity(layer, 24, 300)
    assert share > 0.99 if negative else share < 0.6


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_parity_of_short_strings(kind):
    torch.manual_seed(1)
    layer = KINDS[kind](negative_eigenvalues=True, batch_first=True)
    assert parity(layer, 6, 100) > 0.95


@EACH
def test_inputs_of_zero_have_finite_gradients(kind):
    layer = delta_layer(kind, dtype=torch.float32)
    layer(torch.zeros(2, 5, 3))[0].square().sum().backward()
    norms = [part.grad.norm() for part in layer.parameters() if part.grad is not None]
    assert torch.stack(norms).max() < 1e6


def test_bad_input():
    for kind in (ub.DeltaNet, ub.DeltaProduct):
        with pytest.raises(ShapeError, match="num_heads: expected a divisor of hidden_size 6"):
            kind(3, 6)
        with pytest.raises(ShapeError, match="conv_size: expected an integer >= 0, got -1"):
            kind(3, 8, conv_size=-1)
        with pytest.raises(DTypeError, match="negative_eigenvalues: expected a bool, got 'no'"):
            kind(3, 8, negative_eigenvalues="no")
        with pytest.raises(ConfigError, match="dropout: expected a number"):
            kind(3, 8, dropout=2)
    with pytest.raises(ShapeError, match="householder_steps: expected an integer >= 1, got 0"):
        ub.DeltaProduct(3, 8, 0)
    layer, x = delta_layer("deltaproduct"), random(2, 4, 3)
    state = layer(x)[1]
    with pytest.raises(ShapeError, match=r"state\[0\]\[0\].matrix: expected shape \[1, 2, 4, 4\]"):
        layer(x[:1], state)
    with pytest.raises(ShapeError, match=r"state\[1\]\[0\]: expected matrix, recent, got tuple of"):
        layer(x, (state[0], ((x,),)))
    with pytest.raises(DTypeError, match=r"state\[0\]\[0\].matrix: expected dtype torch.float64"):
        layer(x, ub.move_state(state, dtype=torch.float32))
    assert "householder_steps=3, num_layers=2, num_heads=2, conv_size=4" in repr(layer)
    assert "negative_eigenvalues=False" in repr(delta_layer("deltanet"))
