"""The fused recurrence against the reference loop."""

from __future__ import annotations

import pytest
import torch
from _cases import (
    GATES,
    assert_parity,
    make_case,
    reference,
    relative_error,
    results_and_gradients,
    truth_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from unbounded.kernels import recurrence

STRUCTURES = ("stack", "queue", "deque")


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [None, [7, 0, 3, 1]])
@pytest.mark.parametrize("sharpness", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("rows", [0, 2])
def test_parity(structure, dtype, lengths, sharpness, rows):
    assert_parity(
        make_case(structure, batch=4, lengths=lengths, dtype=dtype, sharpness=sharpness, rows=rows)
    )


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("batch", [1, 2, 10, 15, 33, 80])
def test_parity_of_larger_sizes(structure, batch):
    assert_parity(make_case(structure, steps=20, batch=batch, inputs=9, hidden=70, width=45))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("controller", ["gru", "elman_tanh", "elman_sigmoid", "elman_relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [None, [7, 0, 3, 1]])
@pytest.mark.parametrize("bias", [True, False])
def test_parity_of_controllers(structure, controller, dtype, lengths, bias):
    assert_parity(
        make_case(
            structure, controller, batch=4, hidden=37, lengths=lengths, dtype=dtype, bias=bias
        )
    )


@pytest.mark.parametrize("structure", STRUCTURES)
def test_parity_without_recurrence(structure):
    assert_parity(make_case(structure, "elman_tanh", recurrent=False))


@settings(max_examples=40, deadline=None)
@given(
    structure=st.sampled_from(STRUCTURES),
    controller=st.sampled_from(sorted(GATES)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    batch=st.integers(1, 17),
    inputs=st.integers(0, 5),
    hidden=st.integers(1, 40),
    width=st.integers(1, 40),
    rows=st.integers(0, 3),
    data=st.data(),
)
def test_parity_of_random_sizes(
    structure, controller, dtype, batch, inputs, hidden, width, rows, data
):
    steps = data.draw(st.integers(1, 8))
    lengths = data.draw(st.none() | st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
    assert_parity(
        make_case(structure, controller, steps, batch, inputs, hidden, width, rows, lengths, dtype)
    )


def test_no_less_accurate_than_the_reference():
    # Over many small calls, geometric means: one division too coarse would show at once.
    ratios = []
    for seed in range(60):
        structure, controller = STRUCTURES[seed % 3], sorted(GATES)[seed % 5]
        case = make_case(structure, controller, seed=seed, dtype=torch.float32)
        got, wanted = (results_and_gradients(each, case) for each in (recurrence, reference))
        for one, other, true in zip(got, wanted, truth_of(case), strict=True):
            ours, theirs = relative_error(one, true), relative_error(other, true)
            if ours > 0 and theirs > 0:
                ratios.append(ours / theirs)
    assert len(ratios) > 300
    assert torch.tensor(ratios).log().mean().exp() <= 1.1
