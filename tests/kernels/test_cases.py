"""What the parity helper must not let through."""

from __future__ import annotations

import pytest
import torch
from _cases import assert_equal_up_to_rounding

NAN = float("nan")


@pytest.mark.parametrize(
    ("got", "wanted", "truth"),
    [
        ([5.0, NAN], [1e-12, 0.0], [0.0, 0.0]),
        ([123.0, 4.0], [NAN, 1.0], [NAN, 1.0]),
        ([-2.9], [0.0], [1.0]),
        ([1.01], [1.0], [1.0]),
    ],
)
def test_a_wrong_number_is_no_rounding(got, wanted, truth):
    def again(change):
        return [change(torch.tensor(truth, dtype=torch.float64))]

    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding([torch.tensor(got)], [torch.tensor(wanted)], again)


def test_a_tie_taken_the_other_way_is_no_rounding():
    one = torch.ones(1, dtype=torch.float64)

    def again(change):
        share = float(change(one) >= 1)
        return [torch.tensor([share, 1 - share], dtype=torch.float64)]

    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding([torch.tensor([0.0, 1.0])], [torch.tensor([1.0, 0.0])], again)


def test_what_rounding_can_do_passes():
    def again(change):
        large = change(torch.tensor([1e4, -1e4], dtype=torch.float64))
        return [large.sum().reshape(1) + 1.0]

    got, wanted = torch.tensor([1.0 + 5e-5]), torch.tensor([1.0])
    assert_equal_up_to_rounding([got], [wanted], again)
    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding([got.double()], [wanted.double()], again)
