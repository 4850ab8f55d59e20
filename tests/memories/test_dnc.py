"""The memory of a DNC against the plain-Python oracle, its gradients, and long runs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import dnc_oracle
from tests.memories.toy import check_gradients, random_instructions
from tests.tolerances import assert_close
from unbounded.errors import DTypeError, ShapeError
from unbounded.memories.core import ACTIVATIONS
from unbounded.memories.dnc.reference import MODES, allocation_weights

DOUBLE = torch.float64
links_or_none = pytest.mark.parametrize("links", [True, False])


def random_state(memory, batch, seed):
    """Weights that sum to at most 1, usages in [0, 1], links without a diagonal."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.rand(batch, *shape, generator=generator, dtype=DOUBLE)

    fields = {field.name: drawn(*field.shape) for field in memory.state_fields}
    fields["cells"] = 4 * fields["cells"] - 2
    for name in ("write_weights", "read_weights", "precedence"):
        if name in fields:
            fields[name] = fields[name] / (1 + fields[name].sum(-1, keepdim=True))
    if memory.links:
        fields["links"] = fields["links"] / memory.slots * (1 - torch.eye(memory.slots))
    return memory.State(**fields)


def plain(fields, *index):
    return {name: part[index].tolist() for name, part in zip(fields._fields, fields, strict=True)}


@links_or_none
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 6),
    slots=st.integers(1, 7),
    width=st.integers(1, 3),
    read_heads=st.integers(1, 3),
    from_beginning=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_agrees_with_the_oracle(links, seed, steps, slots, width, read_heads, from_beginning):
    memory = ub.DNC(slots, width, read_heads, links)
    state = memory.initial_state(2, DOUBLE) if from_beginning else random_state(memory, 2, seed)
    instructions = random_instructions(memory, 2, steps, seed)
    read_vectors, final = memory.unroll(instructions, state, "reference")
    assert read_vectors.shape == (2, steps, read_heads * width)
    for b in range(2):
        held = plain(state, b)
        for t in range(steps):
            expected, held = dnc_oracle.step(held, plain(instructions, b, t))
            assert_close(read_vectors[b, t], torch.tensor(expected, dtype=DOUBLE), "read_vector")
        for name in final._fields:
            target = torch.tensor(held[name], dtype=DOUBLE)
            assert_close(getattr(final, name)[b], target, name)


@links_or_none
def test_gradcheck(links):
    memory = ub.DNC(4, 2, 2, links)
    check_gradients(memory, random_instructions(memory, 2, 3, 1), random_state(memory, 2, 1))


def test_the_least_used_slot_is_allocated_first():
    usage = torch.tensor([[0.5, 0.0, 0.25, 0.0]], dtype=DOUBLE)
    weights = allocation_weights(usage)[0]
    # Slots 1 and 3 are both free: the first takes all but the floor of usage.
    assert weights.argmax() == 1
    assert_close(weights.sum(), torch.tensor(1.0, dtype=DOUBLE), "sum")
    expected = dnc_oracle.allocation(usage[0].tolist())
    assert_close(weights, torch.tensor(expected, dtype=DOUBLE), "allocation")
    full = allocation_weights(torch.ones(1, 5, dtype=DOUBLE))
    assert not full.any()


def test_ties_have_a_defined_order_and_gradient():
    """Usages that differ by rounding alone count as equal: the first slot comes first."""
    for usage in ([0.0] * 6, [1.0] * 6, [0.5] * 6, [0.5, 0.5 - 1e-7, 0.5 + 1e-7, 0.5 - 1e-6]):
        tensor = torch.tensor([usage], dtype=torch.float32, requires_grad=True)
        weights = allocation_weights(tensor)
        expected = torch.tensor([dnc_oracle.allocation(usage)])
        assert_close(weights, expected, "allocation")
        # The order is constant: no gradient flows through the comparison.
        (gradient,) = torch.autograd.grad(weights[0, 0], tensor)
        assert_close(gradient, torch.tensor([[-1 + 1e-6] + [0.0] * (len(usage) - 1)]), "gradient")


def full_instruction(memory, **fields):
    """An instruction [1, ...] of saturated gates; missing fields are 0."""
    shapes = {head.name: head.shape for head in memory.heads}
    parts = {name: torch.zeros(1, *shape, dtype=DOUBLE) for name, shape in shapes.items()}
    for name, value in fields.items():
        parts[name] = parts[name] + torch.tensor(value, dtype=DOUBLE)
    return memory.Instruction(**parts)


