"""The fused unroll of superposition stacks and lists against the memories' own steps."""

from __future__ import annotations

import pytest
import torch
from _cases import assert_equal_up_to_rounding, relative_error
from hypothesis import given, settings
from hypothesis import strategies as st

from unbounded.errors import MemoryOverflowError, ShapeError, say_once
from unbounded.kernels import MixtureOptions, unroll
from unbounded.memories import SuperpositionList, SuperpositionStack


def make(memory, steps, batch, before, kind, seed, dtype=torch.float64):
    """Instructions and a state; weights need not sum to 1 here, and "binary" ones are one-hot."""
    random = torch.Generator().manual_seed(seed)

    def uniform(*shape):
        return torch.rand(*shape, generator=random, dtype=torch.float64)

    actions = uniform(batch, steps, memory.count, len(memory.actions))
    if kind == "binary":
        actions = torch.nn.functional.one_hot(actions.argmax(-1), actions.shape[-1]).double()
    elif kind == "sharp":
        actions = (20 * actions).softmax(-1)
    state = memory.initial_state(batch, dtype=dtype)
    cells = memory.cells_field.padded(state.cells, before)
    cells = (cells + uniform(*cells.shape)).to(dtype)
    fields = (actions.to(dtype), uniform(batch, steps, memory.count).to(dtype))
    return tuple(f.requires_grad_() for f in fields), memory.State(cells.requires_grad_())


def assert_parity(memory, instruction, state, final=True):
    def run(backend, instruction, cells):
        given = memory.Instruction(*instruction), memory.State(cells)
        readings, end = memory.unroll(*given, backend)
        results = [readings, end.cells]
        loss = sum(
            (r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).view_as(r)).sum()
            for r in (results if final else results[:1])
        )
        given = [*instruction, cells]
        grads = torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)
        return [*results, *grads]

    def again(change):
        wide = [change(t.detach().double()).requires_grad_() for t in (*instruction, state.cells)]
        return run("reference", wide[:-1], wide[-1])

    got, wanted = (run(each, instruction, state.cells) for each in ("cpu", "reference"))
    assert_equal_up_to_rounding(got, wanted, again)


@settings(max_examples=120, deadline=None)
@given(
    is_list=st.booleans(),
    steps=st.integers(1, 40),
    batch=st.integers(1, 4),
    count=st.integers(1, 20),
    depth=st.integers(1, 5),
    noop=st.booleans(),
    room=st.none() | st.integers(0, 6),
    before=st.integers(0, 4),
    kind=st.sampled_from(["soft", "sharp", "binary"]),
    final=st.booleans(),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_parity(is_list, steps, batch, count, depth, noop, room, before, kind, final, seed, dtype):
    kind = "sharp" if kind == "soft" and steps > 12 else kind  # sums above 1 grow exponentially
    make_memory, drop = (
        (SuperpositionList, "drop_ends") if is_list else (SuperpositionStack, "drop_bottom")
    )
    capacity, overflow = (None, "error") if room is None else (depth + room, drop)
    memory = make_memory(count, depth, noop, capacity=capacity, overflow=overflow)
    instruction, state = make(memory, steps, batch, before, kind, seed, dtype)
    assert_parity(memory, instruction, state, final)


@pytest.mark.parametrize("memory", [SuperpositionStack(3), SuperpositionList(3)], ids=repr)
def test_non_contiguous_input(memory):
    instruction, state = make(memory, 6, 3, 2, "soft", 0)
    turned = tuple(f.detach().transpose(0, 1).contiguous().transpose(0, 1) for f in instruction)
    for field in turned:
        field.requires_grad_()
    assert_parity(memory, turned, state)


@pytest.mark.parametrize("memory", [SuperpositionStack(2, noop=True), SuperpositionList(2)])
def test_opcheck(memory):
    instruction, state = make(memory, 20, 2, 2, "sharp", 0)
    given = torch.cat((instruction[0].flatten(2), instruction[1]), -1).detach()
    arguments = (memory.kernel_name, given, state.cells.detach(), 2, 0, True)
    torch.library.opcheck(torch.ops.unbounded.superposition_unroll.default, arguments)
    readings, cells, *kept = torch.ops.unbounded.superposition_unroll(*arguments)
    for grad_cells in (None, torch.randn_like(cells)):
        torch.library.opcheck(
            torch.ops.unbounded.superposition_unroll_backward.default,
            (*arguments[:3], kept, torch.randn_like(readings), grad_cells, 2, 0),
        )


def test_double_backward_takes_the_reference():
    memory = SuperpositionStack(2, noop=True)
    instruction, state = make(memory, 4, 2, 1, "soft", 0)
    say_once.cache_clear()
    second = []
    for backend in ("cpu", "reference"):
        readings, final = memory.unroll(memory.Instruction(*instruction), state, backend)
        loss = readings.square().sum() + final.cells.square().sum()
        if second:
            (first,) = torch.autograd.grad(loss, instruction[0], create_graph=True)
        else:
            with pytest.warns(RuntimeWarning, match="reference path"):
                (first,) = torch.autograd.grad(loss, instruction[0], create_graph=True)
        second += torch.autograd.grad(first.square().sum(), instruction[1])
    assert relative_error(*second) <= 1e-10


@pytest.mark.parametrize(
    "memory", [SuperpositionStack(2, capacity=4), SuperpositionList(2, capacity=4)], ids=repr
)
def test_a_lost_cell_is_an_error(memory):
    instruction, state = make(memory, 1, 2, 9, "soft", 0)
    for backend in ("cpu", "reference"):
        with pytest.raises(MemoryOverflowError, match="capacity"):
            memory.unroll(memory.Instruction(*instruction), state, backend)
    empty = memory.State(torch.full_like(state.cells, -1))
    memory.unroll(memory.Instruction(*instruction), empty, "cpu")


def test_faults_are_named():
    actions, values, cells = torch.rand(2, 3, 4, 2), torch.rand(2, 3, 4), torch.rand(2, 4, 1)
    unroll("superposition_stack", (actions, values), (cells,))
    with pytest.raises(ShapeError, match="action"):
        unroll("superposition_list", (actions, values), (cells,))
    with pytest.raises(ShapeError, match="value"):
        unroll("superposition_stack", (actions, values[:, :2]), (cells,))
    with pytest.raises(ShapeError, match="cells"):
        unroll("superposition_stack", (actions, values), (cells[:, :3],))
    with pytest.raises(ShapeError, match="2 field"):
        unroll("superposition_stack", (actions,), (cells,))
    for options in (MixtureOptions(depth=0), MixtureOptions(depth=3, capacity=2)):
        with pytest.raises(ShapeError, match="options"):
            unroll("superposition_stack", (actions, values), (cells,), options=options)
