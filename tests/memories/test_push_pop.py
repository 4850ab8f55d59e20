"""Stack, queue and deque against the plain-Python oracle, Figure 1a and the standard library.

Then Appendix A equation by equation, the rule for ties, and float64 gradcheck.
"""

from __future__ import annotations

import collections

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import oracle
from tests.memories.common import MEMORIES, instructions, requires_grad
from tests.memories.toy import check_gradients
from tests.tolerances import assert_close
from unbounded.memories.push_pop.reference import read_weights, strengths_after_pop
from unbounded.memories.register import Register

DOUBLE = torch.float64


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
        orders = [value, scalar(top_push), scalar(top_pop)]
        if name == "deque":
            orders += [-value, scalar(bottom_push), scalar(bottom_pop)]
        instruction = memory.Instruction(*orders)
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
    full, final = memory.unroll(given_instructions, backend="reference")
    first, state = memory.unroll(memory.Instruction(*(f[:, :4] for f in given_instructions)))
    second, state = memory.unroll(
        memory.Instruction(*(f[:, 4:] for f in given_instructions)), state
    )
    assert_close(torch.cat([first, second], 1), full, "read_vectors")
    for got, expected in zip(state, final, strict=True):
        assert_close(got, expected, "state")


def test_a_register_against_plain_python():
    memory, state, held = Register(1), Register(1).initial_state(1), 0.0
    for value, write in ((0.5, 1.0), (-0.25, 0.5), (0.75, 0.0), (1.0, 0.125)):
        held = (1 - write) * held + write * value
        instruction = memory.Instruction(torch.tensor([[value]]), torch.tensor([write]))
        read_vector, state = memory.step(state, instruction)
        assert float(read_vector) == float(state.value) == held


def jacobian(function, tensor):
    return torch.autograd.functional.jacobian(function, tensor)


def random_case(seed):
    generator = torch.Generator().manual_seed(seed)
    strengths = torch.rand(6, generator=generator, dtype=DOUBLE)
    strengths[torch.rand(6, generator=generator) < 0.25] = 0
    pop = torch.rand((), generator=generator, dtype=DOUBLE) * 2
    return strengths, pop


def above(strengths, i):
    return float(strengths[i + 1 :].sum())


@pytest.mark.parametrize("seed", range(40))
def test_equation_16_with_its_diagonal_corrected_and_17(seed):
    """d s_t[i] / d s_{t-1}[n], whose printed case i < n must read i <= n, and d s_t[i] / d u_t."""
    old, pop = random_case(seed)
    new = strengths_after_pop(old.unsqueeze(0), pop.unsqueeze(0), "top")[0]
    by_old = jacobian(
        lambda s: strengths_after_pop(s.unsqueeze(0), pop.unsqueeze(0), "top")[0], old
    )
    by_pop = jacobian(
        lambda u: strengths_after_pop(old.unsqueeze(0), u.unsqueeze(0), "top")[0], pop
    )
    for i in range(6):
        left = float(pop) - above(old, i)
        assert by_pop[i] == (-1.0 if new[i] > 0 and left > 0 else 0.0)
        for n in range(6):
            if i <= n and new[i] > 0 and left > 0:
                expected = 1.0
            elif new[i] > 0 and left <= 0:
                expected = float(i == n)
            else:
                expected = 0.0
            assert by_old[i, n] == expected, (i, n)


@pytest.mark.parametrize("seed", range(40))
def test_equation_18(seed):
    """d r_t / d s_t[n] through h(i, n)."""
    strengths, _ = random_case(seed)
    got = jacobian(lambda s: read_weights(s.unsqueeze(0), "top")[0], strengths)
    for i in range(6):
        room = max(0.0, 1 - above(strengths, i))
        for n in range(6):
            if strengths[i] <= room:
                expected = float(i == n)
            elif i < n and above(strengths, i) < 1:
                expected = -1.0
            else:
                expected = 0.0
            assert got[i, n] == expected, (i, n)


def test_equations_12_to_15():
    """Rows are copied, the pushed row is v_t with strength d_t, and r_t weighs the rows."""
    memory = ub.NeuralStack(2)
    first = instructions(memory, 1, 3, seed=3)
    _, state = memory.unroll(first)
    state = requires_grad(state)
    instruction = requires_grad(memory.Instruction(*(f[:, 0] for f in first)))
    read_vector, new = memory.step(state, instruction)

    def grad(output, source):
        return torch.autograd.grad(output, source, retain_graph=True, allow_unused=True)[0]

    (by_value,) = (grad(new.values[0, 1, 0], state.values),)
    expected = torch.zeros_like(state.values)
    expected[0, 1, 0] = 1
    assert torch.equal(by_value, expected)  # (12)
    assert torch.equal(grad(new.values[0, -1].sum(), instruction.value), torch.ones(1, 2).double())
    assert grad(new.strengths[0, -1], instruction.push).item() == 1  # (14)
    weights = memory.observe(new)["read_weights"][0]
    by_rows = grad(read_vector[0, 0], new.values)[0, :, 0]
    assert torch.equal(by_rows, weights.detach())  # (15)
    assert grad(read_vector[0, 1], instruction.value)[0, 1] == instruction.push[0]  # (15)


@pytest.mark.parametrize("end", ["top", "bottom"])
def test_ties_give_the_derivative_to_the_left_argument(end):
    exact = torch.tensor([[1.0]], dtype=DOUBLE, requires_grad=True)
    read_weights(exact, end).sum().backward()
    assert exact.grad is not None
    assert exact.grad.item() == 1  # min(s, 1): the full gradient to s
    strengths = torch.tensor([[0.5]], dtype=DOUBLE, requires_grad=True)
    pop = torch.tensor([0.5], dtype=DOUBLE, requires_grad=True)
    strengths_after_pop(strengths, pop, end).sum().backward()
    assert strengths.grad is not None
    assert pop.grad is not None
    assert strengths.grad.item() == 0  # max(0, 0): the left argument is the constant
    assert pop.grad.item() == 0


@pytest.mark.parametrize("name", MEMORIES)
def test_gradcheck(name):
    memory = MEMORIES[name](2)
    generator = torch.Generator().manual_seed(6)
    values = torch.randn(2, 3, 2, generator=generator, dtype=DOUBLE)
    # Away from 0, where a row dies: there is no derivative to compare with at the kink.
    strengths = 0.2 + 0.6 * torch.rand(2, 3, generator=generator, dtype=DOUBLE)
    fields = instructions(memory, 2, 4, seed=5)
    check_gradients(memory, fields, memory.State(values, strengths), twice={})


@pytest.mark.parametrize("name", MEMORIES)
def test_nan_propagates(name):
    memory = MEMORIES[name](2)
    fields = instructions(memory, 1, 3)
    poisoned = list(fields)
    poisoned[1] = fields[1].clone()
    poisoned[1][0, 1] = float("nan")
    read_vectors, _ = memory.unroll(memory.Instruction(*poisoned), backend="reference")
    assert not read_vectors[:, 0].isnan().any()
    assert read_vectors[:, 1].isnan().any()
