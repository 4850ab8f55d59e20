"""Products below float32's precision, as torch.set_float32_matmul_precision allows."""

from __future__ import annotations

import pytest
import torch
from _cases import (
    MEMORIES,
    assert_no_division_changes_a_bit,
    fused,
    make_case,
    results_and_gradients,
)
from tests.sweep import diagonal, sweep

from unbounded.kernels import available, has_tiles, open_session, product_precision

pytestmark = pytest.mark.skipif(not available().ok, reason="no compiled kernels")

#: Memories with results smooth in the weights; in others rounding selects another case.
SMOOTH = ("superposition_stack", "superposition_list", "register", "turing_tape")
#: Largest relative error in the norm added by a precision, for a few dozen steps.
MOST = {"high": 2e-4, "medium": 5e-2}
#: Sizes that fill tiles, and that leave tiles, rows, columns and blocks of time partly filled.
SHAPES = {
    "whole": {"steps": 12, "batch": 16, "inputs": 64, "hidden": 64},
    "one row": {"steps": 9, "batch": 1, "inputs": 3, "hidden": 33},
    "odd": {"steps": 40, "batch": 19, "inputs": 37, "hidden": 45},
    "many rows": {"steps": 5, "batch": 90, "inputs": 2, "hidden": 20},
    "no input": {"steps": 7, "batch": 4, "inputs": 0, "hidden": 70},
    "chunks": {"steps": 90, "batch": 20, "inputs": 5, "hidden": 34},
    "lengths": {
        "steps": 30, "batch": 17, "inputs": 40, "hidden": 50,
        "lengths": [(7 * b) % 31 for b in range(17)],
    },
}  # fmt: skip


@pytest.fixture
def precision():
    before = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


def distance(one, other):
    one, other = one.detach().double(), other.detach().double()
    return float((one - other).norm() / other.norm().clamp_min(1e-30))


def rounded(x):
    return x.to(torch.bfloat16).to(x.dtype)


def product(x, y, kind):
    """x @ y at a precision, but summed in float64 and independent of the kernels' layout."""
    x, y = x.detach().double(), y.detach().double()
    if not has_tiles():
        return x @ y
    high_x, high_y = rounded(x), rounded(y)
    if kind == "medium":
        return high_x @ high_y
    low_x, low_y = rounded(x - high_x), rounded(y - high_y)
    return high_x @ high_y + high_x @ low_y + low_x @ high_y


@pytest.mark.parametrize(
    ("kind", "shape", "memory", "controller"),
    diagonal(["high", "medium"], SHAPES, SMOOTH, ["lstm", "gru", "elman_tanh"], share=3),
)
def test_results_and_gradients_are_near_those_of_float64(
    kind, shape, memory, controller, precision
):
    expected = results_and_gradients(fused, make_case(memory, controller, **SHAPES[shape]))
    case = make_case(memory, controller, **SHAPES[shape], dtype=torch.float32)
    precision(kind)
    for one, other in zip(results_and_gradients(fused, case), expected, strict=True):
        assert one.isfinite().all()
        if other.norm() > 0:
            assert distance(one, other) < MOST[kind]


@pytest.mark.parametrize("kind", ["high", "medium"])
@pytest.mark.parametrize(
    ("batch", "inputs", "hidden"), [(1, 32, 32), (16, 64, 64), (37, 50, 70), (5, 7, 3)]
)
def test_a_step_is_the_product_of_rounded_numbers(kind, batch, inputs, hidden, precision):
    # A ReLU unit of one step without a recurrence: its output is the product itself.
    case = make_case(
        "register", "elman_relu", steps=1, batch=batch, inputs=inputs, hidden=hidden,
        dtype=torch.float32, bias=False,
    )  # fmt: skip
    precision(kind)
    weights, x, hidden0 = case.weights, case.x, case.initial[0]
    read_vector0 = case.initial[1]
    outputs, *_ = fused(case)
    of_x = weights.weight_ih[:, :inputs].T
    of_read_vector = weights.weight_ih[:, inputs:].T
    expected = (
        product(x[0], of_x, kind)
        + product(read_vector0, of_read_vector, kind)
        + product(hidden0, weights.weight_hh.T, kind)
    ).relu()
    assert distance(outputs[0], expected) < 1e-6

    # The unit's gradient is then given from outside.
    reached = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(3))
    grads = torch.autograd.grad(
        outputs, [x, weights.weight_ih, weights.weight_hh, hidden0], reached
    )
    at_unit = (reached * (outputs > 0))[0]
    assert distance(grads[0][0], product(at_unit, weights.weight_ih[:, :inputs], kind)) < 1e-6
    seen = torch.cat([x[0], read_vector0], 1)
    assert distance(grads[1], product(at_unit.T, seen, kind)) < 1e-6
    assert distance(grads[2], product(at_unit.T, hidden0, kind)) < 1e-6
    assert distance(grads[3], product(at_unit, weights.weight_hh, kind)) < 1e-6


