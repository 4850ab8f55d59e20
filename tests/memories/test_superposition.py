"""Superposition stack and list against the plain-Python oracle and Python's own lists."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import superposition_oracle as oracle
from tests.tolerances import assert_close
from unbounded.errors import (
    ChoiceError,
    ConfigError,
    DTypeError,
    MemoryOverflowError,
    ShapeError,
)
from unbounded.memories.as_data import memory_data, memory_from_data

DOUBLE = torch.float64
MEMORIES = {"stack": ub.SuperpositionStack, "list": ub.SuperpositionList}


def draw_instructions(memory, batch, steps, *, seed=0, kind="soft"):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, steps, memory.count)
    raw = torch.randn(*shape, len(memory.actions), generator=generator, dtype=DOUBLE)
    if kind == "hard":
        action = torch.nn.functional.one_hot(raw.argmax(-1), raw.shape[-1]).to(DOUBLE)
    else:
        action = torch.softmax(3 * raw, dim=-1)
    return memory.Instruction(action, torch.rand(*shape, generator=generator, dtype=DOUBLE))


def cut(fields, *index):
    return type(fields)(*(field[index] for field in fields))


def one_hot(memory, names, values):
    """Instructions [1, T] of a single structure from names of actions."""
    action = torch.zeros(1, len(names), 1, len(memory.actions), dtype=DOUBLE)
    for t, name in enumerate(names):
        action[0, t, 0, memory.actions.index(name)] = 1
    return memory.Instruction(action, torch.tensor(values, dtype=DOUBLE).view(1, -1, 1))


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("noop", [False, True])
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 10),
    count=st.integers(1, 3),
    depth=st.integers(1, 4),
    room=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=25, deadline=None)
def test_agrees_with_the_oracle(name, noop, seed, steps, count, depth, room):
    capacity = None if room is None else depth + room
    overflow = "error" if room is None else MEMORIES[name].overflows[1]
    memory = MEMORIES[name](count, depth, noop, capacity=capacity, overflow=overflow)
    instructions = draw_instructions(memory, 2, steps, seed=seed)
    read_vectors, state = memory.unroll(instructions)
    assert read_vectors.shape == (2, steps, count * depth)
    step, direction = (oracle.stack_step, 1) if name == "stack" else (oracle.list_step, -1)
    for b in range(2):
        for s in range(count):
            expected, cells = oracle.run(
                *(step, direction),
                instructions.action[b, :, s].tolist(),
                instructions.value[b, :, s].tolist(),
                depth,
                capacity,
            )
            got = read_vectors[b].view(steps, count, depth)[:, s]
            assert_close(got, torch.tensor(expected, dtype=DOUBLE), "read_vectors")
            assert_close(
                state.cells[b, s],
                torch.tensor([cells[place] for place in sorted(cells)], dtype=DOUBLE),
                "cells",
            )


@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 10),
    depth=st.integers(1, 4),
    room=st.one_of(st.none(), st.integers(0, 3)),
)
@settings(max_examples=25, deadline=None)
def test_a_list_whose_empty_cells_hold_0_agrees_with_the_oracle(seed, steps, depth, room):
    capacity = None if room is None else depth + room
    overflow = "error" if room is None else "drop_ends"
    memory = ub.SuperpositionList(1, depth, capacity=capacity, overflow=overflow, empty=0)
    assert memory.read_vector_initializer.value == 0
    instructions = draw_instructions(memory, 1, steps, seed=seed)
    read_vectors, state = memory.unroll(instructions)
    step = functools.partial(oracle.list_step, empty=0.0)
    action, value = instructions.action[0, :, 0].tolist(), instructions.value[0, :, 0].tolist()
    expected, cells = oracle.run(step, -1, action, value, depth, capacity, empty=0.0)
    assert_close(read_vectors[0], torch.tensor(expected, dtype=DOUBLE), "read_vectors")
    held = torch.tensor([cells[place] for place in sorted(cells)], dtype=DOUBLE)
    assert_close(state.cells[0, 0], held, "cells")
    assert_close(memory.read(memory.trim(state).cells)[0], read_vectors[0, -1], "trimmed")


def test_the_empty_value_of_a_list_is_checked_and_shown():
    for empty in (1, 0.5, True, False, None, "0"):
        with pytest.raises(ConfigError, match="empty: expected -1 or 0"):
            ub.SuperpositionList(1, empty=empty)
    assert "empty" not in repr(ub.SuperpositionList(1, empty=-1))
    assert repr(ub.SuperpositionList(1, empty=0)).endswith("noop=True, empty=0)")
    strict = ub.SuperpositionList(1, depth=1, capacity=1, empty=0)
    with pytest.raises(MemoryOverflowError):
        strict.unroll(one_hot(strict, ["INSERT", "INSERT"], [0.5, 0.25]))
    strict.unroll(one_hot(strict, ["RIGHT", "LEFT", "INSERT"], [0.5, 0.25, 0.75]))
    # The data keeps the option; the default is omitted for older readers.
    data = memory_data(strict)
    assert data["options"]["empty"] == 0
    assert repr(memory_from_data(data)) == repr(strict)
    assert "empty" not in memory_data(ub.SuperpositionList(1))["options"]


@given(steps=st.lists(st.sampled_from(["PUSH", "POP", "NO-OP"]), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_one_hot_actions_make_the_stack_a_python_list(steps):
    memory = ub.SuperpositionStack(1, depth=3, noop=True)
    values = [t / 32 for t in range(1, len(steps) + 1)]
    read_vectors, _ = memory.unroll(one_hot(memory, steps, values))
    items: list[float] = []
    for t, action in enumerate(steps):
        if action == "PUSH":
            items.append(values[t])
        elif action == "POP" and items:
            items.pop()
        expected = [items[-1 - j] if j < len(items) else -1.0 for j in range(3)]
        assert read_vectors[0, t].tolist() == expected


@given(steps=st.lists(st.sampled_from(["RIGHT", "LEFT", "INSERT", "NO-OP"]), max_size=30))
@settings(max_examples=60, deadline=None)
def test_one_hot_actions_make_the_list_two_python_lists_with_a_head_between(steps):
    steps = ["INSERT", *steps]
    memory = ub.SuperpositionList(1, depth=3)
    values = [t / 32 for t in range(1, len(steps) + 1)]
    read_vectors, _ = memory.unroll(one_hot(memory, steps, values))
    left: list[float] = []
    right: list[float] = []
    head = -1.0
    for t, action in enumerate(steps):
        if action == "INSERT":
            left.append(head)
            head = values[t]
        elif action == "RIGHT":
            left.append(head)
            head = right.pop() if right else -1.0
        elif action == "LEFT":
            right.append(head)
            head = left.pop() if left else -1.0
        expected = [head, *(left[-1 - j] if j < len(left) else -1.0 for j in range(2))]
        assert read_vectors[0, t].tolist() == expected


@pytest.mark.parametrize("name", MEMORIES)
def test_gradcheck(name):
    memory = MEMORIES[name](2, depth=2, noop=True)
    instructions = draw_instructions(memory, 2, 3, seed=1)
    _, start = memory.unroll(draw_instructions(memory, 2, 2, seed=2))

    def run(action, value, cells):
        read_vectors, final = memory.unroll(
            memory.Instruction(action, value), memory.State(cells), "reference"
        )
        return read_vectors, final.cells

    tensors = [t.clone().requires_grad_() for t in (*instructions, start.cells)]
    assert torch.autograd.gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors)


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("capacity", [None, 4])
def test_steps_equal_unroll_and_resumed_equals_whole(name, capacity):
    options = {} if capacity is None else {"overflow": MEMORIES[name].overflows[1]}
    memory = MEMORIES[name](2, capacity=capacity, **options)
    instructions = draw_instructions(memory, 3, 9)
    whole, final = memory.unroll(instructions, backend="reference")
    first, state = memory.unroll(cut(instructions, slice(None), slice(0, 4)), backend="reference")
    rest = []
    for t in range(4, 9):
        read_vector, state = memory.step(state, cut(instructions, slice(None), t))
        rest.append(read_vector)
    assert torch.equal(torch.cat([first, torch.stack(rest, 1)], 1), whole)
    assert torch.equal(state.cells, final.cells)
    picked = ub.index_state(ub.detach_state(final), [2, 0])
    assert torch.equal(picked.cells, final.cells[[2, 0]])


@pytest.mark.parametrize("name", MEMORIES)
def test_nothing_is_dropped_without_a_capacity(name):
    memory = MEMORIES[name](1, depth=1)
    n = 300
    values = [(t + 1) / 512 for t in range(n)]
    down, up = ("PUSH", "POP") if name == "stack" else ("INSERT", "LEFT")
    instructions = one_hot(memory, [down] * n + [up] * n, values + [0.0] * n)
    read_vectors, _ = memory.unroll(instructions)
    assert read_vectors[0, n - 1 :, 0].tolist() == [*reversed(values), -1.0]


def test_a_full_stack_raises_or_drops_its_bottom_cell():
    instructions = ["PUSH", "PUSH", "PUSH", "POP", "POP", "POP"]
    values = [0.1, 0.2, 0.3, 0.0, 0.0, 0.0]
    strict = ub.SuperpositionStack(1, depth=1, capacity=2)
    with pytest.raises(MemoryOverflowError, match="bottom cell of a full stack is not empty"):
        strict.unroll(one_hot(strict, instructions, values))
    fits = one_hot(strict, ["PUSH", "PUSH", "POP", "PUSH"], [0.1, 0.2, 0.0, 0.4])
    assert strict.unroll(fits)[0][0, :, 0].tolist() == [0.1, 0.2, 0.1, 0.4]
    lossy = ub.SuperpositionStack(1, depth=1, capacity=2, overflow="drop_bottom")
    read_vectors, state = lossy.unroll(one_hot(lossy, instructions, values))
    assert read_vectors[0, :, 0].tolist() == [0.1, 0.2, 0.3, 0.2, -1.0, -1.0]
    assert state.cells.shape == (1, 1, 2)


def test_a_full_list_raises_or_drops_at_its_ends():
    instructions = ["INSERT", "INSERT", "INSERT", "LEFT", "LEFT", "LEFT", "RIGHT"]
    values = [0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0]
    strict = ub.SuperpositionList(1, depth=1, capacity=2)
    with pytest.raises(MemoryOverflowError, match="leftmost cell of a full list is not empty"):
        strict.unroll(one_hot(strict, instructions, values))
    with pytest.raises(MemoryOverflowError, match="rightmost cell of a full list is not empty"):
        strict.unroll(one_hot(strict, ["INSERT", "LEFT", "LEFT"], [0.1, 0.0, 0.0]))
    lossy = ub.SuperpositionList(1, depth=1, capacity=2, overflow="drop_ends")
    read_vectors, state = lossy.unroll(one_hot(lossy, instructions, values))
    # 0.1 left at the left end; 0.3 reached the right end, left there and is gone.
    assert read_vectors[0, :, 0].tolist() == [0.1, 0.2, 0.3, 0.2, -1.0, -1.0, -1.0]
    assert state.cells.shape == (1, 1, 3)


def test_pop_brings_up_empty_cells_from_below_the_bottom():
    """As in the authors' program: under POP the bottom cell gets -1 by the weight of the POP."""
    memory = ub.SuperpositionStack(1, depth=2, capacity=2, overflow="drop_bottom")
    state = memory.State(torch.tensor([[[0.5, 0.25]]], dtype=DOUBLE))
    instructions = memory.Instruction(
        torch.tensor([[[0.25, 0.75]]], dtype=DOUBLE), torch.ones(1, 1, dtype=DOUBLE)
    )
    read_vector, _ = memory.step(state, instructions)
    assert read_vector[0].tolist() == [0.25 * 1 + 0.75 * 0.25, 0.25 * 0.5 + 0.75 * -1]


