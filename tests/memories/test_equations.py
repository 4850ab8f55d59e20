"""Each memory against the plain-Python oracle, Figure 1a and a queue of the standard library."""

from __future__ import annotations

import collections

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import oracle
from tests.memories.common import MEMORIES, instructions
from tests.tolerances import assert_close
from unbounded.memories.register import Register


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("kind", ["uniform", "eighths", "binary", "saturated"])
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 12), width=st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_agrees_with_the_oracle(name, kind, seed, steps, width):
    memory = MEMORIES[name](width)
    given_instructions = instructions(memory, 2, steps, kind=kind, seed=seed)
    read_vectors, _ = memory.unroll(given_instructions, backend="reference")
    for b in range(2):
        fields = [field[b].tolist() for field in given_instructions]
        want_read_vectors, want_strengths = getattr(oracle, name)(*fields)
        assert_close(
            read_vectors[b], torch.tensor(want_read_vectors, dtype=torch.float64), "read_vectors"
        )
        state = memory.initial_state(2, dtype=torch.float64)
        for t in range(steps):
            step = memory.Instruction(*(field[:, t] for field in given_instructions))
            _, state = memory.step(state, step)
            expected = torch.tensor(want_strengths[t], dtype=torch.float64)
            assert_close(state.strengths[b], expected, f"strengths at step {t}")


def test_figure_1a_to_the_last_digit():
    memory = ub.NeuralStack(1)
    state = memory.initial_state(1, dtype=torch.float64)
    strengths, weights = [], []
    for pop, push in [(0.0, 0.8), (0.1, 0.5), (0.9, 0.9)]:
        instruction = memory.Instruction(
            torch.ones(1, 1, dtype=torch.float64),
            torch.tensor([push], dtype=torch.float64),
            torch.tensor([pop], dtype=torch.float64),
        )
        _, state = memory.step(state, instruction)
        seen = memory.observe(state)
        strengths.append(seen["strengths"][0].tolist())
        weights.append(seen["read_weights"][0].tolist())
    assert [[round(s, 12) for s in row] for row in strengths] == [[0.8], [0.7, 0.5], [0.3, 0, 0.9]]
    assert [[round(w, 12) for w in row] for row in weights] == [[0.8], [0.5, 0.5], [0.1, 0, 0.9]]


binary_steps = st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=1, max_size=30)


@given(steps=binary_steps)
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", MEMORIES)
def test_saturated_pushes_and_pops_behave_like_collections_deque(name, steps):
    """Value t is t + 1, so a read vector of 0 means an empty memory."""
    memory = MEMORIES[name](1)
    state = memory.initial_state(1, dtype=torch.float64)
    items: collections.deque[float] = collections.deque()

    def scalar(value):
        return torch.tensor([float(value)], dtype=torch.float64)

    for t, (top_push, top_pop, bottom_push, bottom_pop) in enumerate(steps):
        value = scalar(t + 1).unsqueeze(0)
        if name == "deque":
            instruction = memory.Instruction(
                value,
                scalar(top_push),
                scalar(top_pop),
                -value,
                scalar(bottom_push),
                scalar(bottom_pop),
            )
        else:
            instruction = memory.Instruction(value, scalar(top_push), scalar(top_pop))
        read_vector, state = memory.step(state, instruction)
        if top_pop and items:
            if name == "queue":
                items.popleft()
            else:
                items.pop()
        if name == "deque" and bottom_pop and items:
            items.popleft()
        if top_push:
            items.append(t + 1.0)
        if name == "deque" and bottom_push:
            items.appendleft(-(t + 1.0))
        ends = {"stack": [-1], "queue": [0], "deque": [-1, 0]}[name]
        assert read_vector[0].tolist() == [items[end] if items else 0.0 for end in ends]


@pytest.mark.parametrize("name", MEMORIES)
def test_unroll_equals_steps_and_continues_from_a_state(name):
    memory = MEMORIES[name](3)
    given_instructions = instructions(memory, 2, 9)
    whole, final = memory.unroll(given_instructions, backend="reference")
    first, state = memory.unroll(memory.Instruction(*(f[:, :4] for f in given_instructions)))
    second, state = memory.unroll(
        memory.Instruction(*(f[:, 4:] for f in given_instructions)), state
    )
    assert_close(torch.cat([first, second], 1), whole, "read_vectors")
    for got, expected in zip(state, final, strict=True):
        assert_close(got, expected, "state")


@pytest.mark.parametrize("name", MEMORIES)
def test_state_can_be_detached_moved_indexed_and_carried_on(name):
    memory = MEMORIES[name](3)
    given_instructions = instructions(memory, 4, 6)
    part = memory.Instruction(*(f[:, :3].requires_grad_() for f in given_instructions))
    _, state = memory.unroll(part)
    assert state.strengths.requires_grad
    assert not ub.detach_state(state).strengths.requires_grad
    assert ub.move_state(state, dtype=torch.float32).values.dtype == torch.float32
    picked = ub.index_state(state, [2, 0])
    rest = memory.Instruction(*(f[[2, 0], 3:] for f in given_instructions))
    read_vectors, _ = memory.unroll(rest, picked)
    whole, _ = memory.unroll(given_instructions)
    assert_close(read_vectors, whole[[2, 0], 3:], "read vectors of the picked sequences")


def test_a_register_against_plain_python():
    memory, state, held = Register(1), Register(1).initial_state(1), 0.0
    for value, write in ((0.5, 1.0), (-0.25, 0.5), (0.75, 0.0), (1.0, 0.125)):
        held = (1 - write) * held + write * value
        instruction = memory.Instruction(torch.tensor([[value]]), torch.tensor([write]))
        read_vector, state = memory.step(state, instruction)
        assert float(read_vector) == float(state.value) == held
