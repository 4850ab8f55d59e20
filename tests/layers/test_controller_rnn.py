"""The plain Elman network: torch's own loop beside the readable one."""

from functools import partial

import pytest
import torch

import unbounded as ub
from unbounded.errors import ShapeError
from unbounded.layers import ElmanController
from unbounded.layers.controller_rnn import _run_steps

STEPS, BATCH, INPUT, HIDDEN = 7, 4, 3, 5


def make(activation, bias=True):
    torch.manual_seed(2)
    controller = partial(ElmanController, activation=activation, bias=bias)
    return ub.ControllerRNN(INPUT, HIDDEN, controller, dtype=torch.float64)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("lengths", [None, [7, 0, 1, 4]])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_the_fast_loop_agrees_with_the_readable_one(activation, bias, lengths):
    layer = make(activation, bias)
    x, h = draw(STEPS, BATCH, INPUT), draw(BATCH, HIDDEN)
    counts = None if lengths is None else torch.tensor(lengths)
    factors = torch.linspace(1, 2, STEPS).reshape(-1, 1, 1)
    results = []
    for run in (layer, partial(_run_steps, layer.controller)):
        outputs, (final,) = run(x, (h,), counts)
        loss = (outputs * factors).sum() + 3 * final.square().sum()
        gradients = torch.autograd.grad(loss, [x, h, *layer.parameters()])
        results.append([outputs, final, *gradients])
    for fast, readable in zip(*results, strict=True):
        torch.testing.assert_close(fast, readable, rtol=1e-12, atol=1e-12)


def test_hooks_see_every_step():
    layer = make("sigmoid")
    steps = []
    layer.controller.register_forward_hook(lambda *call: steps.append(call))
    layer(draw(STEPS, BATCH, INPUT))
    assert len(steps) == STEPS


def test_no_step_at_all_is_an_error():
    with pytest.raises(ShapeError):
        make("tanh")(draw(0, BATCH, INPUT))


def test_per_sample_gradients():
    layer = make("sigmoid")
    x = draw(3, STEPS, BATCH, INPUT).detach()
    parameters = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(weights, sample):
        return torch.func.functional_call(layer, weights, (sample,))[0].square().sum()

    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    for k, sample in enumerate(x):
        alone = torch.autograd.grad(layer(sample)[0].square().sum(), list(layer.parameters()))
        for name, gradient in zip(parameters, alone, strict=True):
            torch.testing.assert_close(together[name][k], gradient)


@pytest.mark.parametrize("count", [0, 2])
def test_a_state_of_another_number_of_tensors(count):
    with pytest.raises(ShapeError, match=r"state: expected 1 tensor\(s\), got"):
        make("tanh")(draw(STEPS, BATCH, INPUT), (draw(BATCH, HIDDEN),) * count)
