from __future__ import annotations

import math

import pytest
import torch

from unbounded.errors import ShapeError
from unbounded.training import masked_cross_entropy, perplexity
from unbounded.training.objective import training_loss


def test_sum_over_counted_steps_by_hand() -> None:
    logits = torch.tensor([[[0.0, 0.0], [math.log(3.0), 0.0]], [[9.0, -9.0], [0.0, 0.0]]])
    targets = torch.tensor([[0, 0], [1, 1]])
    mask = torch.tensor([[True, True], [False, True]])
    # -ln 1/2, -ln 3/4, nothing, -ln 1/2
    expected = 2 * math.log(2) + math.log(4 / 3)
    assert float(masked_cross_entropy(logits, targets, mask)) == pytest.approx(expected, abs=1e-6)


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


def smoothed_by_hand(logits: torch.Tensor, target: int, share: float) -> float:
    nats = -logits.log_softmax(-1)
    return float((1 - share) * nats[target] + share * nats.mean())


def test_smoothed_labels_by_hand() -> None:
    logits = torch.tensor([[[2.0, -1.0, 0.5], [0.0, 3.0, 1.0]]])
    targets, mask = torch.tensor([[0, 2]]), torch.tensor([[True, True]])
    loss = training_loss("cross_entropy", label_smoothing=0.3)
    first, second = (smoothed_by_hand(logits[0, t], int(targets[0, t]), 0.3) for t in range(2))
    assert float(loss(logits, targets, mask)) == pytest.approx(first + second, abs=1e-5)
    half = torch.tensor([[False, True]])
    assert float(loss(logits, targets, half)) == pytest.approx(second, abs=1e-5)
    assert training_loss("cross_entropy") is masked_cross_entropy


@pytest.mark.parametrize("objective", ["cross_entropy", "binary", "bits"])
def test_a_prediction_equal_to_its_smoothed_target_has_no_gradient(objective: str) -> None:
    share = 0.2
    loss = training_loss(objective, label_smoothing=share)
    mask = torch.ones(1, 1, dtype=torch.bool)
    if objective == "cross_entropy":
        chances = torch.full((1, 1, 4), share / 4)
        chances[0, 0, 2] += 1 - share
        logits, target = chances.log(), 2
    else:
        sure = math.log((1 - share / 2) / (share / 2))
        # As bits 2 is a 0 and then a 1, the lowest bit first.
        numbers, target = ([-sure, sure], 2) if objective == "bits" else ([sure], 1)
        logits = torch.tensor([[numbers]])
    targets = torch.tensor([[target]])
    for factor, sign in ((1.0, 0), (2.0, 1), (0.5, -1)):
        scaled = (logits * factor).detach().requires_grad_()
        loss(scaled, targets, mask).backward()
        assert scaled.grad is not None
        along = float((scaled.grad * logits).sum())
        assert abs(along) < 1e-6 if sign == 0 else along * sign > 1e-3
