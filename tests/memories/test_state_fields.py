"""Properties of the state of every memory, derived from its declaration."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories.toy import EVERY, LIBRARY, random_instructions, run
from tests.tolerances import assert_close

DOUBLE = torch.float64
COUNTS = {"batch": st.integers(1, 4), "steps": st.integers(0, 6), "seed": st.integers(0, 1000)}
examples = settings(max_examples=20, deadline=None)
every_memory = pytest.mark.parametrize("name", EVERY)


def after(memory, batch, steps, seed):
    """A state after some steps."""
    torch.manual_seed(seed)
    return run(
        memory, memory.initial_state(batch, DOUBLE), random_instructions(memory, batch, steps, seed)
    )[1]


def rows_written_out(field, tensor, before, behind):
    """A field with empty rows, concatenated explicitly."""
    axis = 1 + field.shape.index("N")
    empty = torch.full_like(tensor.sum(axis, keepdim=True), field.empty)
    return torch.cat([*[empty] * before, tensor, *[empty] * behind], dim=axis)


@every_memory
@given(batch=st.integers(1, 4), seed=st.integers(0, 1000))
@examples
def test_the_initial_state_matches_the_declared_fields(name, batch, seed):
    memory = EVERY[name]()
    torch.manual_seed(seed)
    state = memory.initial_state(batch, dtype=DOUBLE, device="cpu")
    torch.manual_seed(seed)
    by_field = [field.initial_tensor(batch, DOUBLE, "cpu") for field in memory.state_fields]
    assert state._fields == tuple(field.name for field in memory.state_fields)
    for field, got, expected in zip(memory.state_fields, state, by_field, strict=True):
        assert torch.equal(got, expected)
        assert got.shape == (batch, *field.initial_shape)
        assert got.dtype == DOUBLE
        assert field.rows_of(got) == field.rows
    memory.check_state(state, batch, torch.zeros((), dtype=DOUBLE))
    assert memory.initial_state(batch)[0].dtype == torch.get_default_dtype()
    assert memory.initial_read_vector(batch, DOUBLE).shape == (batch, memory.read_vector_size)


@every_memory
@given(more=st.integers(0, 6), **COUNTS)
@examples
def test_steps_add_the_declared_rows(name, batch, steps, seed, more):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    for field, tensor in zip(memory.state_fields, state, strict=True):
        expected = field.rows_after(field.rows, steps)
        assert field.rows_of(tensor) == expected
        assert field.rows_after(expected, more) == field.rows_after(field.rows, steps + more)
        if field.most_rows is not None:
            assert expected <= field.most_rows
            assert field.most_rows - field.rows_after(expected, 100) < sum(field.growth)


@every_memory
@given(more=st.integers(0, 6), **COUNTS)
@examples
def test_padding_adds_empty_rows_where_steps_would_add_rows(name, batch, steps, seed, more):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    _, later = run(memory, state, random_instructions(memory, batch, more, seed + 1))
    for field, tensor, grown in zip(memory.state_fields, state, later, strict=True):
        got = field.padded(tensor, more)
        assert got.shape == grown.shape
        assert torch.equal(field.padded(field.padded(tensor, more // 2), more - more // 2), got)
        assert torch.equal(field.padded_to(tensor, field.rows_of(grown)), got)
        if not field.grows:
            assert got is tensor
            continue
        taken = (field.rows_of(got) - field.rows_of(tensor)) // sum(field.growth)
        expected = rows_written_out(field, tensor, *(taken * rows for rows in field.growth))
        assert torch.equal(got, expected)


@every_memory
@given(data=st.data(), **COUNTS)
@examples
def test_hold_keeps_inactive_sequences(name, batch, steps, seed, data):
    memory = EVERY[name]()
    old = after(memory, batch, steps, seed)
    _, new = run(memory, old, random_instructions(memory, batch, 1, seed + 1))
    active = torch.tensor(data.draw(st.lists(st.booleans(), min_size=batch, max_size=batch)))
    held = memory.hold(active, new, old)
    assert type(held) is memory.State
    for field, got, after_step, before in zip(memory.state_fields, held, new, old, strict=True):
        assert torch.equal(got[active], after_step[active])
        assert torch.equal(got[~active], field.padded(before, 1)[~active])
    memory.check_state(held, batch, torch.zeros((), dtype=DOUBLE))


@pytest.mark.parametrize("name", LIBRARY)
@given(**COUNTS)
@examples
def test_a_held_state_continues_like_the_old_one(name, batch, steps, seed):
    memory = LIBRARY[name]()
    old = after(memory, batch, steps, seed)
    _, new = run(memory, old, random_instructions(memory, batch, 1, seed + 1))
    held = memory.hold(torch.zeros(batch, dtype=torch.bool), new, old)
    later_instructions = random_instructions(memory, batch, 3, seed + 2)
    got, expected = (
        run(memory, held, later_instructions)[0],
        run(memory, old, later_instructions)[0],
    )
    assert_close(got, expected, "read_vectors")


@every_memory
@given(data=st.data(), **COUNTS)
@examples
def test_emptying_resets_every_field_to_its_initial_value(name, batch, steps, seed, data):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    emptied = torch.tensor(data.draw(st.lists(st.booleans(), min_size=batch, max_size=batch)))
    fresh = memory.initial_state(batch, dtype=DOUBLE)
    mixed = memory.hold(emptied, fresh, state)
    for field, got, begun, before in zip(memory.state_fields, mixed, fresh, state, strict=True):
        assert got.shape == before.shape
        assert torch.equal(got[~emptied], before[~emptied])
        assert torch.equal(got[emptied], field.padded(begun, steps)[emptied])
    if name in LIBRARY:
        later_instructions = random_instructions(memory, batch, 3, seed + 2)
        got, expected = (
            run(memory, mixed, later_instructions)[0],
            run(memory, fresh, later_instructions)[0],
        )
        assert_close(got[emptied], expected[emptied], "read_vectors")


@given(rows=st.integers(0, 1), batch=st.integers(1, 3))
@examples
def test_a_state_with_fewer_rows_than_the_initial_one_is_padded_when_others_are_emptied(
    rows, batch
):
    memory = EVERY["learned_stack"]()
    fresh = memory.initial_state(batch, DOUBLE)
    short = memory.State(fresh.values[:, :rows] + 1, fresh.strengths[:, :rows] + 1)
    emptied = torch.arange(batch) == 0
    mixed = memory.hold(emptied, fresh, short)
    for field, got, begun, before in zip(memory.state_fields, mixed, fresh, short, strict=True):
        assert torch.equal(got[0], begun[0])
        assert torch.equal(got[1:, :rows], before[1:])
        assert (got[1:, rows:] == field.empty).all()


@every_memory
@given(data=st.data(), **COUNTS)
@examples
def test_indexing_detaching_and_moving_keep_every_field(name, batch, steps, seed, data):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    rows = data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=5))
    picked = ub.index_state(state, rows)
    later_instructions = random_instructions(memory, batch, 2, seed + 1)
    whole, end = run(memory, state, later_instructions)
    picked_instructions = memory.Instruction(*(field[rows] for field in later_instructions))
    got, got_end = run(memory, picked, picked_instructions)
    assert_close(got, whole[rows], "read_vectors")
    for field, expected in zip(got_end, end, strict=True):
        assert_close(field, expected[rows], "state")
    tracked = memory.State(*(field.clone().requires_grad_() for field in state))
    for field, expected in zip(ub.detach_state(tracked), state, strict=True):
        assert not field.requires_grad
        assert torch.equal(field, expected)
    narrow = ub.move_state(state, dtype=torch.float32)
    assert {field.dtype for field in narrow} == {torch.float32}
    memory.check_state(narrow, batch, torch.zeros(()))


@every_memory
@given(**COUNTS)
@examples
def test_observed_fields_are_declared(name, batch, steps, seed):
    memory = EVERY[name]()
    shown = memory.observe(after(memory, batch, steps, seed))
    assert list(shown) == [field.name for field in memory.observed_fields]
    for field in memory.observed_fields:
        axes = tuple(
            field.rows_after(field.rows, steps) if axis == "N" else axis for axis in field.shape
        )
        assert shown[field.name].shape == (batch, *axes)
