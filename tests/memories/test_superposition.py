"""Superposition stack and list against the plain-Python oracle and Python's own lists."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import superposition_oracle as oracle
from tests.memories.toy import check_gradients
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, MemoryOverflowError, ShapeError
from unbounded.memories.as_data import memory_data, memory_from_data

DOUBLE = torch.float64
MEMORIES = {"stack": ub.SuperpositionStack, "list": ub.SuperpositionList}


def draw_instructions(memory, batch, steps, *, seed=0, kind="soft"):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, steps, memory.count, *memory.cell_shape)
    logits = (*shape[:3], len(memory.actions))
    raw = torch.randn(*logits, generator=generator, dtype=DOUBLE)
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
@pytest.mark.parametrize("widths", [(1, 1), (2, 4)])
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 10),
    count=st.integers(1, 3),
    depth=st.integers(1, 4),
    empty=st.sampled_from([-1, 0, 0.25]),
    room=st.one_of(st.none(), st.integers(0, 3)),
    data=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_agrees_with_the_oracle(name, noop, widths, seed, steps, count, depth, empty, room, data):
    width = data.draw(st.integers(*widths))
    capacity = None if room is None else depth + room
    overflow = "error" if room is None else MEMORIES[name].overflows[1]
    memory = MEMORIES[name](
        count, depth, noop, capacity=capacity, overflow=overflow, empty=empty, width=width
    )
    assert memory.read_vector_initializer.value == empty
    instructions = draw_instructions(memory, 2, steps, seed=seed)
    read_vectors, state = memory.unroll(instructions)
    assert read_vectors.shape == (2, steps, count * depth * width)
    step, direction = (oracle.stack_step, 1) if name == "stack" else (oracle.list_step, -1)
    step = functools.partial(step, empty=float(empty))
    values = instructions.value.view(2, steps, count, width)
    for b, s, m in np.ndindex(2, count, width):
        action, value = instructions.action[b, :, s].tolist(), values[b, :, s, m].tolist()
        expected, cells = oracle.run(step, direction, action, value, depth, capacity, float(empty))
        got = read_vectors[b].view(steps, count, depth, width)[:, s, :, m]
        assert_close(got, torch.tensor(expected, dtype=DOUBLE), "read_vectors")
        held = torch.tensor([cells[place] for place in sorted(cells)], dtype=DOUBLE)
        assert_close(state.cells.view(2, count, -1, width)[b, s, :, m], held, "cells")
    trimmed = memory.read(memory.trim(state).cells)
    assert_close(trimmed, read_vectors[:, -1], "trimmed")


def test_a_vector_of_one_number_is_a_number():
    memory = ub.SuperpositionStack(2, width=1)
    assert memory.initial_state(3).cells.shape == (3, 2, 0)
    assert [head.shape for head in memory.heads] == [(2, 2), (2,)]
    vectors = ub.SuperpositionStack(2, width=4)
    assert vectors.initial_state(3).cells.shape == (3, 2, 0, 4)
    assert [head.shape for head in vectors.heads] == [(2, 2), (2, 4)]


def chomsky_stack_rnn(x, weights, cells, width):
    """The Stack-RNN of Delétang et al. in numpy: outputs [T, H] of one sequence x [T, I].

    Written from the paper's appendix A and the released program: zeros in a stack of a
    fixed number of cells, the top read before the update, linear pushes, the bottom cell lost.
    """
    stack = np.zeros((cells, width))
    hidden, outputs = np.zeros(len(weights["hidden"])), []
    for symbol in x:
        seen = np.concatenate([symbol, stack[0]])
        total = weights["input"] @ seen + weights["hidden"] @ hidden + weights["bias"]
        hidden = np.where(total > 0, total, 0)
        raised = np.exp(weights["action"] @ hidden)
        push, pop, keep = raised / raised.sum()
        pushed = weights["value"] @ hidden
        new = np.empty_like(stack)
        for i in range(cells):
            above = pushed if i == 0 else stack[i - 1]
            below = stack[i + 1] if i + 1 < cells else np.zeros(width)
            new[i] = push * above + pop * below + keep * stack[i]
        stack = new
        outputs.append(hidden)
    return np.stack(outputs)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_layer_is_the_stack_rnn_of_the_chomsky_hierarchy(backend):
    width, cells, hidden = 8, 6, 12
    memory = ub.SuperpositionStack(
        1, depth=1, noop=True, capacity=cells, overflow="drop_bottom", empty=0, width=width,
        activation="identity",
    )  # fmt: skip
    controller = functools.partial(ub.ElmanController, activation="relu")
    torch.manual_seed(1)
    layer = ub.MemoryRNN(3, hidden, memory, controller, backend=backend, dtype=DOUBLE)
    (part,) = layer.layers
    weights = {
        "input": part.controller.weight_ih, "hidden": part.controller.weight_hh,
        "bias": part.controller.bias_ih, "action": part.heads.weight[:3],
        "value": part.heads.weight[3:],
    }  # fmt: skip
    arrays = {name: weight.detach().numpy() for name, weight in weights.items()}
    x = torch.randn(cells, 2, 3, dtype=DOUBLE)  # no more steps than cells, or it warns of drops
    output, _ = layer(x)
    for b in range(2):
        expected = chomsky_stack_rnn(x[:, b].numpy(), arrays, cells, width)
        assert_close(output[:, b], torch.from_numpy(expected), "outputs")


@pytest.mark.parametrize("name", MEMORIES)
def test_the_options_of_cells_are_checked_and_shown(name):
    make = MEMORIES[name]
    for empty in (float("nan"), float("inf"), True, False, None, "0"):
        with pytest.raises(ConfigError, match="empty: expected a finite number"):
            make(1, empty=empty)
    for width in (0, -1, 1.5, True, None):
        with pytest.raises(ShapeError, match="width: expected an integer >= 1"):
            make(1, width=width)
    for activation in ("linear", "softmax", "tan", None):
        with pytest.raises(ChoiceError, match="unknown activation"):
            make(1, activation=activation)
    assert "empty" not in repr(make(1, empty=-1))
    memory = make(1, empty=0.5, width=3, activation="tanh", capacity=4)
    assert repr(memory).endswith("capacity=4, empty=0.5, width=3, activation='tanh')")
    assert repr(memory_from_data(memory_data(memory))) == repr(memory)
    assert repr(memory.with_capacity(4)) == repr(memory)


def test_the_empty_value_of_a_list_is_kept():
    assert repr(ub.SuperpositionList(1, empty=0)).endswith("noop=True, empty=0.0)")
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


@pytest.mark.parametrize(
    ("name", "width"),
    sweep(MEMORIES, [1, 3], fast=lambda name, width: (name == "list") == (width == 1)),
)
def test_gradcheck(name, width):
    memory = MEMORIES[name](2, depth=2, noop=True, width=width)
    _, start = memory.unroll(draw_instructions(memory, 2, 2, seed=2))
    check_gradients(memory, draw_instructions(memory, 2, 3, seed=1), start, twice={})


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("capacity", [None, 4])
def test_steps_and_resumed_sequences_equal_unroll(name, capacity):
    options = {} if capacity is None else {"overflow": MEMORIES[name].overflows[1]}
    memory = MEMORIES[name](2, capacity=capacity, **options)
    instructions = draw_instructions(memory, 3, 9)
    full, final = memory.unroll(instructions, backend="reference")
    first, state = memory.unroll(cut(instructions, slice(None), slice(0, 4)), backend="reference")
    rest = []
    for t in range(4, 9):
        read_vector, state = memory.step(state, cut(instructions, slice(None), t))
        rest.append(read_vector)
    assert torch.equal(torch.cat([first, torch.stack(rest, 1)], 1), full)
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


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("name", MEMORIES)
def test_a_vector_is_lost_if_one_of_its_numbers_is_not_empty(name, backend):
    memory = MEMORIES[name](1, depth=1, capacity=1, width=3, empty=0)
    down = memory.basic_actions.index("PUSH" if name == "stack" else "INSERT")
    action = torch.zeros(1, 2, 1, len(memory.actions), dtype=DOUBLE)
    action[..., down] = 1
    value = torch.zeros(1, 2, 1, 3, dtype=DOUBLE)
    memory.unroll(memory.Instruction(action, value), backend=backend)
    value[0, 0, 0, 2] = 0.5
    with pytest.raises(MemoryOverflowError, match="is not empty"):
        memory.unroll(memory.Instruction(action, value), backend=backend)


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