@pytest.mark.parametrize("name", MEMORIES)
def test_the_initial_read_vector_is_read_from_the_empty_memory(name):
    memory = MEMORIES[name](3, depth=4)
    empty = memory.initial_state(2, dtype=DOUBLE)
    assert torch.equal(memory.read(empty.cells), memory.initial_read_vector(2, dtype=DOUBLE))
    assert memory.initial_read_vector(2).tolist() == [[-1.0] * 12] * 2


def test_trimming_removes_only_empty_cells():
    memory = ub.SuperpositionStack(2, noop=True)
    instructions = draw_instructions(memory, 2, 12, kind="hard")
    _, state = memory.unroll(instructions)
    short = ub.trim_cells(state)
    assert short.cells.shape[-1] < state.cells.shape[-1]
    more = draw_instructions(memory, 2, 6, seed=3)
    assert torch.equal(memory.unroll(more, short)[0], memory.unroll(more, state)[0])
    empty = memory.State(torch.full((2, 2, 3), -1.0))
    assert ub.trim_cells(empty).cells.shape == (2, 2, 0)
    layer = ub.MemoryRNN(3, 4, ub.SuperpositionStack(2))
    lists = ub.SuperpositionList(2).initial_state(2)
    for other in (layer.initial_state(2), lists, ub.NeuralStack(2).initial_state(2)):
        with pytest.raises(DTypeError, match="expected the StackCells of a SuperpositionStack"):
            ub.trim_cells(other)


