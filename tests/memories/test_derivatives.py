"""Appendix A equation by equation, the rule for ties, and float64 gradcheck."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.memories.common import MEMORIES, instructions, requires_grad
from unbounded.memories.push_pop.reference import pop_strengths, read_weights

DOUBLE = torch.float64


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
def test_equation_16_with_its_diagonal_corrected(seed):
    """d s_t[i] / d s_{t-1}[n]; the printed first case i < n must read i <= n."""
    old, pop = random_case(seed)
    new = pop_strengths(old.unsqueeze(0), pop.unsqueeze(0), "top")[0]
    got = jacobian(lambda s: pop_strengths(s.unsqueeze(0), pop.unsqueeze(0), "top")[0], old)
    for i in range(6):
        for n in range(6):
            left = float(pop) - above(old, i)
            if i <= n and new[i] > 0 and left > 0:
                expected = 1.0
            elif new[i] > 0 and left <= 0:
                expected = float(i == n)
            else:
                expected = 0.0
            assert got[i, n] == expected, (i, n)


@pytest.mark.parametrize("seed", range(40))
def test_equation_17(seed):
    """d s_t[i] / d u_t."""
    old, pop = random_case(seed)
    new = pop_strengths(old.unsqueeze(0), pop.unsqueeze(0), "top")[0]
    got = jacobian(lambda u: pop_strengths(old.unsqueeze(0), u.unsqueeze(0), "top")[0], pop)
    for i in range(6):
        applies = new[i] > 0 and float(pop) - above(old, i) > 0
        assert got[i] == (-1.0 if applies else 0.0)


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
    assert exact.grad.item() == 1  # min(s, 1): the whole gradient to s
    strengths = torch.tensor([[0.5]], dtype=DOUBLE, requires_grad=True)
    pop = torch.tensor([0.5], dtype=DOUBLE, requires_grad=True)
    pop_strengths(strengths, pop, end).sum().backward()
    assert strengths.grad is not None
    assert pop.grad is not None
    assert strengths.grad.item() == 0  # max(0, 0): the left argument is the constant
    assert pop.grad.item() == 0


@pytest.mark.parametrize("name", MEMORIES)
def test_gradcheck(name):
    memory = MEMORIES[name](2)
    fields = requires_grad(instructions(memory, 2, 4, seed=5))
    generator = torch.Generator().manual_seed(6)
    values = torch.randn(2, 3, 2, generator=generator, dtype=DOUBLE)
    # Away from 0, where a row dies: there is no derivative to compare with at the kink.
    strengths = 0.2 + 0.6 * torch.rand(2, 3, generator=generator, dtype=DOUBLE)
    state = requires_grad(memory.State(values, strengths))

    def run(*tensors):
        fields = len(memory.heads)
        start = memory.State(*tensors[fields:])
        read_vectors, final = memory.unroll(
            memory.Instruction(*tensors[:fields]), start, "reference"
        )
        return read_vectors, *final

    assert torch.autograd.gradcheck(run, (*fields, *state))
    assert torch.autograd.gradgradcheck(run, (*fields, *state))


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
