"""The fused unroll against the memories' steps, ties and saturation included."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from _cases import (
    MEMORIES,
    REPRESENTATIVE,
    STRUCTURES,
    assert_equal_up_to_rounding,
    gradients,
    make_state,
    relative_error,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recurrence import some_memory
from tests.sweep import sweep

from unbounded.errors import BackendError, BackendWarning, MemoryOverflowError, ShapeError, say_once
from unbounded.kernels import kernel_of, unroll
from unbounded.memories import LieAccessMemory, SuperpositionList, SuperpositionStack, TuringTape
from unbounded.rnn import MemoryAttention


def make(memory, steps, batch, before, kind, seed, dtype=torch.float64):
    """Instructions and a state; weights of actions need not sum to 1 here."""
    random = torch.Generator().manual_seed(seed)

    def field(head):
        drawn = torch.rand(batch, steps, *head.shape, generator=random, dtype=torch.float64)
        if head.activation == "tanh":
            drawn = 2 * drawn - 1
        elif head.activation == "identity":
            drawn = 4 * drawn - 2  # where keys coincide, gradients would be rounding errors only
        elif head.name == "temperature":
            drawn = 0.5 + drawn
        elif head.activation == "softmax":
            one_hot = torch.nn.functional.one_hot(drawn.argmax(-1), drawn.shape[-1]).double()
            # Sums above 1 would grow exponentially with the steps.
            is_soft = kind == "soft" and steps <= 12
            drawn = one_hot if kind == "binary" else drawn if is_soft else (20 * drawn).softmax(-1)
        elif head.activation.startswith("one_plus"):
            drawn = 1 + 3 * drawn
        elif kind == "eighths":
            drawn = (drawn * 9).floor() / 8
        elif kind == "binary":
            drawn = drawn.round()
        elif kind == "small":
            drawn = drawn * 0.1
        return drawn.to(dtype).requires_grad_()

    instruction = memory.Instruction(*map(field, memory.heads))
    return instruction, memory.State(*make_state(memory, before, batch, random, dtype))


def run(memory, backend, instruction, state, chosen=slice(None)):
    read_vectors, final = memory.unroll(
        memory.Instruction(*instruction), memory.State(*state), backend
    )
    results = [read_vectors, *final]
    return [*results, *gradients(results[chosen], [*instruction, *state])]


def assert_unroll_parity(memory, instruction, state, chosen=slice(None)):
    def again(change):
        wide = [
            [change(t.detach().double()).requires_grad_() for t in tensors]
            for tensors in (instruction, state)
        ]
        return run(memory, "reference", *wide, chosen)

    got, expected = (run(memory, b, instruction, state, chosen) for b in ("cpu", "reference"))
    assert_equal_up_to_rounding(got, expected, again, [*instruction, *state])


draws = given(
    steps=st.integers(1, 40),
    batch=st.integers(1, 4),
    rows=st.integers(0, 4),
    kind=st.sampled_from(["soft", "sharp", "eighths", "binary", "small"]),
    chosen=st.sampled_from([slice(1), slice(None)]),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    data=st.data(),
)


@settings(max_examples=30, deadline=None)
@draws
def test_parity(**drawn):
    assert_parity_of_draws(**drawn)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@draws
def test_parity_of_more_draws(**drawn):
    assert_parity_of_draws(**drawn)


def assert_parity_of_draws(steps, batch, rows, kind, chosen, seed, dtype, data):
    memory = some_memory(data)
    if isinstance(memory, TuringTape):
        # Sharpening amplifies small differences, rounding included, at each step, most of all
        # after a shift that lost all weight at an end.
        steps, rows, dtype = min(steps, 12), rows + 1, torch.float64
    if isinstance(memory, LieAccessMemory):
        dtype = torch.float64  # in 32 bits rounding selects the row where two keys nearly coincide
    instruction, state = make(memory, steps, batch, rows, kind, seed, dtype)
    assert_unroll_parity(memory, instruction, state, chosen)


@pytest.mark.parametrize(
    ("memory", "steps"),
    sweep(
        STRUCTURES, [17, 140], fast=lambda memory, steps: steps == 17 or memory in REPRESENTATIVE
    ),
)
def test_parity_over_blocks_of_steps(memory, steps):
    instruction, state = make(MEMORIES[memory], steps, 2, 3, "sharp", 0)
    assert_unroll_parity(MEMORIES[memory], instruction, state)


@pytest.mark.parametrize(
    ("weighting", "seed"),
    sweep(["inverse_square", "softmax"], range(20), fast=lambda weighting, seed: seed < 5),
)
def test_a_single_row_is_read_with_weight_1(weighting, seed):
    """Its strength, here about 5e-5, has no effect; only its value has a gradient."""
    memory = LieAccessMemory(3, "scaling_rotation", weighting, initial="learned")
    instruction, state = make(memory, 1, 1, 0, "soft", seed)
    assert_unroll_parity(memory, instruction, state, slice(1))
    of_state = run(memory, "cpu", instruction, state, slice(1))[-len(state) :]
    assert state.strengths.max() < 1e-2
    for name, grad in zip(state._fields, of_state, strict=True):
        assert (grad != 0).all() if name == "values" else (grad == 0).all(), name


@pytest.mark.parametrize("memory", STRUCTURES)
def test_non_contiguous_input(memory):
    instruction, state = make(MEMORIES[memory], 6, 3, 2, "soft", 0)
    turned = [f.detach().transpose(0, 1).contiguous().transpose(0, 1) for f in instruction]
    for field in turned:
        field.requires_grad_()
    assert_unroll_parity(MEMORIES[memory], turned, state)


@pytest.mark.parametrize("memory", STRUCTURES)
def test_double_backward_takes_the_reference(memory):
    instruction, state = make(MEMORIES[memory], 4, 2, 1, "soft", 0)
    say_once.cache_clear()
    second = []
    for backend in ("cpu", "reference"):
        read_vectors, final = MEMORIES[memory].unroll(instruction, state, backend)
        loss = read_vectors.square().sum() + final[-1].square().sum()
        if second:
            (first,) = torch.autograd.grad(loss, instruction[0], create_graph=True)
        else:
            with pytest.warns(RuntimeWarning, match="reference path"):
                (first,) = torch.autograd.grad(loss, instruction[0], create_graph=True)
        second += torch.autograd.grad(first.square().sum(), instruction[1])
    assert relative_error(*second) <= 1e-10


def test_double_backward_without_a_reference_is_an_error():
    instruction, state = make(MEMORIES["stack"], 4, 2, 1, "soft", 0)
    read_vectors, _ = unroll(kernel_of(MEMORIES["stack"]), instruction, state)
    with pytest.raises(BackendError, match="double backward"):
        torch.autograd.grad(read_vectors.sum(), instruction[0], create_graph=True)


@pytest.mark.parametrize("name", ["stack", "queue", "deque"])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_nan_pop_persists_between_two_calls(name, backend):
    """Even if there was no row for it to change."""
    memory = MEMORIES[name]

    def draw(steps, push):
        fields = (torch.full((1, steps, *head.shape), 0.5) for head in memory.heads)
        instruction = memory.Instruction(*fields)
        pushes = {n: torch.full((1, steps), push) for n in instruction._fields if "push" in n}
        return instruction._replace(**pushes)

    first = draw(2, 0.0)
    pop = next(n for n in first._fields if "pop" in n)
    first = first._replace(**{pop: torch.tensor([[0.0, float("nan")]])})
    read_vectors, state = memory.unroll(first, backend=backend)
    assert read_vectors[0, 1].isnan().all()
    assert memory.unroll(draw(1, 1.0), state, backend)[0].isnan().any()


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(STRUCTURES),
    kind=st.sampled_from(["soft", "eighths", "binary"]),
    rows=st.integers(0, 3),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_kernel_and_reference_read_nan_at_the_same_steps(name, kind, rows, seed, data):
    """Even behind nearer rows, and in a row that is used up."""
    memory = MEMORIES[name]
    instruction, state = make(memory, 6, 2, rows, kind, seed)
    fields = [field.detach().clone() for field in (*instruction, *state)]
    chosen = fields[data.draw(st.sampled_from([k for k, f in enumerate(fields) if f.numel()]))]
    own = chosen[0].reshape(-1)
    own[data.draw(st.integers(0, len(own) - 1))] = float("nan")
    assert chosen[0].isnan().sum() == 1
    count = len(instruction)
    given, start = memory.Instruction(*fields[:count]), memory.State(*fields[count:])
    got, expected = (
        memory.unroll(given, start, backend)[0].isnan().any(-1) for backend in ("cpu", "reference")
    )
    assert not got[1].any()
    # A NaN key is read a step earlier; a NaN among the runs is read even in an empty pair.
    if name in ("lie_access", "nondeterministic"):
        assert not (expected & ~got).any()
    else:
        assert torch.equal(got, expected)


@pytest.mark.parametrize(
    "memory", [SuperpositionStack(2, capacity=4), SuperpositionList(2, capacity=4)], ids=repr
)
def test_a_lost_cell_is_an_error(memory):
    instruction, state = make(memory, 1, 2, 9, "soft", 0)
    for backend in ("cpu", "reference"):
        with pytest.raises(MemoryOverflowError, match="capacity"):
            memory.unroll(instruction, state, backend)
    empty = memory.State(torch.full_like(state.cells, -1))
    memory.unroll(instruction, empty, "cpu")


@pytest.mark.parametrize("backend", ["auto", "cpu"])
@pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
def test_negative_fields_run_on_the_reference(memory, backend):
    memory = MEMORIES[memory]
    instruction, state = make(memory, 3, 2, 2, "soft", 0)
    for name in kernel_of(memory).nonnegative:
        pair = (instruction, state)
        k = int(name in memory.State._fields)
        wrong = pair[k]._replace(**{name: -getattr(pair[k], name)})
        call = (wrong, state) if k == 0 else (instruction, wrong)
        if backend == "cpu":
            with pytest.raises(BackendError, match=f"{name} of at least 0"):
                memory.unroll(*call, backend)
        else:
            say_once.cache_clear()
            with pytest.warns(BackendWarning, match=f"{name} of at least 0"):
                memory.unroll(*call, backend)


def test_memories_alone_bring_their_kernels():
    code = (
        "import torch\n"
        "from unbounded.memories import NeuralStack\n"
        "fields = torch.rand(1, 3, 2), torch.rand(1, 3), torch.rand(1, 3)\n"
        "stack = NeuralStack(2)\n"
        "stack.unroll(stack.Instruction(*fields), backend='cpu')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_are_named():
    actions, values, cells = torch.rand(2, 3, 4, 2), torch.rand(2, 3, 4), torch.rand(2, 4, 1)
    stack, a_list = (kernel_of(kind(4)) for kind in (SuperpositionStack, SuperpositionList))
    unroll(stack, (actions, values), (cells,))
    for structure, instruction, state, name in (
        (a_list, (actions, values), (cells,), "action"),
        (stack, (actions, values[:, :2]), (cells,), "value"),
        (stack, (actions, values), (cells[:, :3],), "cells"),
        (stack, (actions, values), (cells[0],), "cells"),
        (a_list, (actions, values), (cells.expand(2, 4, 2),), "HEAD in the middle"),
        (stack, (actions,), (cells,), "2 fields"),
    ):
        with pytest.raises(ShapeError, match=name):
            unroll(structure, instruction, state)


@pytest.mark.parametrize("reads", ["after", "before"])
def test_cells_and_keys_are_limited(reads):
    """Beyond the limit squares overflow in float32; a limited element has no gradient."""
    memory = TuringTape(5, 3, 2, 2, reads=reads)
    instruction, state = make(memory, 6, 2, 0, "eighths", seed=1)
    with torch.no_grad():
        instruction.add[:, 1:3, :, 0] *= 1e9
        instruction.add[:, 5, :, 2] += 1e9
        instruction.add[:, 2:4, 1, 1] *= -1e12
        instruction.write_key[:, 3, 0, 2] = 1e30
        instruction.erase.mul_(0.3)
    results = [run(memory, backend, instruction, state) for backend in ("reference", "cpu")]
    assert float(results[0][1].detach().abs().max()) == 2.0**24
    for expected, got in zip(*results, strict=True):
        assert relative_error(got, expected) < 1e-10


@pytest.mark.parametrize("group", ["rotation", "scaling_rotation"])
@pytest.mark.parametrize("key_size", [3, 16])
@pytest.mark.parametrize("scale", [20.0, 1000.0])
def test_rotations_by_large_angles_equal_the_reference(group, key_size, scale):
    memory = LieAccessMemory(4, group, key_size=key_size)
    results = []
    for backend in ("reference", "cpu"):
        torch.manual_seed(0)
        layer = MemoryAttention(8, memory, backend=backend, dtype=torch.float64)
        x = (scale * torch.randn(5, 2, 8, dtype=torch.float64)).requires_grad_()
        output, state = layer(x)
        weights = [x, *layer.parameters()]
        gradients = torch.autograd.grad(output.square().sum(), weights)
        results.append([output.detach(), state.keys.detach(), *gradients])
    for found, expected in zip(*results, strict=True):
        assert float((found - expected).norm() / expected.norm()) < 1e-10


def test_rotations_by_very_large_angles_are_finite():
    torch.manual_seed(0)
    layer = MemoryAttention(4, LieAccessMemory(3, "rotation", key_size=5), backend="cpu")
    output, state = layer(1e6 * torch.randn(7, 3, 4))
    gradients = torch.autograd.grad(output.sum(), list(layer.parameters()))
    assert all(bool(each.isfinite().all()) for each in (output, *state, *gradients))
