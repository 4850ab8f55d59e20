"""The structurally constrained network against its equations in plain Python."""

from __future__ import annotations

import math

import pytest
import torch

import unbounded as ub
from tests.rnn.layers import check_chunks, check_padding, random
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError
from unbounded.rnn.baselines import BLOCK

DOUBLE = torch.float64


def make(inputs=3, hidden=4, context=2, **options):
    torch.manual_seed(0)
    return ub.SRCN(inputs, hidden, context, dtype=DOUBLE, **options)


def times(matrix, vector):
    return [sum(w * v for w, v in zip(row, vector, strict=True)) for row in matrix]


def oracle(layer, steps):
    """h_t and s_t of one sequence from the paper's equations, in Python's floats."""
    a, b = (part.tolist() for part in layer.weight_ih.detach().split([4, 2]))
    p, r = layer.weight_sh.tolist(), layer.weight_hh.tolist()
    h, s, outputs = [0.0] * 4, [0.0] * 2, []
    for x in steps:
        s = [
            (1 - layer.alpha) * new + layer.alpha * old
            for new, old in zip(times(b, x), s, strict=True)
        ]
        sums = zip(times(p, s), times(a, x), times(r, h), strict=True)
        h = [1 / (1 + math.exp(-sum(terms))) for terms in sums]
        outputs.append([*h, *s])
    return outputs


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("steps", [1, 5, BLOCK, 2 * BLOCK + 3])
def test_agrees_with_the_oracle(alpha, steps):
    layer, x = make(alpha=alpha), random(steps, 2, 3)
    output, state = layer(x)
    for row in range(2):
        want = torch.tensor(oracle(layer, x[:, row].tolist()), dtype=DOUBLE)
        assert_close(output[:, row], want, "output")
    assert_close(torch.cat(state, dim=-1), output[-1], "state")
    assert layer.output_size == 6


def test_gradcheck():
    layer, x = make(), random(3, 2, 3).requires_grad_()
    start = [random(2, 4, seed=2).requires_grad_(), random(2, 2, seed=3).requires_grad_()]
    names = [name for name, _ in layer.named_parameters()]

    def run(x, hidden, context, *parameters):
        output, state = torch.func.functional_call(
            layer, dict(zip(names, parameters, strict=True)), (x, (hidden, context))
        )
        return output, *state

    assert torch.autograd.gradcheck(run, (x, *start, *layer.parameters()))
    assert torch.autograd.gradgradcheck(run, (x, *start, *layer.parameters()))


@pytest.mark.parametrize("chunk", [1, 7, BLOCK + 1])
def test_chunks_with_carried_state_equal_one_call(chunk):
    check_chunks(make(batch_first=True), random(3, 2 * BLOCK, 3), chunk)


def test_padded_equals_unpadded_and_continues():
    layer, lengths = make(batch_first=True), torch.tensor([6, 0, 2, 5])
    begun = layer(random(4, 2, 3, seed=2))[1]
    check_padding(layer, random(4, 6, 3), random(4, 2, 3, seed=3), lengths, begun)


def test_bad_input():
    with pytest.raises(ConfigError, match="alpha: expected a number of at least 0 and below 1"):
        ub.SRCN(2, 3, alpha=1.0)
    for sizes in ((0, 3, 1), (2, 0, 1), (2, 3, 0)):
        with pytest.raises(ShapeError, match="expected an integer >= 1, got 0"):
            ub.SRCN(*sizes)
    layer = make()
    with pytest.raises(ShapeError, match="x: expected shape"):
        layer(random(3, 2, 4))
    with pytest.raises(ShapeError, match="at least one step"):
        layer(random(0, 2, 3))
    with pytest.raises(DTypeError, match="x: expected dtype"):
        layer(random(3, 2, 3).float())
    with pytest.raises(ShapeError, match=r"state\.context: expected shape"):
        layer(random(3, 2, 3), (random(2, 4), random(2, 4)))
    with pytest.raises(ShapeError, match="lengths: expected shape"):
        layer(random(3, 2, 3), lengths=torch.tensor([1]))
    assert (
        repr(layer) == "SRCN(3, 4, context_size=2, alpha=0.95, batch_first=False, backend='auto')"
    )


def test_tanh_with_a_bias_is_the_same_network_as_sigmoid_with_one():
    # sigma(z) = (1 + tanh(z / 2)) / 2, so R h = R / 2 + R t / 2 where t = 2 h - 1.
    one = make(5, 4, 3, bias=True)
    other = make(5, 4, 3, activation="tanh", bias=True)
    with torch.no_grad():
        one.bias.normal_()
        half = torch.tensor([0.5] * 4 + [1.0] * 3, dtype=DOUBLE).unsqueeze(1)
        other.weight_ih.copy_(one.weight_ih * half)
        other.weight_sh.copy_(one.weight_sh / 2)
        other.weight_hh.copy_(one.weight_hh / 4)
        other.bias.copy_(one.bias / 2 + one.weight_hh.sum(1) / 4)
    x, state = random(9, 2, 5), one.initial_state(2)
    expected, ends = one(x, state)
    got, last = other(x, state._replace(hidden=2 * state.hidden - 1))
    assert_close(got[..., :4], 2 * expected[..., :4] - 1)
    assert_close(got[..., 4:], expected[..., 4:])
    assert_close(last.hidden, 2 * ends.hidden - 1)


def test_an_unknown_activation():
    with pytest.raises(ChoiceError, match="sigmoid, tanh"):
        make(activation="relu")
