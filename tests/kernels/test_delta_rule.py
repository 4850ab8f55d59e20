"""The kernel of DeltaNet and DeltaProduct against the reference, as an operator and in layers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from tests.rnn.layers import DELTA_LAYERS, delta_layer
from tests.sweep import sweep
from tests.tolerances import assert_close
from torch.utils.checkpoint import checkpoint

import unbounded as ub
from unbounded.errors import BackendError, DTypeError, ShapeError
from unbounded.kernels import DeltaInputs, delta_rule
from unbounded.kernels._delta_rule import BLOCK
from unbounded.rnn.deltanet import reference_delta_rule

OPERATORS = torch.ops.unbounded
DOUBLE = torch.float64


def inputs(
    batch: int = 2, tokens: int = 7, heads: int = 2, size: int = 5, steps: int = 2, taps: int = 4,
    dtype: torch.dtype = DOUBLE,
) -> DeltaInputs:  # fmt: skip
    """Random inputs that need gradients; taps 0 for no convolution."""
    random = torch.Generator().manual_seed(tokens + size)
    channels = (1 + 2 * steps) * heads * size

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=DOUBLE).to(dtype)

    strengths = 2 * torch.sigmoid(normal(batch, tokens, steps, heads))
    given = DeltaInputs(
        normal(batch, tokens, channels),
        normal(batch, max(0, taps - 1), channels),
        normal(taps, channels) if taps else None,
        strengths,
        normal(batch, heads, size, size),
    )
    return DeltaInputs(*[None if each is None else each.requires_grad_() for each in given])


def fused(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return delta_rule(DeltaInputs(*given), reference=reference_delta_rule)


def results_and_gradients(rule, given, of=("read", "state")):
    """The read vectors, the last state, and the gradients of one or both."""
    read, state = rule(*given)
    weights = torch.linspace(-1, 1, max(1, read.numel()), dtype=read.dtype)[: read.numel()]
    losses = {"read": (read * weights.view(read.shape)).sum(), "state": state.square().sum()}
    loss = sum(losses[name] for name in of)
    leaves = [each for each in given if each is not None]
    return [read, state, *torch.autograd.grad(loss, leaves, materialize_grads=True)]


def assert_parity(given, of=("read", "state"), rtol=1e-9, atol=1e-10):
    got, want = (results_and_gradients(rule, given, of) for rule in (fused, reference_delta_rule))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


def assert_near_float64(given, most):
    exact = [None if each is None else each.detach().double().requires_grad_() for each in given]
    want = results_and_gradients(reference_delta_rule, exact)
    for one, other in zip(results_and_gradients(fused, given), want, strict=True):
        assert (one - other).norm() <= most * other.norm()


SIZES = [1, 2, 8, 11, 16, 19, 32, 40]


@pytest.mark.parametrize(
    ("size", "steps", "taps", "tokens"),
    sweep(
        SIZES,
        [1, 2, 3],
        [0, 1, 4],
        [1, 2, BLOCK, 2 * BLOCK + 3],
        fast=lambda size, steps, taps, tokens: (SIZES.index(size) + steps + taps + tokens) % 3 == 0,
    ),
)
def test_parity(size, steps, taps, tokens):
    assert_parity(inputs(size=size, steps=steps, taps=taps, tokens=tokens))


@pytest.mark.parametrize("size", SIZES)
def test_parity_in_float32(size):
    given = inputs(size=size, tokens=BLOCK + 5, dtype=torch.float32)
    assert_parity(given, rtol=1e-3, atol=1e-3)
    # The gradient of the norm of one number cancels.
    assert_near_float64(given, 1e-5 if size > 1 else 1e-4)


def test_a_long_sequence_in_float32_is_as_exact_as_a_short_one():
    """H of the steps before is derived from H after them, from the last block on."""
    assert_near_float64(inputs(1, 3000, 1, 8, dtype=torch.float32), 1e-5)


@pytest.mark.parametrize("name", ["read", "state"])
def test_gradients_of_one_result_alone(name):
    assert_parity(inputs(tokens=BLOCK + 1), [name])


def test_only_the_needed_gradients():
    given = inputs()
    given.projected.requires_grad_(False)
    given.state.requires_grad_(False)
    fused(*given)[0].sum().backward()
    assert given.projected.grad is None
    assert given.strengths.grad is not None


@pytest.mark.parametrize(("batch", "tokens"), [(0, 3), (2, 0)])
def test_nothing_to_do(batch, tokens):
    given = inputs(batch, tokens)
    read, state, *grads = results_and_gradients(fused, given)
    assert read.shape == (batch, tokens, 2, 5)
    assert torch.equal(state, given.state)
    assert all(bool(grad.isfinite().all()) for grad in grads)


@pytest.mark.parametrize("taps", [0, 3])
def test_gradcheck(taps):
    given = inputs(1, 3, 1, 3, 2, taps)
    leaves = [each for each in given if each is not None]

    def run(*leaves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rest = iter(leaves)
        return fused(*(None if each is None else next(rest) for each in given))

    assert torch.autograd.gradcheck(run, leaves)


def test_second_derivatives_come_from_the_reference():
    given = inputs(1, 3, 1, 3)

    def second(rule):
        grad = torch.autograd.grad(rule(*given)[0].square().sum(), given[0], create_graph=True)[0]
        return torch.autograd.grad(grad.square().sum(), given[0])[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_close(second(fused), second(reference_delta_rule), "second derivative")


def test_threads_change_no_bit(threads):
    given = inputs(7, 40, 3, 16, dtype=torch.float32)
    threads(1)
    alone = results_and_gradients(fused, given)
    threads(3)
    for one, other in zip(alone, results_and_gradients(fused, given), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("taps", [0, 4])
def test_opcheck(taps):
    given = tuple(
        None if each is None else each.detach() for each in inputs(tokens=BLOCK + 2, taps=taps)
    )
    for saves in (True, False):
        torch.library.opcheck(OPERATORS.delta_rule.default, given, {"saves": saves})
    results = list(OPERATORS.delta_rule(*given, saves=True))
    grads = [torch.randn_like(each) for each in results[:2]]
    for of_state in (grads[1], None):
        by_name = {"results": results, "grad_read": grads[0], "grad_state_last": of_state}
        torch.library.opcheck(OPERATORS.delta_rule_backward.default, given, by_name)


@pytest.mark.parametrize("name", DeltaInputs._fields)
@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.unsqueeze(0),
        lambda tensor: tensor[..., :-1].contiguous(),
        lambda tensor: tensor.float(),
        lambda tensor: torch.stack((tensor, tensor), -1)[..., 0],
    ],
    ids=["one axis too many", "narrower", "another dtype", "spread out"],
)
def test_a_tensor_that_does_not_fit_is_an_error(name, change):
    given = DeltaInputs(*(each.detach() for each in inputs(tokens=BLOCK + 1)))
    wrong = given._replace(**{name: change(getattr(given, name))})
    with pytest.raises((ShapeError, DTypeError), match="expected"):
        OPERATORS.delta_rule(*wrong, saves=True)
    results = list(OPERATORS.delta_rule(*given, saves=True))
    with pytest.raises((ShapeError, DTypeError), match="expected"):
        OPERATORS.delta_rule_backward(
            *wrong, results=results, grad_read=results[0], grad_state_last=None
        )
    for k in range(len(results)):
        damaged = [change(each) if i == k else each for i, each in enumerate(results)]
        with pytest.raises((ShapeError, DTypeError), match="expected"):
            OPERATORS.delta_rule_backward(
                *given, results=damaged, grad_read=results[0], grad_state_last=None
            )


def both(kind: str, run: Any) -> list[Any]:
    return [run(delta_layer(kind, backend=backend)) for backend in ("cpu", "reference")]


@pytest.mark.parametrize("kind", DELTA_LAYERS)
@pytest.mark.parametrize("sizes", [[9], [1] * 9, [2, 1, 6]])
def test_layers_with_and_without_the_kernel_are_equal(kind, sizes):
    torch.manual_seed(2)
    x, lengths = torch.randn(3, 9, 3, dtype=DOUBLE), torch.tensor([9, 0, 4])

    def run(layer):
        state, outputs = None, []
        for part in x.split(sizes, dim=1):
            begun = 0 if state is None else sum(each.shape[1] for each in outputs)
            output, state = layer(part, state, (lengths - begun).clamp(0, part.shape[1]))
            outputs.append(output)
        output = torch.cat(outputs, dim=1)
        loss = output.square().sum() + sum(
            part.square().sum() for part in ub.memories.core.state_tensors(state)
        )
        return output, *torch.autograd.grad(loss, list(layer.parameters()))

    for one, other in zip(*both(kind, run), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_a_layer_uses_the_kernel(monkeypatch):
    def refuse(*_: Any) -> None:
        raise AssertionError("the reference runs")

    monkeypatch.setattr("unbounded.rnn.deltanet.delta_rule", refuse)
    delta_layer("deltanet")(torch.zeros(1, 4, 3, dtype=DOUBLE))
    with pytest.raises(AssertionError):
        delta_layer("deltanet", backend="reference")(torch.zeros(1, 4, 3, dtype=DOUBLE))


def test_hooks_of_the_convolution_run():
    layer, seen = delta_layer("deltanet"), []
    layer.blocks[0].mixers[0].convolution.register_forward_hook(lambda *_: seen.append(1))
    x = torch.zeros(1, 4, 3, dtype=DOUBLE)
    output, _ = layer(x)
    assert seen == [1]
    assert_close(output, delta_layer("deltanet")(x)[0], "output")
    required = delta_layer("deltanet", backend="cpu")
    required.blocks[0].mixers[0].convolution.register_forward_hook(lambda *_: None)
    with pytest.raises(BackendError, match="the convolution has hooks"):
        required(x)


class Doubled(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 2 * self.inner(x)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_another_module_in_place_of_the_convolution_is_called(backend):
    layer, x = delta_layer("deltanet", backend=backend), torch.randn(1, 4, 3, dtype=DOUBLE)
    plain, _ = layer(x)
    for block in layer.blocks:
        block.mixers[0].convolution = Doubled(block.mixers[0].convolution)
    assert not torch.allclose(layer(x)[0], plain)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    layer, x = delta_layer("deltaproduct"), torch.randn(2, 5, 3, dtype=DOUBLE, requires_grad=True)
    (plain,) = torch.autograd.grad(layer(x)[0].square().sum(), x)
    output = checkpoint(lambda x: layer(x)[0], x, use_reentrant=reentrant)
    output.square().sum().backward()
    assert_close(x.grad, plain, "gradient")


def test_a_carried_state_keeps_only_the_last_inputs():
    recent = delta_layer("deltanet")(torch.zeros(2, 50, 3, dtype=DOUBLE))[1][0][0].recent
    assert recent.untyped_storage().nbytes() == recent.numel() * recent.element_size()


def test_under_autocast_the_reference_runs():
    layer = delta_layer("deltanet", dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(torch.randn(2, 5, 3))
    assert output.isfinite().all()
    with (
        pytest.raises(BackendError, match="take float32 and float64"),
        torch.autocast("cpu", torch.bfloat16),
    ):
        delta_layer("deltanet", dtype=torch.float32, backend="cpu")(torch.randn(2, 5, 3))


# A warning of torch itself, about forward mode.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transforms_of_torch_func_use_the_reference():
    layer = delta_layer("deltaproduct")
    x = torch.randn(2, 4, 3, dtype=DOUBLE)
    tangent = torch.randn_like(x)
    _, derivative = torch.func.jvp(lambda x: layer(x)[0], (x,), (tangent,))
    step = 1e-6
    with torch.no_grad():
        near = (layer(x + step * tangent)[0] - layer(x - step * tangent)[0]) / (2 * step)
    torch.testing.assert_close(derivative, near, rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", DELTA_LAYERS)
def test_an_exported_layer_takes_any_number_of_steps(kind):
    layer = delta_layer(kind).eval()
    steps = torch.export.Dim("steps", min=2, max=1 << 20)
    program = torch.export.export(
        layer, (torch.randn(2, 6, 3, dtype=DOUBLE),), dynamic_shapes=({1: steps},)
    ).module()
    for tokens in (2, 3, 40):
        x = torch.randn(2, tokens, 3, dtype=DOUBLE)
        assert_close(program(x)[0], layer(x)[0], "output")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_layer_trains():
    torch.compiler.reset()
    layer = delta_layer("deltaproduct")
    compiled = torch.compile(layer, backend="aot_eager")
    for tokens in (5, 9):
        x = torch.randn(2, tokens, 3, dtype=DOUBLE)
        losses = [run(x)[0].square().sum() for run in (compiled, layer)]
        one, other = (torch.autograd.grad(loss, list(layer.parameters())) for loss in losses)
        for got, want in zip(one, other, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)
    torch.compiler.reset()


def test_inputs_of_zero_have_finite_gradients():
    given = inputs(dtype=torch.float32)
    zeros = [torch.zeros_like(each).requires_grad_() for each in given]
    assert all(bool(each.isfinite().all()) for each in results_and_gradients(fused, zeros))


def test_steps_of_strength_0_change_nothing():
    given = inputs(tokens=BLOCK + 2)
    given = given._replace(strengths=torch.zeros_like(given.strengths).requires_grad_())
    assert torch.equal(fused(*given)[1], given.state)
    assert_parity(given)
