"""Numbers too small for their exponent are 0 in a call of the kernels, and nowhere else."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from unbounded import kernels
from unbounded.kernels._library import switched

pytestmark = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
TINY = torch.finfo(torch.float32).tiny


def fading(layer):
    """A layer that forgets at once: what goes back through it is 1e-4 of that at each step."""
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
def test_a_gradient_that_fades_ends_in_nought(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        layer = fading(ub.DeepLSTM(3, 8, backend="cpu"))
        x = torch.randn(40, 6, 3, requires_grad=True)
        with switched(division=1):  # so that all threads wait for all
            layer(x)[0][-1].sum().backward()
        slow = fading(ub.DeepLSTM(3, 8, backend="reference"))
        slow.load_state_dict(layer.state_dict())
        y = x.detach().requires_grad_()
        slow(y)[0][-1].sum().backward()
        # torch computes on where the kernels have come to 0.
        assert bool(subnormal(y.grad).any())
        assert not bool(subnormal(x.grad).any())
        assert bool((x.grad != 0).any())
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-36)
        # Every thread is as it was: this is a product that torch shares among them.
        assert bool(subnormal(torch.full((200_000,), 1e-30) * 1e-10).all())
    finally:
        torch.set_num_threads(before)


def test_who_takes_them_for_nought_goes_on_to():
    torch.set_flush_denormal(True)
    try:
        ub.DeepLSTM(3, 8, backend="cpu")(torch.randn(4, 2, 3))
        assert not bool((torch.full((8,), 1e-30) * 1e-10).any())
    finally:
        torch.set_flush_denormal(False)
    ub.DeepLSTM(3, 8, backend="cpu")(torch.randn(4, 2, 3))
    assert bool((torch.full((8,), 1e-30) * 1e-10).all())
