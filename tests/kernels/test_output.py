"""The output layer with its cross entropy against torch's graph."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unbounded.errors import DTypeError, ShapeError
from unbounded.kernels import BoundOutput, most_symbols


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
    """Random ones; targets and mask are parts of longer sequences, as pieces of a batch are."""
    torch.manual_seed(symbols)
    whole = torch.randint(symbols, (batch, steps + 19)), torch.rand(batch, steps + 19) < 0.7
    return Case(
        torch.randn(symbols, hidden, dtype=dtype),
        torch.randn(symbols, dtype=dtype) if bias else None,
        torch.randn(steps, batch, hidden, dtype=dtype),
        whole[0][:, 7 : steps + 7],
        whole[1][:, 7 : steps + 7],
    )


def leaf_of(tensor: Tensor) -> Tensor:
    """A copy in float64."""
    return tensor.detach().clone().double().requires_grad_()


def by_graph(given: Case, scale: float) -> list[Tensor]:
    """nats, logits and the gradients of outputs, weight and bias, in float64."""
    weight, outputs = (leaf_of(each) for each in (given.weight, given.outputs))
    bias = None if given.bias is None else leaf_of(given.bias)
    logits = functional.linear(outputs, weight, bias)
    chosen = given.mask.t()
    nats = functional.cross_entropy(logits[chosen], given.targets.t()[chosen], reduction="sum")
    (nats * scale).backward()
    leaves = [each for each in (outputs, weight, bias) if each is not None]
    found = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [nats.detach(), logits.detach(), *found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("symbols", "hidden"), [(2, 1), (9, 37), (64, 130)])
@pytest.mark.parametrize("bias", [True, False])
def test_as_the_graph(dtype: torch.dtype, symbols: int, hidden: int, bias: bool) -> None:
    given = case(dtype, symbols, hidden, bias=bias)
    bound = BoundOutput(given.weight, given.bias)
    for scale in (1.0, 0.25):  # a second call begins anew
        made = bound.run(given.outputs, given.targets, given.mask, scale)
        gradients = [bound.grad_weight] + ([] if bound.grad_bias is None else [bound.grad_bias])
        exact = by_graph(given, scale)
        assert len(exact) == 3 + len(gradients)
        tolerance = 1e-12 if dtype == torch.float64 else 2e-5
        for own, other in zip([*made, *gradients], exact, strict=True):
            assert own.dtype == dtype
            torch.testing.assert_close(own.double(), other, rtol=tolerance, atol=tolerance)


def test_many_streams_in_float32_as_accurate_as_torch() -> None:
    given = case(torch.float32, batch=32, steps=50)
    bound = BoundOutput(given.weight, None)
    made = bound.run(given.outputs, given.targets, given.mask, 1.0)
    exact = by_graph(given._replace(bias=None), 1.0)
    weight = given.weight.clone().requires_grad_()
    logits = functional.linear(given.outputs, weight)[given.mask.t()]
    chosen = given.targets.t()[given.mask.t()]
    functional.cross_entropy(logits, chosen, reduction="sum").backward()
    assert weight.grad is not None

    def error(found: Tensor, wanted: Tensor) -> float:
        return float((found.double() - wanted).norm() / wanted.norm())

    assert error(made.nats, exact[0]) < 1e-6
    assert error(bound.grad_weight, exact[3]) < max(1e-6, 3 * error(weight.grad, exact[3]))


def test_weights_are_read_where_they_are() -> None:
    given = case(torch.float64)
    bound = BoundOutput(given.weight, given.bias)
    given.weight.mul_(2)
    nats = bound.run(given.outputs, given.targets, given.mask, 1.0).nats
    torch.testing.assert_close(nats, by_graph(given, 1.0)[0])


def test_what_does_not_count_changes_nothing() -> None:
    given = case(torch.float32)
    first = BoundOutput(given.weight, given.bias).run(*given[2:], 1.0)
    given.targets[~given.mask] = -100
    again = BoundOutput(given.weight, given.bias).run(*given[2:], 1.0)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert not first.grad_outputs[~given.mask.t()].any()


def test_large_logits_and_nan_come_through() -> None:
    given = case(torch.float32)
    given.weight.mul_(1e4)
    assert BoundOutput(given.weight, None).run(*given[2:], 1.0).nats.isfinite()
    given.outputs[:, :, 0] = float("nan")
    made = BoundOutput(given.weight, None).run(*given[2:], 1.0)
    assert made.nats.isnan()
    assert made.logits.isnan().all()


def test_faults_are_named() -> None:
    given = case(torch.float32)
    weight, bias, outputs, targets, mask = given
    with pytest.raises(ShapeError, match="at most 64 symbols, got 65"):
        BoundOutput(torch.zeros(most_symbols() + 1, 3), None)
    with pytest.raises(ShapeError, match="bias: expected shape"):
        BoundOutput(weight, torch.zeros(4))
    with pytest.raises(ShapeError, match="weight: expected a contiguous tensor"):
        BoundOutput(weight.t(), None)
    with pytest.raises(DTypeError, match="weight: expected one of"):
        BoundOutput(weight.half(), None)
    bound = BoundOutput(weight, bias)
    with pytest.raises(ShapeError, match="outputs: expected shape"):
        bound.run(outputs[..., 1:], targets, mask, 1.0)
    with pytest.raises(ShapeError, match=r"targets, mask: expected \[3, 11\]"):
        bound.run(outputs, targets[:, 1:], mask, 1.0)
    with pytest.raises(DTypeError, match="expected int64 and bool"):
        bound.run(outputs, targets.int(), mask, 1.0)
    targets[0, 0], mask[0, 0] = len(weight), True
    with pytest.raises(IndexError, match="none of the 9 symbols"):
        bound.run(outputs, targets, mask, 1.0)
