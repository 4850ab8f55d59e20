from __future__ import annotations

import math

import pytest
import torch

from unbounded.errors import ShapeError
from unbounded.training import masked_cross_entropy, perplexity


def test_sum_over_counted_steps_by_hand() -> None:
    logits = torch.tensor([[[0.0, 0.0], [math.log(3.0), 0.0]], [[9.0, -9.0], [0.0, 0.0]]])
    targets = torch.tensor([[0, 0], [1, 1]])
    mask = torch.tensor([[True, True], [False, True]])
    # -ln 1/2, -ln 3/4, nothing, -ln 1/2
    wanted = 2 * math.log(2) + math.log(4 / 3)
    assert float(masked_cross_entropy(logits, targets, mask)) == pytest.approx(wanted, abs=1e-6)


def test_steps_that_do_not_count_get_no_gradient() -> None:
    logits = torch.randn(2, 3, 4, requires_grad=True)
    mask = torch.tensor([[True, False, False], [False, True, True]])
    masked_cross_entropy(logits, torch.zeros(2, 3, dtype=torch.int64), mask).backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad.abs().sum(-1) > 0, mask)


def test_low_precision_is_summed_in_float32() -> None:
    logits = torch.zeros(1, 3, 4, dtype=torch.bfloat16)
    mask = torch.ones(1, 3, dtype=torch.bool)
    loss = masked_cross_entropy(logits, torch.zeros(1, 3, dtype=torch.int64), mask)
    assert loss.dtype == torch.float32


def test_shapes_that_disagree_are_named() -> None:
    with pytest.raises(ShapeError, match=r"\[B, T, V\] with targets and mask \[B, T\]"):
        masked_cross_entropy(
            torch.zeros(2, 3, 4),
            torch.zeros(2, 4, dtype=torch.int64),
            torch.ones(2, 4, dtype=torch.bool),
        )


def test_perplexity() -> None:
    assert perplexity(math.log(128)) == pytest.approx(128)
    assert perplexity(1e9) == math.inf
