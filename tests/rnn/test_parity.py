from __future__ import annotations

import math

import pytest
import torch

from unbounded.rnn.parity import relative_error


@pytest.mark.parametrize(
    ("got", "expected", "error"),
    [
        ([1.0, -4.5], [1.0, -4.0], 0.125),
        ([], [], 0.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([1e-300, 0.0], [0.0, 0.0], math.inf),
        ([math.nan, 1.0], [0.0, 1.0], math.inf),
        ([0.0, 1.0], [math.nan, 1.0], math.inf),
        ([math.inf], [math.inf], math.inf),
    ],
)
def test_the_relative_error_refers_to_the_largest_number_and_shows_nan(
    got: list[float], expected: list[float], error: float
) -> None:
    pair = (torch.tensor(got, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64))
    assert relative_error(*pair) == error