@pytest.mark.parametrize("kind", ["high", "medium"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_the_precision_is_only_used_with_tiles(kind, memory, precision):
    case = make_case(memory, steps=4, batch=5, inputs=40, hidden=50, dtype=torch.float32)
    precision("highest")
    highest = results_and_gradients(fused, case)
    precision(kind)
    assert product_precision() == (kind if has_tiles() else "highest")
    lower = results_and_gradients(fused, case)
    same = [torch.equal(one, other) for one, other in zip(lower, highest, strict=True)]
    assert all(same) if not has_tiles() else not same[0]


@pytest.mark.parametrize(
    ("value", "kind"), [("bf16", "medium"), ("tf32", "high"), ("ieee", "highest")]
)
def test_torchs_newer_settings_are_followed(value, kind, precision):
    case = make_case("stack", steps=4, batch=5, inputs=40, hidden=50, dtype=torch.float32)
    precision(kind)
    expected = results_and_gradients(fused, case)
    precision("highest")
    torch.backends.mkldnn.matmul.fp32_precision = value
    try:
        assert product_precision() == (kind if has_tiles() else "highest")
        results = results_and_gradients(fused, case)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"
    assert all(torch.equal(one, other) for one, other in zip(results, expected, strict=True))


@pytest.mark.parametrize("memory", MEMORIES)
def test_float64_always_has_the_highest_precision(memory, precision):
    case = make_case(memory, steps=4, batch=5, hidden=50)
    expected = results_and_gradients(fused, case)
    precision("medium")
    for one, other in zip(results_and_gradients(fused, case), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("kind", "memory", "controller", "batch", "lengths"),
    sweep(
        ["high", "medium"],
        ["stack", "superposition_stack", "lie_access"],
        ["lstm", "gru"],
        [1, 5, 33, 90],
        [False, True],
        fast=lambda kind, memory, controller, batch, lengths: (
            memory == "stack"
            and lengths == (kind == "medium")
            and (controller == "lstm") == (batch in (1, 33))
        ),
    ),
)
def test_no_division_changes_a_bit(kind, memory, controller, batch, lengths, precision, threads):
    some = [(7 * b) % 9 for b in range(batch)] if lengths else None
    case = make_case(
        memory, controller, steps=8, batch=batch, hidden=70, lengths=some, dtype=torch.float32
    )
    precision(kind)
    assert_no_division_changes_a_bit(case, threads)


@pytest.mark.parametrize("kind", ["high", "medium"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_a_session_steps_to_the_same_bits(kind, memory, precision):
    case = make_case(memory, steps=6, batch=3, hidden=40, dtype=torch.float32, grad=False)
    precision(kind)
    outputs, *_ = fused(case)
    structure, activations, controller, x, _, weights, initial = case.arguments()
    session = open_session(structure, activations, controller, weights, initial, room=6)
    # Packed weights keep their precision if the setting changes later.
    precision("highest")
    steps = [session.run(x[t : t + 1], None)[0] for t in range(6)]
    assert torch.equal(torch.cat(steps), outputs)


@pytest.mark.parametrize("kind", ["high", "medium"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_propagate(kind, value, precision):
    case = make_case("register", steps=3, batch=4, inputs=40, hidden=40, dtype=torch.float32)
    with torch.no_grad():
        case.x[1, 2, 5] = value
    precision(kind)
    results = results_and_gradients(fused, case)
    outputs = results[0]
    assert outputs[0].isfinite().all()
    assert outputs[1:, [0, 1, 3]].isfinite().all()
    if value != value:
        assert outputs[1, 2].isnan().all()
        assert any(each.isnan().any() for each in results[-3:])  # of weights
