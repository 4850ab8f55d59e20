"""Errors that the parity helper must detect."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from _cases import (
    assert_equal_up_to_rounding,
    fused,
    make_case,
    reference,
    results_and_gradients,
    truth_of,
)
from tests.sweep import sweep

from unbounded.memories import LieAccessMemory

NAN = float("nan")


@pytest.mark.parametrize(
    ("got", "expected", "truth"),
    [
        ([5.0, NAN], [1e-12, 0.0], [0.0, 0.0]),
        ([123.0, 4.0], [NAN, 1.0], [NAN, 1.0]),
        ([-2.9], [0.0], [1.0]),
        ([1.01], [1.0], [1.0]),
    ],
)
def test_a_wrong_number_is_no_rounding(got, expected, truth):
    def again(change):
        return [change(torch.tensor(truth, dtype=torch.float64))]

    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding([torch.tensor(got)], [torch.tensor(expected)], again)


def test_a_wrong_branch_at_a_tie_is_no_rounding():
    one = torch.ones(1, dtype=torch.float64)

    def again(change):
        share = float(change(one) >= 1)
        return [torch.tensor([share, 1 - share], dtype=torch.float64)]

    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding([torch.tensor([0.0, 1.0])], [torch.tensor([1.0, 0.0])], again)


def test_rounding_passes():
    def again(change):
        large = change(torch.tensor([1e4, -1e4], dtype=torch.float64))
        return [large.sum().reshape(1) + 1.0]

    got, expected = torch.tensor([1.0 + 5e-5]), torch.tensor([1.0])
    assert_equal_up_to_rounding([got], [expected], again)
    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding([got.double()], [expected.double()], again)


@pytest.mark.parametrize(
    ("dtype", "wrong"),
    sweep(
        [torch.float32, torch.float64],
        [0.0, -1.0, 2.0],
        fast=lambda dtype, wrong: dtype == torch.float32 or wrong == -1.0,
    ),
)
def test_gradients_of_inputs_near_0_are_compared(dtype, wrong):
    """Cancelling terms excuse rounding errors around 0, but no error of a real gradient."""
    memory = LieAccessMemory(17, "scaling_rotation", "softmax", initial="learned")
    case = make_case(memory, steps=7, rows=0, dtype=dtype, seed=3)
    got, expected = (results_and_gradients(call, case) for call in (fused, reference))
    strengths = len(got) - len(case.initial) + 1 + 2 + memory.State._fields.index("strengths")
    assert 0 < case.initial[strengths - len(got)].max() < 1e-3
    assert expected[strengths].abs().max() > 0.1
    again = partial(truth_of, case)
    assert_equal_up_to_rounding(got, expected, again, case.tensors())
    got[strengths] = wrong * got[strengths]
    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding(got, expected, again, case.tensors())


@pytest.mark.parametrize(("small", "passes"), [(1e-20, True), (1e-9, False), (NAN, False)])
def test_numbers_negligible_against_the_largest_pass(small, passes):
    def again(change):
        return [torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)]

    got, expected = ([torch.ones(1), torch.tensor([sign * small])] for sign in (1, -1))
    if passes:
        assert_equal_up_to_rounding(got, expected, again)
    else:
        with pytest.raises(AssertionError):
            assert_equal_up_to_rounding(got, expected, again)


def test_results_have_no_exception():
    case = make_case("lie_access", batch=4, dtype=torch.float32)
    got, expected = (results_and_gradients(call, case) for call in (fused, reference))
    got[0] = got[0] + 5e-3
    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding(got, expected, partial(truth_of, case), case.tensors())
