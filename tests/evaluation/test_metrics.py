from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbounded.errors import ShapeError
from unbounded.evaluation import sequence_scores

# Per sequence: the target with its </s> (0), and the prediction.
HAND = [
    ([5, 6, 7, 0], [5, 6, 7, 0], True, 1.0),
    ([5, 6, 7, 0], [5, 6, 7, 5], False, 3 / 4),  # everything but the end
    ([5, 6, 7, 0], [4, 6, 7, 0], False, 0.0),  # the first is wrong, all others are correct
    ([5, 6, 7, 0], [5, 4, 7, 0], False, 1 / 4),
    ([0], [0], True, 1.0),
    ([0], [1], False, 0.0),
]


def padded(rows: list[list[int]], offset: int) -> torch.Tensor:
    width = offset + max(map(len, rows)) + 2
    padded = torch.zeros(len(rows), width, dtype=torch.int64)
    for number, row in enumerate(rows):
        padded[number, offset : offset + len(row)] = torch.tensor(row)
    return padded


def masked(rows: list[list[int]], offset: int) -> torch.Tensor:
    return padded([[1] * len(row) for row in rows], offset).bool()


def test_hand_computed_cases() -> None:
    targets = [case[0] for case in HAND]
    mask = masked(targets, 3)
    predicted = padded([case[1] for case in HAND], 3)
    # Predictions at steps without a target must not matter.
    predicted = torch.where(mask, predicted, 99)
    exact_match, partial_accuracy = sequence_scores(predicted, padded(targets, 3), mask)
    assert exact_match.tolist() == [case[2] for case in HAND]
    assert partial_accuracy.tolist() == [case[3] for case in HAND]


def oracle(target: list[int], predicted: list[int]) -> tuple[bool, float]:
    correct = 0
    for expected, got in zip(target, predicted, strict=True):
        if expected != got:
            break
        correct += 1
    return target == predicted, correct / len(target)


pairs = st.lists(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(*[st.lists(st.integers(0, 2), min_size=n, max_size=n)] * 2)
    ),
    min_size=1,
    max_size=5,
)


@given(pairs, st.integers(0, 3))
def test_agrees_with_an_oracle_in_plain_python(
    cases: list[tuple[list[int], list[int]]], offset: int
) -> None:
    targets = [case[0] for case in cases]
    mask = masked(targets, offset)
    predicted = torch.where(mask, padded([case[1] for case in cases], offset), 1)
    exact_match, partial_accuracy = sequence_scores(predicted, padded(targets, offset), mask)
    expected = [oracle(*case) for case in cases]
    assert exact_match.tolist() == [each[0] for each in expected]
    assert partial_accuracy.tolist() == [each[1] for each in expected]


def test_shapes_that_disagree_are_named() -> None:
    with pytest.raises(ShapeError, match=r"one shape \[B, T\]; got \(2, 3\), \(2, 4\), \(2, 3\)"):
        sequence_scores(torch.zeros(2, 3), torch.zeros(2, 4), torch.ones(2, 3, dtype=torch.bool))


def test_a_row_without_target_is_an_error() -> None:
    with pytest.raises(ShapeError, match="no target symbol"):
        sequence_scores(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool))
