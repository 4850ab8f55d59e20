"""What holds of the state of every memory, by its declaration alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories.toy import EVERY, LIBRARY, run, told
from tests.tolerances import assert_close

DOUBLE = torch.float64
COUNTS = {"batch": st.integers(1, 4), "steps": st.integers(0, 6), "seed": st.integers(0, 1000)}
examples = settings(max_examples=20, deadline=None)
every_memory = pytest.mark.parametrize("name", EVERY)


def after(memory, batch, steps, seed):
    """A state after some steps."""
    torch.manual_seed(seed)
    return run(memory, memory.initial_state(batch, DOUBLE), told(memory, batch, steps, seed))[1]


def rows_written_out(field, tensor, before, behind):
    """A field with empty rows, one after the other."""
    axis = 1 + field.shape.index("N")
    empty = torch.full_like(tensor.sum(axis, keepdim=True), field.empty)
    return torch.cat([*[empty] * before, tensor, *[empty] * behind], dim=axis)


@every_memory
@given(batch=st.integers(1, 4), seed=st.integers(0, 1000))
@examples
def test_a_state_begins_as_its_fields_say(name, batch, seed):
    memory = EVERY[name]()
    torch.manual_seed(seed)
    state = memory.initial_state(batch, dtype=DOUBLE, device="cpu")
    torch.manual_seed(seed)
    by_field = [field.begin(batch, DOUBLE, "cpu") for field in memory.state_fields]
    assert state._fields == tuple(field.name for field in memory.state_fields)
    for field, got, want in zip(memory.state_fields, state, by_field, strict=True):
        assert torch.equal(got, want)
        assert got.shape == (batch, *field.first_shape)
        assert got.dtype == DOUBLE
        assert field.rows_of(got) == field.rows
    memory.check_state(state, batch, torch.zeros((), dtype=DOUBLE))
    assert memory.initial_state(batch)[0].dtype == torch.get_default_dtype()
    assert memory.initial_reading(batch, DOUBLE).shape == (batch, memory.reading_size)


@every_memory
@given(more=st.integers(0, 6), **COUNTS)
@examples
def test_steps_add_the_rows_that_the_fields_say(name, batch, steps, seed, more):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    for field, tensor in zip(memory.state_fields, state, strict=True):
        want = field.rows_after(field.rows, steps)
        assert field.rows_of(tensor) == want
        assert field.rows_after(want, more) == field.rows_after(field.rows, steps + more)
        if field.most_rows is not None:
            assert want <= field.most_rows
            assert field.most_rows - field.rows_after(want, 100) < sum(field.growth)


@every_memory
@given(more=st.integers(0, 6), **COUNTS)
@examples
def test_padding_adds_empty_rows_where_steps_would_add_rows(name, batch, steps, seed, more):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    _, later = run(memory, state, told(memory, batch, more, seed + 1))
    for field, tensor, grown in zip(memory.state_fields, state, later, strict=True):
        got = field.padded(tensor, more)
        assert got.shape == grown.shape
        assert torch.equal(field.padded(field.padded(tensor, more // 2), more - more // 2), got)
        assert torch.equal(field.padded_to(tensor, field.rows_of(grown)), got)
        if not field.grows:
            assert got is tensor
            continue
        taken = (field.rows_of(got) - field.rows_of(tensor)) // sum(field.growth)
        want = rows_written_out(field, tensor, *(taken * rows for rows in field.growth))
        assert torch.equal(got, want)


@every_memory
@given(data=st.data(), **COUNTS)
@examples
def test_holding_keeps_what_is_not_active(name, batch, steps, seed, data):
    memory = EVERY[name]()
    old = after(memory, batch, steps, seed)
    _, new = run(memory, old, told(memory, batch, 1, seed + 1))
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
def test_a_state_that_is_held_goes_on_as_the_one_before(name, batch, steps, seed):
    memory = LIBRARY[name]()
    old = after(memory, batch, steps, seed)
    _, new = run(memory, old, told(memory, batch, 1, seed + 1))
    held = memory.hold(torch.zeros(batch, dtype=torch.bool), new, old)
    onward = told(memory, batch, 3, seed + 2)
    got, want = run(memory, held, onward)[0], run(memory, old, onward)[0]
    assert_close(got, want, "readings")


@every_memory
@given(data=st.data(), **COUNTS)
@examples
def test_emptying_puts_every_field_back_to_its_beginning(name, batch, steps, seed, data):
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
        onward = told(memory, batch, 3, seed + 2)
        got, want = run(memory, mixed, onward)[0], run(memory, fresh, onward)[0]
        assert_close(got[emptied], want[emptied], "readings")


@given(rows=st.integers(0, 1), batch=st.integers(1, 3))
@examples
def test_a_state_of_fewer_rows_than_the_beginning_gets_its_rows_when_others_are_emptied(
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
    onward = told(memory, batch, 2, seed + 1)
    whole, end = run(memory, state, onward)
    mine = memory.Instruction(*(field[rows] for field in onward))
    got, got_end = run(memory, picked, mine)
    assert_close(got, whole[rows], "readings")
    for field, want in zip(got_end, end, strict=True):
        assert_close(field, want[rows], "state")
    tracked = memory.State(*(field.clone().requires_grad_() for field in state))
    for field, want in zip(ub.detach_state(tracked), state, strict=True):
        assert not field.requires_grad
        assert torch.equal(field, want)
    narrow = ub.move_state(state, dtype=torch.float32)
    assert {field.dtype for field in narrow} == {torch.float32}
    memory.check_state(narrow, batch, torch.zeros(()))


@every_memory
@given(**COUNTS)
@examples
def test_what_is_observed_is_declared(name, batch, steps, seed):
    memory = EVERY[name]()
    shown = memory.observe(after(memory, batch, steps, seed))
    assert list(shown) == [field.name for field in memory.observed_fields]
    for field in memory.observed_fields:
        axes = tuple(
            field.rows_after(field.rows, steps) if axis == "N" else axis for axis in field.shape
        )
        assert shown[field.name].shape == (batch, *axes)
