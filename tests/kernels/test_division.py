"""The division of work between threads changes no bit, and ties resolve as in the reference."""

from __future__ import annotations

import itertools

import pytest
import torch
from _cases import (
    REPRESENTATIVE,
    STRUCTURES,
    assert_no_division_changes_a_bit,
    assert_parity,
    fused,
    make_case,
    relative_error,
    results_and_gradients,
)
from tests.sweep import diagonal, sweep

from unbounded.kernels import ControllerWeights, switched, without_memory
from unbounded.rnn.controllers import lstm_cell

BY_ROWS, BY_COLUMNS = 1, 2


def results_of(case):
    return results_and_gradients(fused, case)


@pytest.mark.parametrize(
    ("memory", "controller", "batch", "lengths"),
    sweep(
        STRUCTURES,
        ["lstm", "gru", "elman_tanh"],
        [1, 5, 33],
        [False, True],
        fast=lambda memory, controller, batch, lengths: (
            memory in REPRESENTATIVE and lengths == (batch != 1)
            if controller == "lstm"
            else (memory, controller) in (("deque", "gru"), ("lie_access", "elman_tanh"))
            and (batch == 5 and lengths)
        ),
    ),
)
def test_no_division_changes_a_bit(memory, controller, batch, lengths, threads):
    some = [(7 * b) % 9 for b in range(batch)] if lengths else None
    case = make_case(
        memory, controller, steps=8, batch=batch, hidden=70, lengths=some, dtype=torch.float32
    )
    assert_no_division_changes_a_bit(case, threads)


@pytest.mark.parametrize(
    ("memory", "division"),
    sweep(
        STRUCTURES,
        [BY_ROWS, BY_COLUMNS],
        fast=lambda memory, division: (
            memory in (REPRESENTATIVE if division == BY_ROWS else ("deque", "lie_access"))
        ),
    ),
)
def test_a_thread_that_continues_alone_changes_no_bit(memory, division, threads):
    # As if another process keeps a core busy: at any phase of a step the others stop,
    # the first thread takes over their work.
    case = make_case(memory, steps=8, batch=5, hidden=70, lengths=[8, 0, 3, 5, 8])
    threads(1)
    expected = results_of(case)
    threads(3)
    for after in range(1, 30):
        with switched(division=division, alone_after=after):
            results = results_of(case)
        for one, other in zip(results, expected, strict=True):
            assert torch.equal(one, other), after


@pytest.mark.parametrize(
    ("memory", "division", "batch"),
    sweep(
        STRUCTURES,
        [BY_ROWS, BY_COLUMNS],
        [1, 3, 16],
        fast=lambda memory, division, batch: memory in REPRESENTATIVE and batch == 3,
    ),
)
def test_parity_and_equal_runs_for_each_division(memory, division, batch, threads):
    for count in (2, 3):
        threads(count)
        case = make_case(memory, steps=20, batch=batch, hidden=70)
        with switched(division=division):
            assert_parity(case)
            first, again = results_of(case), results_of(case)
        for one, other in zip(first, again, strict=True):
            assert torch.equal(one, other)


LEVELS = (0.0, 1e4, -1e4)  # strengths of exactly 1/2, 1 and 0


BOTTOMS = [(0.0, 0.0), (1e4, 0.0), (-1e4, 1e4), (0.0, 1e4)]


@pytest.mark.parametrize(
    ("ends", "dtype", "levels"),
    diagonal(
        [("stack", BOTTOMS[0]), ("queue", BOTTOMS[0]), *(("deque", b) for b in BOTTOMS)],
        [torch.float32, torch.float64],
        itertools.product(LEVELS, LEVELS),
        share=2,
    ),
)
def test_parity_of_exact_ties(ends, dtype, levels):
    memory, bottom = ends
    case = make_case(memory, steps=9, batch=4, rows=3, dtype=dtype)
    with torch.no_grad():
        for end, pair in enumerate((levels, bottom) if memory == "deque" else (levels,)):
            rows = slice(8 * end + 6, 8 * end + 8)
            case.weights.head_weight[rows] = 0
            case.weights.head_bias[rows] = torch.tensor(pair, dtype=dtype)
        case.initial[-1].copy_((case.initial[-1] * 9).floor() / 8)
    assert_parity(case)


def test_without_memory_only_the_controller_runs():
    case = make_case("queue", steps=6)
    with without_memory():
        outputs, _ = fused(case)
        expected = [case.x, case.weights.weight_ih, case.weights.weight_hh]
        gradients = torch.autograd.grad(outputs.square().sum(), expected)
    hidden, cell, read_vector, *_ = case.initial
    steps = []
    for x in case.x:
        inputs = torch.cat((x, read_vector), 1)
        hidden, cell = lstm_cell(inputs, (hidden, cell), ControllerWeights(*case.weights[:4]))
        read_vector = torch.zeros_like(read_vector)
        steps.append(hidden)
    assert relative_error(outputs, torch.stack(steps)) <= 1e-10
    reference = torch.autograd.grad(torch.stack(steps).square().sum(), expected)
    for one, other in zip(gradients, reference, strict=True):
        assert relative_error(one, other) <= 1e-10
