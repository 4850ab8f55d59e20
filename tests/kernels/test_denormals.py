"""Denormals are flushed to zero in calls of the kernels, and nowhere else."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from unbounded import kernels
from unbounded.kernels._library import switched

pytestmark = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
TINY = torch.finfo(torch.float32).tiny


def forgetful(layer):
    """A layer that forgets quickly: a gradient shrinks by a factor of 1e-4 at each step."""
    gates = layer.layers[0]
    units = layer.hidden_size
    with torch.no_grad():
        for name, weight in gates.named_parameters():
            weight.zero_() if name.startswith("bias") else weight.mul_(1e-3)
        gates.bias_ih_l0[units : 2 * units] = -9.0
    return layer


def subnormal(tensor):
    return (tensor != 0) & (tensor.abs() < TINY)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_vanishing_gradient_becomes_zero(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        layer = forgetful(ub.DeepLSTM(3, 8, backend="cpu"))
        x = torch.randn(40, 6, 3, requires_grad=True)
        with switched(division=1):  # so that all threads wait for each other
            layer(x)[0][-1].sum().backward()
        slow = forgetful(ub.DeepLSTM(3, 8, backend="reference"))
        slow.load_state_dict(layer.state_dict())
        y = x.detach().requires_grad_()
        slow(y)[0][-1].sum().backward()
        # torch continues with denormals where the kernels have 0.
        assert bool(subnormal(y.grad).any())
        assert not bool(subnormal(x.grad).any())
        assert bool((x.grad != 0).any())
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-36)
        # Every thread's mode is restored: torch shares this product among them.
        assert bool(subnormal(torch.full((200_000,), 1e-30) * 1e-10).all())
    finally:
        torch.set_num_threads(before)


def test_vanishing_gradients_of_weights_become_zero():
    torch.manual_seed(0)
    layer = ub.DeepLSTM(3, 8, backend="cpu")
    slow = ub.DeepLSTM(3, 8, backend="reference")
    slow.load_state_dict(layer.state_dict())
    x = 1e-20 * torch.randn(40, 6, 3)
    gradients = []
    for each in (layer, slow):
        (1e-20 * each(x)[0].sum()).backward()
        gradients.append(each.layers[0].weight_ih_l0.grad)
    assert not bool(gradients[0].any())
    assert bool(subnormal(gradients[1]).any())


def test_the_output_layer_flushes_denormals():
    weight = torch.full((5, 8), 1e-20)
    outputs = torch.full((7, 2, 8), 1e-20)
    targets, mask = torch.zeros(2, 7, dtype=torch.int64), torch.ones(2, 7, dtype=torch.bool)
    output_layer = kernels.StaticOutput(weight, None)
    result = output_layer.run(outputs, targets, mask, 1e-20)
    for product in (result.logits, result.grad_outputs, output_layer.grad_weight):
        assert not bool(product.any())
    # torch keeps these denormal products.
    assert bool(subnormal(outputs @ weight.T).all())


def test_a_caller_that_flushes_denormals_continues_to():
    torch.set_flush_denormal(True)
    try:
        ub.DeepLSTM(3, 8, backend="cpu")(torch.randn(4, 2, 3))
        assert not bool((torch.full((8,), 1e-30) * 1e-10).any())
    finally:
        torch.set_flush_denormal(False)
    ub.DeepLSTM(3, 8, backend="cpu")(torch.randn(4, 2, 3))
    assert bool((torch.full((8,), 1e-30) * 1e-10).all())