@pytest.mark.parametrize("name", MEMORIES)
def test_bad_input(name):
    make = MEMORIES[name]
    for count, depth in ((0, 1), (1, 0), (1.5, 1)):
        with pytest.raises(ShapeError, match="expected an integer >= 1"):
            make(count, depth)
    with pytest.raises(ConfigError, match="capacity: expected an integer >= depth = 3 or None"):
        make(1, 3, capacity=2)
    with pytest.raises(ChoiceError, match=r"unknown overflow 'dropp'.*Did you mean 'drop_"):
        make(1, 2, capacity=2, overflow="dropp")
    with pytest.raises(ConfigError, match="has no effect without a capacity"):
        make(1, 2, overflow=make.overflows[1])
    memory = make(2, noop=False)
    instructions = draw_instructions(memory, 2, 3)
    with pytest.raises(ShapeError, match="action: expected shape"):
        memory.unroll(draw_instructions(make(2, noop=True), 2, 3))
    with pytest.raises(ShapeError, match=r"value: expected shape \[2, 3, 2\]"):
        memory.unroll(instructions._replace(value=instructions.value[..., :1]))
    with pytest.raises(ShapeError, match=r"state.cells: expected shape \[2, 2, N\]"):
        memory.unroll(instructions, memory.State(torch.zeros(2, 1, 3, dtype=DOUBLE)))
    small, cells = make(2, noop=False, capacity=2), torch.full((2, 2, 5), -1.0, dtype=DOUBLE)
    most = 2 if name == "stack" else 3
    with pytest.raises(ShapeError, match=f"state.cells: expected at most {most} rows N, the cap"):
        small.unroll(instructions, small.State(cells))
    if name == "list":
        with pytest.raises(ShapeError, match="expected an odd number of cells"):
            memory.unroll(instructions, memory.State(torch.zeros(2, 2, 4, dtype=DOUBLE)))


def test_repr_shows_the_options():
    assert repr(ub.SuperpositionStack(10)) == "SuperpositionStack(count=10, depth=2, noop=False)"
    lossy = ub.SuperpositionList(5, capacity=9, overflow="drop_ends")
    assert repr(lossy) == (
        "SuperpositionList(count=5, depth=2, noop=True, capacity=9, overflow='drop_ends')"
    )
