"""Error signals cut step by step, against backpropagation written out by hand."""

from __future__ import annotations

import functools

import pytest
import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded.errors import ConfigError
from unbounded.layers import clip_error_signals

DOUBLE = torch.float64
ELMAN = functools.partial(ub.ElmanController, activation="sigmoid", bias=False)


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def gradients(layer, x, weights):
    layer.zero_grad()
    (layer(x)[0] * weights).sum().backward()
    return [parameter.grad.clone() for parameter in layer.parameters()]


def by_hand(layer, x, weights, bound):
    """e_t = clip(dL/dh_t + R^T (e_{t+1} * h' )), and the gradient of R from it."""
    u, r = layer.controller.weight_ih.detach(), layer.controller.weight_hh.detach()
    h = [torch.zeros(4, dtype=DOUBLE)]
    for step in x[:, 0]:
        h.append(torch.sigmoid(u @ step + r @ h[-1]))
    passed, grad_u, grad_r = torch.zeros(4, dtype=DOUBLE), torch.zeros(4, 3), torch.zeros(4, 4)
    for t in reversed(range(len(x))):
        error = (weights[t, 0] + passed).clamp(-bound, bound)
        slope = error * h[t + 1] * (1 - h[t + 1])
        grad_u = grad_u + torch.outer(slope, x[t, 0])
        grad_r = grad_r + torch.outer(slope, h[t])
        passed = r.t() @ slope
    return [grad_u, grad_r]


@pytest.mark.parametrize("bound", [0.3, 1.0, 100.0])
def test_the_plain_network_against_the_equations(bound):
    torch.manual_seed(0)
    layer = ub.ControllerRNN(3, 4, ELMAN, dtype=DOUBLE)
    x, weights = random(6, 1, 3), random(6, 1, 4, seed=2)
    whole = gradients(layer, x, weights)
    remove = clip_error_signals(layer, bound)
    got = gradients(layer, x, weights)
    for mine, want in zip(got, by_hand(layer, x, weights, bound), strict=True):
        assert_close(mine, want, "gradient")
    assert torch.equal(got[0], whole[0]) == (bound == 100.0)
    remove()
    assert all(map(torch.equal, gradients(layer, x, weights), whole))


def test_every_stage_of_a_stack_rnn_is_cut():
    torch.manual_seed(0)
    layer = ub.MemoryRNN(3, 4, ub.SuperpositionStack(2), ELMAN, dtype=DOUBLE)
    x, weights = random(6, 2, 3), 100 * random(6, 2, 4, seed=2)
    seen = []

    def watch(module, arguments, outputs):
        for output in outputs:
            output.register_hook(lambda error: seen.append(error.abs().max()))

    clip_error_signals(layer, 1e-3)
    # Registered later, so they see what the first ones left.
    layer.controller.register_forward_hook(watch)
    layer.heads.register_forward_hook(watch)
    gradients(layer, x, weights)
    assert len(seen) >= 2 * 6
    assert max(seen) == 1e-3


def test_nothing_changes_forwards_and_without_gradients():
    torch.manual_seed(0)
    stack = ub.SuperpositionStack(2)
    layer = ub.MemoryRNN(3, 4, stack, ELMAN, dtype=DOUBLE, backend="reference")
    x = random(6, 2, 3)
    before = layer(x)[0]
    clip_error_signals(layer)
    with torch.no_grad():
        assert torch.equal(layer(x)[0], before)
    assert torch.equal(layer(x)[0], before)


def test_bad_input():
    with pytest.raises(ConfigError, match="bound: expected a finite number above 0, got 0"):
        clip_error_signals(ub.ControllerRNN(2, 3), 0)
    with pytest.raises(ConfigError, match="expected a MemoryRNN or ControllerRNN in it"):
        clip_error_signals(torch.nn.Linear(2, 3))
