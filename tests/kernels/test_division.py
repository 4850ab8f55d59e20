"""How the work is divided between threads changes no bit, and ties fall as in the reference."""

from __future__ import annotations

import itertools

import pytest
import torch
from _cases import assert_parity, make_case, relative_error, run_and_differentiate

from unbounded.kernels import ControllerWeights, _library, recurrence, without_memory
from unbounded.layers.controllers import lstm_cell

STRUCTURES = ("stack", "queue", "deque")
BY_RULE, BY_ROWS, BY_COLUMNS = 0, 1, 2


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def results_of(case):
    outputs, grads = run_and_differentiate(recurrence, case)
    return [*outputs, *grads]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("controller", ["lstm", "gru", "elman_tanh"])
@pytest.mark.parametrize("batch", [1, 5, 33])
@pytest.mark.parametrize("lengths", [False, True])
def test_no_division_changes_a_bit(structure, controller, batch, lengths, threads, monkeypatch):
    some = [(7 * b) % 9 for b in range(batch)] if lengths else None
    case = make_case(
        structure, controller, steps=8, batch=batch, hidden=70, width=40, lengths=some,
        dtype=torch.float32,
    )  # fmt: skip
    wanted = None
    for count, division in itertools.product((1, 2, 3), (BY_RULE, BY_ROWS, BY_COLUMNS)):
        threads(count)
        monkeypatch.setattr(_library, "division", division)
        results = results_of(case)
        wanted = wanted or results
        for one, other in zip(results, wanted, strict=True):
            assert torch.equal(one, other), (count, division)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("division", [BY_ROWS, BY_COLUMNS])
def test_a_thread_that_goes_on_alone_changes_no_bit(structure, division, threads, monkeypatch):
    # As where another process keeps a core busy: whatever phase of whatever step the others leave
    # at, the first thread takes over what was theirs.
    lengths = [8, 0, 3, 5, 8]
    case = make_case(structure, steps=8, batch=5, hidden=70, width=40, lengths=lengths)
    threads(1)
    wanted = results_of(case)
    threads(3)
    monkeypatch.setattr(_library, "division", division)
    for after in range(1, 30):
        monkeypatch.setattr(_library, "alone_after", after)
        for one, other in zip(results_of(case), wanted, strict=True):
            assert torch.equal(one, other), after


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("division", [BY_ROWS, BY_COLUMNS])
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_parity_and_equal_runs_however_divided(structure, division, batch, threads, monkeypatch):
    monkeypatch.setattr(_library, "division", division)
    for count in (2, 3):
        threads(count)
        case = make_case(structure, steps=20, batch=batch, hidden=70, width=40)
        assert_parity(case)
        first, again = results_of(case), results_of(case)
        for one, other in zip(first, again, strict=True):
            assert torch.equal(one, other)


LEVELS = (0.0, 1e4, -1e4)  # strengths of exactly 1/2, 1 and 0


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("levels", list(itertools.product(LEVELS, LEVELS)))
@pytest.mark.parametrize("bottom", [(0.0, 0.0), (1e4, 0.0), (-1e4, 1e4), (0.0, 1e4)])
def test_parity_of_exact_ties(structure, dtype, levels, bottom):
    if structure != "deque" and bottom != (0.0, 0.0):
        pytest.skip("one part only")
    case = make_case(structure, steps=9, batch=4, width=6, rows=3, dtype=dtype)
    with torch.no_grad():
        for part, pair in enumerate((levels, bottom) if structure == "deque" else (levels,)):
            rows = slice(8 * part + 6, 8 * part + 8)
            case.head_weight[rows] = 0
            case.head_bias[rows] = torch.tensor(pair, dtype=dtype)
        case.initial[-1].copy_((case.initial[-1] * 9).floor() / 8)
    assert_parity(case)


def test_without_the_memory_what_is_left_is_the_controller():
    case = make_case("queue", steps=6)
    with without_memory():
        outputs, *_ = recurrence(*case)
        given = [case.x, case.weights.weight_ih, case.weights.weight_hh]
        ours = torch.autograd.grad(outputs.square().sum(), given)
    hidden, cell, reading, *_ = case.initial
    wanted = []
    for x in case.x:
        inputs = torch.cat((x, reading), 1)
        hidden, cell = lstm_cell(inputs, (hidden, cell), ControllerWeights(*case.weights))
        reading = torch.zeros_like(reading)
        wanted.append(hidden)
    wanted = torch.stack(wanted)
    assert relative_error(outputs, wanted) <= 1e-10
    theirs = torch.autograd.grad(wanted.square().sum(), given)
    for one, other in zip(ours, theirs, strict=True):
        assert relative_error(one, other) <= 1e-10
