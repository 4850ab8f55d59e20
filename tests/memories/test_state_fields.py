"""The declared fields of every memory: states, initial values, invalid declarations."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import unbounded as ub
from tests.memories.toy import EVERY, LIBRARY, UNIFORM, LearnedStack, Toy, random_instructions, run
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError
from unbounded.memories import Constant, Drawn, FirstOne, Learned, StateField

DOUBLE = torch.float64
COUNTS = {"batch": st.integers(1, 4), "steps": st.integers(0, 6), "seed": st.integers(0, 1000)}
examples = settings(max_examples=20, deadline=None)
every_memory = pytest.mark.parametrize("name", EVERY)


def a_third(first):
    """Every memory; fast for each third one. A memory has fast cases in several of the tests."""
    names = list(EVERY)
    return pytest.mark.parametrize(
        "name", sweep(names, fast=lambda name: names.index(name) % 3 == first)
    )


def after(memory, batch, steps, seed):
    """A state after some steps."""
    torch.manual_seed(seed)
    return run(
        memory, memory.initial_state(batch, DOUBLE), random_instructions(memory, batch, steps, seed)
    )[1]


def rows_written_out(field, tensor, before, behind):
    """A field with empty rows, concatenated explicitly; a square field along both axes."""
    for axis in (1 + place for place, size in enumerate(field.shape) if size == "N"):
        empty = torch.full_like(tensor.sum(axis, keepdim=True), field.empty)
        tensor = torch.cat([*[empty] * before, tensor, *[empty] * behind], dim=axis)
    return tensor


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


@a_third(2)
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


@a_third(0)
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


@a_third(1)
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


@pytest.mark.parametrize(
    "name", sweep(LIBRARY, fast=lambda name: list(LIBRARY).index(name) % 3 == 2)
)
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


@a_third(2)
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


@a_third(0)
@given(data=st.data(), **COUNTS)
@examples
def test_indexing_detaching_and_moving_keep_every_field(name, batch, steps, seed, data):
    memory = EVERY[name]()
    state = after(memory, batch, steps, seed)
    rows = data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=5))
    picked = ub.index_state(state, rows)
    later_instructions = random_instructions(memory, batch, 2, seed + 1)
    full, end = run(memory, state, later_instructions)
    picked_instructions = memory.Instruction(*(field[rows] for field in later_instructions))
    got, got_end = run(memory, picked, picked_instructions)
    assert_close(got, full[rows], "read_vectors")
    for field, expected in zip(got_end, end, strict=True):
        assert_close(field, expected[rows], "state")
    tracked = memory.State(*(field.clone().requires_grad_() for field in state))
    for field, expected in zip(ub.detach_state(tracked), state, strict=True):
        assert not field.requires_grad
        assert torch.equal(field, expected)
    narrow = ub.move_state(state, dtype=torch.float32)
    assert {field.dtype for field in narrow} == {torch.float32}
    memory.check_state(narrow, batch, torch.zeros(()))


@a_third(1)
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


def parameters(memory, dtype=DOUBLE):
    return {
        field.name: torch.rand(field.initial_shape, dtype=dtype).requires_grad_()
        for field in memory.learned_fields
    }


@given(batch=st.integers(1, 3), value=st.floats(-9, 9))
@settings(max_examples=20, deadline=None)
def test_a_constant_and_a_one(batch, value):
    assert Constant(value).tensor((batch, 2), DOUBLE).tolist() == [[value] * 2] * batch
    assert Constant(1).tensor((batch, 2)).dtype == torch.get_default_dtype()
    head = FirstOne().tensor((batch, 2, 3), DOUBLE)
    assert head.dtype == DOUBLE
    assert head.tolist() == [[[1.0, 0.0, 0.0]] * 2] * batch


@pytest.mark.parametrize("shape", [(3,), (3, 0)])
def test_first_one_needs_a_location(shape):
    with pytest.raises(ShapeError, match="FirstOne: expected a last axis with a place in it"):
        FirstOne().tensor(shape)


def test_draws_are_separate_for_each_sequence_and_seeded():
    initializer = Drawn(UNIFORM)
    torch.manual_seed(0)
    first, second = initializer.tensor((3, 4), DOUBLE), initializer.tensor((3, 4), DOUBLE)
    assert len({*first.flatten().tolist(), *second.flatten().tolist()}) == 24
    assert ((first >= 0.25) & (first <= 0.75)).all()
    torch.manual_seed(0)
    assert torch.equal(initializer.tensor((3, 4), DOUBLE), first)
    assert Drawn(torch.clone).tensor((2, 2)).isnan().all()


def test_a_rule_sees_the_shape_of_one_sequence():
    shapes = []
    for initializer in (Drawn, Learned):
        initializer(lambda tensor: shapes.append(tuple(tensor.shape))).tensor((2, 4, 5))
    assert shapes == [(4, 5)] * 3


def test_without_a_layer_a_learned_initial_value_is_drawn_once_for_the_batch():
    torch.manual_seed(0)
    one, other = LearnedStack(3).initial_state(4), LearnedStack(3).initial_state(4)
    for field in one:
        assert torch.equal(field, field[:1].expand_as(field))
    assert not torch.equal(one.values, other.values)
    assert ((one.strengths >= 0.25) & (one.strengths <= 0.75)).all()
    assert (one.values.abs() < 1).all()


@pytest.mark.parametrize("name", EVERY)
def test_a_parameter_initializes_a_learned_field_and_gets_its_gradient(name):
    memory = EVERY[name]()
    learned = parameters(memory)
    state = memory.initial_state(3, DOUBLE, learned=learned)
    read_vector = memory.initial_read_vector(3, DOUBLE, learned=learned)
    for field, begun in zip(
        (*memory.state_fields, memory.read_vector_field), (*state, read_vector), strict=True
    ):
        if field.name in learned:
            through = field.initializer.through or (lambda tensor: tensor)
            for sequence in begun:
                assert torch.equal(sequence, through(learned[field.name]))
        elif begun is not read_vector:  # a reading may depend on a learned field
            assert not begun.requires_grad
    if not learned:
        return
    read_vectors, _ = run(memory, state, random_instructions(memory, 3, 2))
    (read_vectors.sum() + read_vector.sum()).backward()
    for parameter in learned.values():
        assert parameter.grad.abs().sum() > 0
    narrow = memory.initial_state(3, torch.float32, learned=learned)
    assert {field.dtype for field in narrow} == {torch.float32}


def test_a_parameter_that_is_missing_is_drawn():
    memory = Toy()
    centre = torch.full((2,), 7.0)
    state = memory.initial_state(2, learned={"centre": centre})
    assert state.centre.tolist() == [[7.0, 7.0]] * 2
    assert (state.cells.abs() < 1).all()


def test_parameters_that_do_not_fit():
    memory = Toy()
    with pytest.raises(ChoiceError, match=r"unknown learned field 'center'.*Did you mean 'centre'"):
        memory.initial_state(2, learned={"center": torch.zeros(2)})
    with pytest.raises(ChoiceError, match="unknown learned field 'noise'"):
        memory.initial_read_vector(2, learned={"noise": torch.zeros(3)})
    with pytest.raises(ShapeError, match=r"learned cells: expected shape \[3, 2\], got \[2, 2\]"):
        memory.initial_state(2, learned={"cells": torch.zeros(2, 2)})
    with pytest.raises(ConfigError, match=r"'x': learned: expected None for Constant"):
        StateField("x", (2,)).initial_tensor(1, learned=torch.zeros(2))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("batch_size", [-1, 1.5, True])
def test_an_invalid_batch_size(name, batch_size):
    memory = EVERY[name]()
    for method in (memory.initial_state, memory.initial_read_vector):
        with pytest.raises(ShapeError, match="batch_size: expected an integer >= 0"):
            method(batch_size)


@pytest.mark.parametrize(
    ("field", "errors"),
    [
        (StateField("x", ("N",) * 3, (0, 1)), ["shape: expected sizes and at most two 'N'"]),
        (StateField("x", ("M",)), ["shape: expected sizes and at most two 'N', got"]),
        (StateField("x", ("N",)), [r"growth: expected rows for the axis 'N', got \(0, 0\)"]),
        (StateField("x", (2,), (0, 1)), ["growth, rows, most_rows: expected none without"]),
        (StateField("x", (2,), rows=1), ["growth, rows, most_rows: expected none without"]),
        (StateField("x", (2,), most_rows=1), ["growth, rows, most_rows: expected none without"]),
        (StateField("x", ("N",), (0, 1), 3, 2), ["most_rows: expected at least rows = 3, got 2"]),
        (
            StateField("x", ("N", "M"), (1, -1), -1),
            ["shape: expected", r"rows, growth: expected 0 or more, got -1, \(1, -1\)", "growth: "],
        ),
    ],
)
def test_all_errors_of_a_declaration_are_listed(field, errors):
    with pytest.raises(ConfigError) as caught:
        field.initial_tensor(2)
    assert len(caught.value.errors) == len(errors)
    for error in errors:
        with pytest.raises(ConfigError, match=f"state field 'x': {error}"):
            field.initial_tensor(2)


class ReadVectorState(NamedTuple):
    read_vector: Tensor


class Renamed(Toy):
    @property
    def state_fields(self):
        return (super().state_fields[0]._replace(name="rows"), *super().state_fields[1:])


class Clashing(Toy):
    State = ReadVectorState

    @property
    def state_fields(self):
        return (StateField("read_vector", (2,)),)


@pytest.mark.parametrize("memory", [Renamed(), Clashing()])
def test_fields_that_are_not_those_of_the_state(memory):
    expected = f"{type(memory).__name__}.state_fields: expected the fields of .* in their order"
    with pytest.raises(ShapeError, match=expected):
        memory.initial_state(2)


def test_states_that_do_not_fit():
    memory, like = Toy(capacity=5), torch.zeros(())
    state = memory.initial_state(2)

    def check(**changes):
        memory.check_state(state._replace(**changes), 2, like)

    check(cells=torch.zeros(2, 5, 2))
    check(marks=torch.zeros(2, 9))  # grows differently from the cells
    with pytest.raises(ShapeError, match=r"state.head: expected shape \[2, 2, 5\], got \[2, 2, 4"):
        check(head=torch.zeros(2, 2, 4))
    with pytest.raises(ShapeError, match=r"state.cells: expected shape \[2, N, 2\], got \[2, 5\]"):
        check(cells=torch.zeros(2, 5))
    with pytest.raises(ShapeError, match=r"at most 5 rows N, the capacity of Toy\(capacity=5\), g"):
        check(cells=torch.zeros(2, 7, 2))
    with pytest.raises(DTypeError, match=r"state.noise: expected dtype torch.float32 as value has"):
        check(noise=state.noise.double())
    with pytest.raises(ShapeError, match="values has 3, strengths has 2"):
        LearnedStack(3).check_state(
            LearnedStack.State(torch.zeros(2, 3, 3), torch.zeros(2, 2)), 2, like
        )