def mode(memory, name):
    return [[float(each == name) for each in MODES]] * memory.read_heads


def test_written_slots_are_read_in_their_order():
    memory = ub.DNC(5, 2, 1)
    state = memory.initial_state(1, DOUBLE)
    vectors = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    by_key = mode(memory, "content")
    for vector in vectors:
        writing = full_instruction(
            memory, write_gate=1, allocation_gate=1, write_value=vector, read_mode=by_key,
            read_key=[[-1.0, -1.0]], read_strength=100, erase=1,
        )  # fmt: skip
        _, state = memory.step(state, writing)
    torch.testing.assert_close(
        state.usage[0], torch.tensor([1, 1, 0, 0, 0], dtype=DOUBLE), rtol=0, atol=1e-4
    )
    find = full_instruction(memory, read_key=[[1.0, 0.0]], read_strength=1000, read_mode=by_key)
    on, back = (
        full_instruction(memory, read_mode=mode(memory, name)) for name in ("forward", "backward")
    )
    seen = []
    for instruction in (find, on, on, back):
        read_vector, state = memory.step(state, instruction)
        seen.append(read_vector[0])
    expected = torch.tensor([*vectors, vectors[1]], dtype=DOUBLE)
    torch.testing.assert_close(torch.stack(seen), expected, rtol=0, atol=1e-3)
    # A free gate gives back the slot that was read last, and it is the next one written.
    freeing = full_instruction(memory, free_gate=1, read_mode=mode(memory, "forward"))
    _, state = memory.step(state, freeing)
    assert allocation_weights(state.usage)[0].argmax() == 1


def long_run(links, chunks, scale, backend):
    """Steps of 2 sequences in float32, in chunks of 1000; `scale` is that of the products."""
    memory = ub.DNC(8, 4, 2, links)
    generator = torch.Generator().manual_seed(1)
    state = memory.initial_state(2)
    for _ in range(chunks):
        parts = [
            ACTIVATIONS[head.activation](
                scale * torch.randn(2, 1000, *head.shape, generator=generator)
            )
            for head in memory.heads
        ]
        read_vectors, state = memory.unroll(memory.Instruction(*parts), state, backend)
        assert torch.isfinite(read_vectors).all()
    for name, field in zip(state._fields, state, strict=True):
        assert torch.isfinite(field).all(), name
    for name in ("usage", "write_weights", "read_weights"):
        field = getattr(state, name)
        assert -1e-5 <= float(field.min()) <= float(field.max()) <= 1 + 1e-5, name
    assert float(state.read_weights.sum(-1).max()) <= 1 + 1e-4


@links_or_none
@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_random_steps_stay_finite(links, scale, backend):
    long_run(links, 1, scale, backend)


@pytest.mark.slow
@links_or_none
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_a_million_random_steps_stay_finite(links, scale):
    long_run(links, 1000, scale, "auto")


@links_or_none
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_gradients_stay_finite(links, scale):
    """Through steps in float32 from the empty memory, in which all usages are equal."""
    memory = ub.DNC(12, 4, 2, links)
    state = memory.initial_state(4)
    instructions = random_instructions(memory, 4, 60, 5, torch.float32)
    scaled = {"read_key", "write_key", "write_value", "read_strength", "write_strength"}
    parts = [
        (scale * part if name in scaled else part).requires_grad_()
        for name, part in zip(instructions._fields, instructions, strict=True)
    ]
    read_vectors, final = memory.unroll(memory.Instruction(*parts), state, "reference")
    loss = read_vectors.square().mean() + sum(field.square().mean() for field in final)
    for name, gradient in zip(instructions._fields, torch.autograd.grad(loss, parts), strict=True):
        assert torch.isfinite(gradient).all(), name


def test_options():
    for name in ("slots", "width", "read_heads"):
        with pytest.raises(ShapeError, match=f"{name}: expected an integer >= 1, got 0"):
            ub.DNC(**{name: 0})
    with pytest.raises(DTypeError, match="links: expected a bool"):
        ub.DNC(links=1)
    assert repr(ub.DNC()) == "DNC(slots=16, width=16, read_heads=4, links=True)"
    linkless = ub.DNC(links=False)
    assert "read_mode" not in linkless.Instruction._fields
    assert linkless.State._fields == ("cells", "usage", "write_weights", "read_weights")
    state = ub.DNC().initial_state(1)
    with pytest.raises(ShapeError, match="expected a LinklessState of DNC, got DNCState"):
        linkless.unroll(random_instructions(linkless, 1, 2, dtype=torch.float32), state)
