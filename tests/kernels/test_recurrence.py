"""The fused recurrence against the reference loop."""

from __future__ import annotations

import pytest
import torch
from _cases import assert_parity, make_case

STRUCTURES = ("stack", "queue", "deque")


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [None, [7, 0, 3, 1]])
@pytest.mark.parametrize("sharpness", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("rows", [0, 2])
def test_parity(structure, dtype, lengths, sharpness, rows):
    if dtype == torch.float32 and sharpness > 100:
        pytest.skip("so steep a head multiplies the rounding errors of both paths")
    assert_parity(
        make_case(structure, batch=4, lengths=lengths, dtype=dtype, sharpness=sharpness, rows=rows)
    )


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("batch", [1, 2, 10, 15, 33])
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
