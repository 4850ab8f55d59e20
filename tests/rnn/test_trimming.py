"""A carried state does not grow without bound."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded.memories import MEMORIES

#: A weight so large that tanh is 1, strengths are 0 or 1 and actions one-hot.
STRONG = 40.0
GROWING = ["stack", "queue", "deque", "superposition_stack", "superposition_list"]


def make(name, backend="auto"):
    """A layer whose memory pushes where x_0 > 0 and pops elsewhere, with saturated gates."""
    torch.manual_seed(0)
    memory = MEMORIES[name](3)
    layer = ub.MemoryRNN(2, 4, memory, "elman", dtype=torch.float64, backend=backend)
    with torch.no_grad():
        layer.layers[0].controller.weight_ih.zero_()
        layer.layers[0].controller.weight_hh.zero_()
        layer.layers[0].controller.bias_ih.zero_()
        layer.layers[0].controller.weight_ih[0, 0] = STRONG  # h_0 is the sign of x_0
        layer.layers[0].controller.weight_ih[1, 1] = 1.0
        layer.layers[0].controller.bias_ih[2] = STRONG
        for head in memory.heads:
            rows = layer.layers[0].heads.rows(head.name)
            if "push" in head.name:
                fill(layer, rows, 1.0)
            elif "pop" in head.name:
                fill(layer, rows, -1.0)
            elif head.name == "action":
                # Without biases: h_2 is 1 at every step and keeps other gates at 0.
                on = [1.0, -1.0] if name == "superposition_stack" else [-1.0, 1.0]
                signs = torch.tensor([*on, *[0.0] * (head.shape[-1] - 2)], dtype=torch.float64)
                layer.layers[0].heads.weight[rows] = 0.0
                layer.layers[0].heads.weight[rows, 0] = STRONG * 20 * signs.repeat(head.shape[0])
                layer.layers[0].heads.weight[rows, 2] = -1e4 * (signs.repeat(head.shape[0]) == 0)
    return layer


def fill(layer, rows, sign):
    # So large that the sigmoid is exactly 0 or 1.
    layer.layers[0].heads.weight[rows] = 0.0
    layer.layers[0].heads.weight[rows, 0] = STRONG * 20 * sign
    layer.layers[0].heads.bias[rows] = 0.0


def inputs(steps, batch=2, seed=1):
    """Inputs that alternately fill and empty the memory, never above 40 rows."""
    generator = torch.Generator().manual_seed(seed)
    height, signs = 0, []
    for up in (torch.rand(steps, generator=generator) < 0.5).tolist():
        sign = 1 if (up and height < 40) or height == 0 else -1
        height += sign
        signs.append(sign)
    x = torch.randn(steps, batch, 2, generator=generator, dtype=torch.float64)
    x[..., 0] = torch.tensor(signs, dtype=torch.float64).unsqueeze(1)
    return x


def rows_of(layer, state):
    fields = zip(layer.memory.state_fields, state.memory, strict=True)
    return max(field.rows_of(tensor) for field, tensor in fields)


@pytest.mark.parametrize(
    ("name", "backend"),
    sweep(
        GROWING,
        ["auto", "reference"],
        fast=lambda name, backend: backend == "auto" or name in ("queue", "superposition_stack"),
    ),
)
def test_chunks_equal_one_long_call_and_rows_stay_bounded(name, backend):
    layer, x = make(name, backend), inputs(35 * 24)
    with torch.no_grad():
        want, last = layer(x)
    state, outputs, rows = None, [], []
    for chunk in x.split(35):
        output, state = layer(chunk, state)
        state = ub.detach_state(state)
        outputs.append(output.detach())
        rows.append(rows_of(layer, state))
    assert_close(torch.cat(outputs), want, "output")
    assert_close(state.read_vector, last.read_vector, "read_vector")
    assert rows_of(layer, last) > 35 * 20
    assert max(rows) < 2 * (64 + 2 * 35 + 40)


@pytest.mark.parametrize("name", GROWING)
def test_a_state_with_a_gradient_keeps_its_rows(name):
    layer, x = make(name), inputs(35 * 10)
    state = None
    for chunk in x.split(35):
        _, state = layer(chunk.requires_grad_(), state)
    assert rows_of(layer, state) >= 35 * 10


@settings(max_examples=50, deadline=None)
@given(
    strengths=st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=6, max_size=6), min_size=1, max_size=3
    ),
    name=st.sampled_from(["stack", "queue", "deque"]),
    follow=st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 4), min_size=1, max_size=4),
)
def test_a_trimmed_state_acts_like_the_full_one(strengths, name, follow):
    memory = MEMORIES[name](2)
    kinds = torch.tensor(strengths, dtype=torch.float64)
    values = torch.arange(float(kinds.numel() * 2), dtype=torch.float64).view(*kinds.shape, 2)
    full = memory.State(values, kinds)
    short = memory.trim(full)
    assert short.strengths.shape[1] == int((kinds > 0).sum(1).max())
    for step in follow:
        fields = []
        amounts = iter(step)
        for head in memory.heads:
            shape = (len(kinds), *head.shape)
            fill = 7.0 if head.shape else next(amounts)
            fields.append(torch.full(shape, fill, dtype=torch.float64))
        instruction = memory.Instruction(*fields)
        want, full = memory.step(full, instruction)
        got, short = memory.step(short, instruction)
        assert torch.equal(got, want)


@pytest.mark.parametrize("name", ["stack", "queue", "deque"])
def test_a_nan_row_is_kept(name):
    memory = MEMORIES[name](2)
    strengths = torch.tensor([[0.0, float("nan"), 0.0, 0.5]])
    short = memory.trim(memory.State(torch.ones(1, 4, 2), strengths))
    assert short.strengths.isnan().tolist() == [[True, False]]


@pytest.mark.parametrize("name", ["superposition_stack", "superposition_list"])
def test_trimmed_cells_act_like_all_cells(name):
    memory = MEMORIES[name](2)
    generator = torch.Generator().manual_seed(0)
    cells = torch.full((3, 2, 21), -1.0, dtype=torch.float64)
    cells[..., 8:13] = torch.rand(3, 2, 5, generator=generator, dtype=torch.float64)
    full = memory.State(cells)
    short = memory.trim(full)
    assert short.cells.shape[-1] == (13 if name == "superposition_stack" else 5)
    for _ in range(4):
        action, value = (torch.rand(3, *head.shape, generator=generator) for head in memory.heads)
        instruction = memory.Instruction(action.double().softmax(-1), value.double())
        want, full = memory.step(full, instruction)
        got, short = memory.step(short, instruction)
        assert_close(got, want, "read_vector")


@pytest.mark.parametrize("name", MEMORIES)
def test_an_empty_state_can_be_trimmed(name):
    memory = MEMORIES[name](4)
    state = memory.initial_state(2)
    assert [t.shape for t in memory.trim(state)] == [t.shape for t in state]
