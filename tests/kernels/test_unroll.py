"""The fused unroll against the memories' own steps, ties and saturation included."""

from __future__ import annotations

import pytest
import torch
from _cases import MEMORIES, assert_equal_up_to_rounding, relative_error
from hypothesis import given, settings
from hypothesis import strategies as st

from unbounded.errors import say_once
from unbounded.kernels import unroll


def reference_unroll(structure, instruction, initial):
    memory = MEMORIES[structure](initial[0].shape[-1])
    state = memory.State(*initial)
    readings = []
    for t in range(instruction[0].shape[1]):
        reading, state = memory.step(state, memory.Instruction(*(f[:, t] for f in instruction)))
        readings.append(reading)
    return torch.stack(readings, 1), state.values, state.strengths


def make(structure, steps, batch, width, rows, kind, seed, dtype=torch.float64):
    random = torch.Generator().manual_seed(seed)

    def strength(*shape):
        drawn = torch.rand(*shape, generator=random, dtype=torch.float64)
        if kind == "eighths":
            drawn = (drawn * 9).floor() / 8
        elif kind == "binary":
            drawn = drawn.round()
        elif kind == "small":
            drawn = drawn * 0.1
        return drawn.to(dtype).requires_grad_()

    def value(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_()

    fields = []
    for _ in range(2 if structure == "deque" else 1):
        fields += [value(batch, steps, width), strength(batch, steps), strength(batch, steps)]
    return tuple(fields), (value(batch, rows, width), strength(batch, rows))


def assert_unroll_parity(structure, instruction, initial, seed=0):
    def run(function, instruction, initial):
        results = function(structure, instruction, initial)
        random = torch.Generator().manual_seed(seed)
        loss = sum(
            (r * torch.randn(r.shape, generator=random, dtype=torch.float64).to(r.dtype)).sum()
            for r in results
        )
        return [*results, *torch.autograd.grad(loss, [*instruction, *initial])]

    def again(change):
        wide = [
            [change(t.detach().double()).requires_grad_() for t in tensors]
            for tensors in (instruction, initial)
        ]
        return run(reference_unroll, *wide)

    got, wanted = (run(each, instruction, initial) for each in (unroll, reference_unroll))
    assert_equal_up_to_rounding(got, wanted, again)


@settings(max_examples=120, deadline=None)
@given(
    structure=st.sampled_from(["stack", "queue", "deque"]),
    steps=st.integers(1, 12),
    batch=st.integers(1, 4),
    width=st.integers(1, 40),
    rows=st.integers(0, 4),
    kind=st.sampled_from(["soft", "eighths", "binary", "small"]),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_parity(structure, steps, batch, width, rows, kind, seed, dtype):
    instruction, initial = make(structure, steps, batch, width, rows, kind, seed, dtype)
    assert_unroll_parity(structure, instruction, initial)


@pytest.mark.parametrize("structure", ["stack", "queue", "deque"])
def test_non_contiguous_input(structure):
    instruction, initial = make(structure, 6, 3, 4, 2, "soft", 0)
    turned = tuple(f.detach().transpose(0, 1).contiguous().transpose(0, 1) for f in instruction)
    for field in turned:
        field.requires_grad_()
    assert_unroll_parity(structure, turned, initial)


def test_figure_1a_of_the_paper():
    push = torch.tensor([[0.8, 0.5, 0.9]], dtype=torch.float64)
    pop = torch.tensor([[0.0, 0.1, 0.9]], dtype=torch.float64)
    value = torch.eye(3, dtype=torch.float64).unsqueeze(0)
    empty = (value.new_zeros(1, 0, 3), value.new_zeros(1, 0))
    readings, _, strengths = unroll("stack", (value, push, pop), empty)
    torch.testing.assert_close(strengths, value.new_tensor([[0.3, 0.0, 0.9]]))
    torch.testing.assert_close(
        readings[0], value.new_tensor([[0.8, 0, 0], [0.5, 0.5, 0], [0.1, 0, 0.9]])
    )


@pytest.mark.parametrize("structure", ["stack", "queue", "deque"])
def test_double_backward_takes_the_reference(structure):
    instruction, initial = make(structure, 4, 2, 3, 1, "soft", 0)
    say_once.cache_clear()
    readings, _, strengths = unroll(structure, instruction, initial, reference=reference_unroll)
    loss = readings.square().sum() + strengths.square().sum()
    with pytest.warns(RuntimeWarning, match="reference path"):
        (first,) = torch.autograd.grad(loss, instruction[1], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), instruction[0])
    readings, _, strengths = reference_unroll(structure, instruction, initial)
    loss = readings.square().sum() + strengths.square().sum()
    (first,) = torch.autograd.grad(loss, instruction[1], create_graph=True)
    (wanted,) = torch.autograd.grad(first.square().sum(), instruction[0])
    assert relative_error(second, wanted) <= 1e-10


def test_nan_comes_through():
    instruction, initial = make("stack", 4, 2, 3, 0, "soft", 0)
    value = instruction[0].detach().clone()
    value[0, 1] = float("nan")
    readings, _, _ = unroll("stack", (value, *instruction[1:]), initial)
    assert readings[0, 1].isnan().all()
    assert not readings[1].isnan().any()
    for field in (1, 2):
        fields = [f.detach().clone() for f in instruction]
        fields[field][0, 2] = float("nan")
        readings, _, strengths = unroll("stack", tuple(fields), initial)
        assert readings[0, 2].isnan().any()
        assert strengths[0].isnan().any()
