"""The output layer with its cross entropy against torch's graph."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unbounded.errors import DTypeError, ShapeError
from unbounded.kernels import StaticOutput, most_symbols


class Case(NamedTuple):
    """Tensors of a call."""

    weight: Tensor
    bias: Tensor | None
    outputs: Tensor
    targets: Tensor
    mask: Tensor


def case(
    dtype: torch.dtype,
    symbols: int = 9,
    hidden: int = 37,
    *,
    bias: bool = True,
    batch: int = 3,
    steps: int = 11,
) -> Case:
    """Random tensors; targets and mask are slices of longer sequences, like chunks of a batch."""
    torch.manual_seed(symbols)
    full = torch.randint(symbols, (batch, steps + 19)), torch.rand(batch, steps + 19) < 0.7
    return Case(
        torch.randn(symbols, hidden, dtype=dtype),
        torch.randn(symbols, dtype=dtype) if bias else None,
        torch.randn(steps, batch, hidden, dtype=dtype),
        full[0][:, 7 : steps + 7],
        full[1][:, 7 : steps + 7],
    )


def leaf_of(tensor: Tensor) -> Tensor:
    """A copy in float64."""
    return tensor.detach().clone().double().requires_grad_()


def by_graph(call: Case, scale: float) -> list[Tensor]:
    """nats, logits and the gradients of outputs, weight and bias, in float64."""
    weight, outputs = (leaf_of(each) for each in (call.weight, call.outputs))
    bias = None if call.bias is None else leaf_of(call.bias)
    logits = functional.linear(outputs, weight, bias)
    chosen = call.mask.t()
    nats = functional.cross_entropy(logits[chosen], call.targets.t()[chosen], reduction="sum")
    (nats * scale).backward()
    leaves = [each for each in (outputs, weight, bias) if each is not None]
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [nats.detach(), logits.detach(), *gradients]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("symbols", "hidden"), [(2, 1), (9, 37), (64, 130)])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_torchs_graph(dtype: torch.dtype, symbols: int, hidden: int, bias: bool) -> None:
    call = case(dtype, symbols, hidden, bias=bias)
    layer = StaticOutput(call.weight, call.bias)
    for scale in (1.0, 0.25):  # a second call must not depend on the first
        result = layer.run(call.outputs, call.targets, call.mask, scale)
        gradients = [layer.grad_weight] + ([] if layer.grad_bias is None else [layer.grad_bias])
        exact = by_graph(call, scale)
        assert len(exact) == 3 + len(gradients)
        tolerance = 1e-12 if dtype == torch.float64 else 2e-5
        for own, other in zip([*result, *gradients], exact, strict=True):
            assert own.dtype == dtype
            torch.testing.assert_close(own.double(), other, rtol=tolerance, atol=tolerance)


def test_many_streams_in_float32_as_accurate_as_torch() -> None:
    call = case(torch.float32, batch=32, steps=50)
    layer = StaticOutput(call.weight, None)
    result = layer.run(call.outputs, call.targets, call.mask, 1.0)
    exact = by_graph(call._replace(bias=None), 1.0)
    weight = call.weight.clone().requires_grad_()
    logits = functional.linear(call.outputs, weight)[call.mask.t()]
    chosen = call.targets.t()[call.mask.t()]
    functional.cross_entropy(logits, chosen, reduction="sum").backward()
    assert weight.grad is not None

    def error(gradients: Tensor, expected: Tensor) -> float:
        return float((gradients.double() - expected).norm() / expected.norm())

    assert error(result.nats, exact[0]) < 1e-6
    assert error(layer.grad_weight, exact[3]) < max(1e-6, 3 * error(weight.grad, exact[3]))


def test_weights_are_read_in_place() -> None:
    call = case(torch.float64)
    layer = StaticOutput(call.weight, call.bias)
    call.weight.mul_(2)
    nats = layer.run(call.outputs, call.targets, call.mask, 1.0).nats
    torch.testing.assert_close(nats, by_graph(call, 1.0)[0])


def test_masked_steps_have_no_effect() -> None:
    call = case(torch.float32)
    first = StaticOutput(call.weight, call.bias).run(*call[2:], 1.0)
    call.targets[~call.mask] = -100
    again = StaticOutput(call.weight, call.bias).run(*call[2:], 1.0)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert not first.grad_outputs[~call.mask.t()].any()


def test_large_logits_and_nan_propagate() -> None:
    call = case(torch.float32)
    call.weight.mul_(1e4)
    assert StaticOutput(call.weight, None).run(*call[2:], 1.0).nats.isfinite()
    call.outputs[:, :, 0] = float("nan")
    result = StaticOutput(call.weight, None).run(*call[2:], 1.0)
    assert result.nats.isnan()
    assert result.logits.isnan().all()


def test_errors_are_named() -> None:
    call = case(torch.float32)
    weight, bias, outputs, targets, mask = call
    with pytest.raises(ShapeError, match="at most 64 symbols, got 65"):
        StaticOutput(torch.zeros(most_symbols() + 1, 3), None)
    with pytest.raises(ShapeError, match="bias: expected shape"):
        StaticOutput(weight, torch.zeros(4))
    with pytest.raises(ShapeError, match="weight: expected a contiguous tensor"):
        StaticOutput(weight.t(), None)
    with pytest.raises(DTypeError, match="weight: expected one of"):
        StaticOutput(weight.half(), None)
    layer = StaticOutput(weight, bias)
    with pytest.raises(ShapeError, match="outputs: expected shape"):
        layer.run(outputs[..., 1:], targets, mask, 1.0)
    with pytest.raises(ShapeError, match=r"targets, mask: expected \[3, 11\]"):
        layer.run(outputs, targets[:, 1:], mask, 1.0)
    with pytest.raises(DTypeError, match="expected int64 and bool"):
        layer.run(outputs, targets.int(), mask, 1.0)
    targets[0, 0], mask[0, 0] = len(weight), True
    with pytest.raises(IndexError, match="not one of the 9 symbols"):
        layer.run(outputs, targets, mask, 1.0)
