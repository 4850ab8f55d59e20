"""The Lie-access memory against the plain-Python oracle, and its invariants."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import lie_oracle
from tests.memories.toy import check_gradients, orders_with_holes, random_instructions
from tests.sweep import sweep
from tests.tolerances import RELATIVE, assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, NonFiniteError, ShapeError
from unbounded.extraction.placement import check_addressed
from unbounded.memories.as_data import memory_data
from unbounded.memories.lie_access.groups import (
    GROUPS,
    KERNEL_GROUPS,
    Group,
    PoincareDisk,
    ScaledSpecialOrthogonal,
    SpecialOrthogonal,
    complex_product,
)
from unbounded.memories.lie_access.reference import Rows, appended
from unbounded.memories.lie_access.weightings import WEIGHTINGS, inverse_square, shares, softmax

DOUBLE = torch.float64
#: Checked with each step in fast tests.
FIRST_KIND = ("scaling_rotation", "inverse_square", None)
#: Of each group, in gradchecks of fast tests.
FAST_WEIGHTING = dict(zip(GROUPS, itertools.cycle(WEIGHTINGS)))
STEPS = ("free", "normalised", "bounded", "normalised_candidate")
every_kind = pytest.mark.parametrize(
    ("group", "weighting"), list(itertools.product(GROUPS, WEIGHTINGS))
)
#: Groups with a kernel, on keys of several sizes.
FUSED = {
    **{name: GROUPS[name]() for name in ("translation", "scaling_rotation", "rotation", "sphere")},
    "bounded_sphere": GROUPS["bounded_sphere"](),
    "learned_bound_sphere": GROUPS["learned_bound_sphere"](),
    "rotation_3": GROUPS["rotation"](3),
    "rotation_6": GROUPS["rotation"](6),
    "scaling_rotation_3": GROUPS["scaling_rotation"](3),
    "poincare_disk": GROUPS["poincare_disk"](),
}
#: Of these the shorter sizes stand for the longer ones, except in slow runs.
_SLOW = ("rotation_6", "scaling_rotation_3")
#: Without a capacity the first row has a gradient under inverse_square alone.
every_capacity = pytest.mark.parametrize(
    ("name", "weighting", "capacity"),
    sweep(
        FUSED,
        WEIGHTINGS,
        [100, None],
        fast=lambda name, weighting, capacity: (
            name not in _SLOW and (capacity is None) == (weighting == "inverse_square")
        ),
    ),
)
#: Groups on keys of any size.
SIZED = ("translation", "rotation", "scaling_rotation")


def random_state(memory, batch, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    state = memory.initial_state(batch, DOUBLE)
    fields = []
    for field, tensor in zip(memory.state_fields, state, strict=True):
        shape = field.padded_to(tensor, rows).shape
        fields.append(torch.randn(shape, generator=generator, dtype=DOUBLE))
    state = memory.State(*fields)
    holes = torch.rand(state.strengths.shape, generator=generator) < 0.2
    group = memory.group
    # Well inside of the disk: distances at its edge are steep.
    scale = 0.3 if isinstance(group, PoincareDisk) else 1.0
    return state._replace(
        strengths=torch.where(holes, 0, state.strengths.sigmoid()),
        keys=group.place(state.keys * scale),
        read_key=group.place(state.read_key * scale),
        write_key=group.place(state.write_key * scale),
        read_action=group.normalise(state.read_action),
        write_action=group.normalise(state.write_action),
    )


def at(instructions, t):
    return type(instructions)(*(field[:, t] for field in instructions))


def with_shut_gates(instructions):
    shut = torch.zeros_like(instructions.strength)
    return instructions._replace(**{n: shut for n in instructions._fields if "gate" in n})


def as_lists(state, b):
    """Rows, read head and write head of the oracle."""
    rows = zip(state.keys[b], state.values[b], state.strengths[b], strict=True)
    return (
        [[key.tolist(), value.tolist(), float(strength)] for key, value, strength in rows],
        [state.read_key[b].tolist(), state.read_action[b].tolist()],
        [state.write_key[b].tolist(), state.write_action[b].tolist()],
    )


@pytest.mark.parametrize(
    ("group", "weighting"),
    sweep(GROUPS, WEIGHTINGS, fast=lambda group, weighting: weighting == FAST_WEIGHTING[group]),
)
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 8),
    rows=st.integers(0, 4),
    width=st.integers(1, 3),
    step=st.sampled_from(STEPS),
    gates=st.tuples(st.booleans(), st.booleans()),
    capacity=st.none() | st.integers(1, 6),
    data=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_agrees_with_the_oracle(
    group, weighting, seed, steps, rows, width, step, gates, capacity, data
):
    drop = data.draw(st.integers(1, capacity)) if capacity else None
    size = data.draw(st.integers(1 if group == "translation" else 2, 4)) if group in SIZED else None
    memory = ub.LieAccessMemory(
        *(width, group, weighting, step), key_size=size, key_gate=gates[0], action_gate=gates[1],
        capacity=capacity, drop=drop,
    )  # fmt: skip
    state = random_state(memory, 2, min(rows, capacity or rows), seed)
    instructions = orders_with_holes(memory, 2, steps, seed)
    read_vectors, final = memory.unroll(instructions, state, "reference")
    assert read_vectors.shape == (2, steps, width)
    for b in range(2):
        held = as_lists(state, b)
        for t in range(steps):
            instruction = {
                name: field[b].tolist() for name, field in at(instructions, t)._asdict().items()
            }
            expected, *held = lie_oracle.step(group, step, *held, instruction, capacity, drop)
            assert_close(read_vectors[b, t], torch.tensor(expected, dtype=DOUBLE), "read_vector")
        for got, expected in zip(as_lists(final, b), held, strict=True):
            assert len(got) == len(expected)
            for one, other in zip(got, expected, strict=True):
                assert flat(one) == pytest.approx(flat(other), rel=1e-9, abs=1e-11)


def as_many(tensor, count):
    """A field with an axis of heads after the batch; a single head has none."""
    return tensor.unsqueeze(1) if count == 1 else tensor


@every_kind
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 5),
    rows=st.integers(0, 5),
    heads=st.sampled_from([(2, 1), (1, 2), (2, 3), (3, 2)]),
    step=st.sampled_from(STEPS),
    gates=st.tuples(st.booleans(), st.booleans()),
    times=st.none() | st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=15, deadline=None)
def test_several_heads_agree_with_the_oracle(
    group, weighting, seed, steps, rows, heads, step, gates, times, data
):
    readers, writers = heads
    capacity = times * writers if times else None
    drop = data.draw(st.integers(1, capacity)) if capacity else None
    memory = ub.LieAccessMemory(
        *(2, group, weighting, step), key_gate=gates[0], action_gate=gates[1], capacity=capacity,
        drop=drop, read_heads=readers, write_heads=writers,
    )  # fmt: skip
    state = random_state(memory, 2, min(rows, capacity or rows), seed)
    if capacity and 0 < state.keys.shape[1] < writers:
        return  # no state of this memory has so few rows
    instructions = orders_with_holes(memory, 2, steps, seed)
    read_vectors, final = memory.unroll(instructions, state, "reference")
    assert read_vectors.shape == (2, steps, 2 * readers)
    assert final.keys.shape[1] == memory.state_fields[0].rows_after(state.keys.shape[1], steps)

    def parts(state, b):
        rows, *_ = as_lists(state, b)
        heads = [
            [
                [key.tolist(), action.tolist()]
                for key, action in zip(
                    as_many(getattr(state, f"{who}_key"), count)[b],
                    as_many(getattr(state, f"{who}_action"), count)[b],
                    strict=True,
                )
            ]
            for who, count in (("read", readers), ("write", writers))
        ]
        return rows, *heads

    for b in range(2):
        held = parts(state, b)
        for t in range(steps):
            counts = {
                name: writers
                if name.startswith("write") or name in ("value", "strength")
                else readers
                for name in instructions._fields
            }
            instruction = {
                name: as_many(field, counts[name])[b].tolist()
                for name, field in at(instructions, t)._asdict().items()
            }
            expected, *held = lie_oracle.step_of_many(
                group, step, *held, instruction, capacity, drop
            )
            # Near the edge of the disk, distances are steep.
            rtol = 1e-8 if group == "poincare_disk" else RELATIVE[DOUBLE]
            read_vector = torch.tensor(expected, dtype=DOUBLE)
            torch.testing.assert_close(read_vectors[b, t], read_vector, rtol=rtol, atol=1e-12)
        for got, expected in zip(parts(final, b), held, strict=True):
            assert flat(got) == pytest.approx(flat(expected), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize(
    ("name", "weighting"),
    sweep(
        FUSED,
        WEIGHTINGS,
        fast=lambda name, weighting: (
            name not in _SLOW and weighting == FAST_WEIGHTING[FUSED[name].name]
        ),
    ),
)
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 9),
    rows=st.integers(0, 7),
    heads=st.sampled_from([(2, 1), (1, 2), (2, 3), (3, 2)]),
    times=st.none() | st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=15, deadline=None)
def test_the_kernel_has_several_heads(name, weighting, seed, steps, rows, heads, times, data):
    """With absent rows, and states whose number of rows is no multiple of the write heads."""
    capacity = times * heads[1] if times else None
    drop = data.draw(st.integers(1, capacity)) if capacity else None
    memory = ub.LieAccessMemory(
        2, FUSED[name], weighting, capacity=capacity, drop=drop, step="normalised",
        read_heads=heads[0], write_heads=heads[1],
    )  # fmt: skip
    rows = min(rows, capacity or rows)
    state = random_state(memory, 2, rows, seed)
    instructions = orders_with_holes(memory, 2, steps, seed)
    results = []
    for backend in ("reference", "cpu"):
        leaves = [tensor.clone().requires_grad_() for tensor in (*instructions, *state)]
        instruction, start = memory.Instruction(*leaves[:-7]), memory.State(*leaves[-7:])
        read_vectors, final = memory.unroll(instruction, start, backend)
        loss = read_vectors.square().sum() + sum(field.sin().sum() for field in final)
        grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        results.append([read_vectors, *final, *grads])
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)


def gradients_are_right(memory, rows, **options):
    """float64 gradcheck of an unroll in all fields of instruction and state."""
    state = random_state(memory, 1, rows, 1)
    state = state._replace(strengths=torch.full_like(state.strengths, 0.4))
    instructions = random_instructions(memory, 1, 2, 3)
    if memory.group.name == "poincare_disk":  # away from the edge, where keys are limited
        instructions = instructions._replace(
            read_key=0.2 * instructions.read_key, write_key=0.2 * instructions.write_key
        )

    check_gradients(memory, instructions, state, **options)


@pytest.mark.parametrize(
    ("group", "weighting", "heads"),
    sweep(
        GROUPS,
        WEIGHTINGS,
        [(2, 1), (1, 2), (2, 2)],
        fast=lambda group, weighting, heads: heads == (2, 2) and weighting == FAST_WEIGHTING[group],
    ),
)
def test_gradcheck_of_several_heads(group, weighting, heads):
    memory = ub.LieAccessMemory(
        2, group, weighting, "normalised", read_heads=heads[0], write_heads=heads[1],
        capacity=6, drop=2,
    )  # fmt: skip
    gradients_are_right(memory, rows=4, fast_mode=True)


class FartherDisk(PoincareDisk):
    """A group with the name of another, and a distance of its own."""

    def distance(self, key, keys):
        return 4 * super().distance(key, keys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": lambda d, s, t: s}, "expected a weighting of inverse_square, softmax, got"),
        ({"group": SpecialOrthogonal(2)}, r"got 'rotation' with keys of size 2 \(SpecialOrthog"),
        ({"group": FartherDisk()}, r"group of translation, .*, got 'poincare_disk' .* \(Farther"),
    ],
)
def test_unsupported_options_are_errors_in_the_explorer(options, message):
    with pytest.raises(ConfigError, match=message):
        memory_data(ub.LieAccessMemory(3, **options))


def test_extraction_needs_one_head_of_each_kind():
    with pytest.raises(ConfigError, match="it has several read heads or write heads"):
        check_addressed(ub.LieAccessMemory(3, read_heads=2))


def test_shapes_of_several_heads():
    memory = ub.LieAccessMemory(
        3, initial="learned", capacity=8, read_heads=2, write_heads=4, variant="2017"
    )
    assert {head.name: head.shape for head in memory.heads} == {
        "read_key": (2, 2), "read_key_gate": (2,), "read_action": (2, 2),
        "write_key": (4, 2), "write_key_gate": (4,), "write_action": (4, 2),
        "value": (4, 3), "strength": (4,),
    }  # fmt: skip
    shapes = [tuple(field.shape) for field in memory.initial_state(1)]
    assert shapes == [
        (1, 4, 2), (1, 4, 3), (1, 4), (1, 2, 2), (1, 2, 2), (1, 4, 2), (1, 4, 2)
    ]  # fmt: skip
    assert repr(memory).endswith("capacity=8, drop=1, read_heads=2, write_heads=4)")
    layer = ub.MemoryRNN(2, 5, memory, backend="reference")
    output, state, trace = layer(torch.randn(7, 2, 2), return_trace=True)
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    assert state.memory.keys.shape == (2, 8, 2)
    assert trace.arrays["read_key"].shape == (2, 7, 2, 2)


def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]


def is_fast(kind, step):
    group, weighting, size = kind
    of_group = weighting == FAST_WEIGHTING[group] if size is None else group == "rotation"
    return step == "normalised" and of_group


@pytest.mark.parametrize(
    ("group", "weighting", "size", "step"),
    [
        pytest.param(
            *kind, step, marks=() if kind == FIRST_KIND or is_fast(kind, step) else pytest.mark.slow
        )
        for kind in [
            *((group, weighting, None) for group in GROUPS for weighting in WEIGHTINGS),
            *((group, "inverse_square", 3) for group in ("rotation", "scaling_rotation")),
        ]
        for step in STEPS
    ],
)
def test_gradcheck(group, weighting, size, step):
    memory = ub.LieAccessMemory(2, group, weighting, step, key_size=size)
    gradients_are_right(memory, rows=2)


def test_gradcheck_with_a_capacity():
    memory = ub.LieAccessMemory(2, capacity=3, drop=2)
    state = random_state(memory, 1, 2, 1)
    state = state._replace(strengths=torch.full_like(state.strengths, 0.4))
    check_gradients(memory, random_instructions(memory, 1, 5, 2), state)


numbers = st.floats(-3, 3, allow_nan=False).map(lambda x: 0.0 if abs(x) < 1e-3 else x)


def element(group, draw):
    drawn = torch.tensor([[draw(numbers) for _ in range(group.action_size)]], dtype=DOUBLE)
    identity = torch.tensor([group.identity], dtype=DOUBLE)
    near_nothing = float(drawn.norm()) < 0.1 and group.name != "translation"
    if group.name == "sphere":
        near_nothing = min(float(drawn[:, :3].norm()), float(drawn[:, 3:].norm())) < 0.1
    return group.normalise(identity if near_nothing else drawn)


def product(group, first, then):
    """The action equal to one action followed by another."""
    if group.name == "translation":
        return first + then
    return group.act(first, then)


def inverse(group, action):
    if group.name == "translation":
        return -action
    if group.name == "sphere":
        return torch.cat([action[:, :4], -action[:, 4:]], dim=1)
    square = action.square().sum(-1, keepdim=True)
    return action * torch.tensor([1.0, -1.0], dtype=DOUBLE) / square


@pytest.mark.parametrize("name", ["translation", "scaling_rotation", "rotation", "sphere"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_axioms_of_the_groups(name, data):
    """Identity, inverse, associativity, and that an action is undone by its inverse."""
    group = GROUPS[name]()
    key = torch.tensor([[data.draw(numbers) for _ in range(group.key_size)]], dtype=DOUBLE)
    if name == "sphere" and float(key.norm()) < 0.1:
        key = torch.tensor([group.origin], dtype=DOUBLE)
    key = group.place(key)
    g, h = (element(group, data.draw) for _ in range(2))
    identity = torch.tensor([group.identity], dtype=DOUBLE)
    close = {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(group.act(identity, key), key, **close)
    torch.testing.assert_close(group.normalise(g), g, **close)
    if name != "sphere":
        torch.testing.assert_close(
            group.act(h, group.act(g, key)), group.act(product(group, g, h), key), **close
        )
        both = group.act(product(group, g, h), group.act(h, key))
        torch.testing.assert_close(
            both, group.act(g, group.act(product(group, h, h), key)), **close
        )
    if name == "translation" or float(g.square().sum()) > 0.01:
        torch.testing.assert_close(group.act(inverse(group, g), group.act(g, key)), key, **close)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_turns_of_the_sphere_are_matrices_of_so3(data):
    """Orthogonal with determinant 1, and closed under products."""
    group = GROUPS["sphere"]()
    eye = torch.eye(3, dtype=DOUBLE)

    def matrix(action):
        return group.act(action.expand(3, -1), eye).T

    g, h = (element(group, data.draw) for _ in range(2))
    for turn in (matrix(g), matrix(h), matrix(h) @ matrix(g)):
        torch.testing.assert_close(turn @ turn.T, eye, rtol=1e-8, atol=1e-9)
        assert float(torch.det(turn)) == pytest.approx(1.0, abs=1e-8)
    torch.testing.assert_close(g[:, :3] @ matrix(g).T, g[:, :3], rtol=1e-8, atol=1e-9)
    key = group.place(torch.tensor([[0.3, -1.2, 0.5]], dtype=DOUBLE))
    both = group.act(h, group.act(g, key))
    torch.testing.assert_close(both, key @ (matrix(h) @ matrix(g)).T, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("size", [2, 3, 5])
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.0, 1e-20, 1.0, 30.0]))
@settings(max_examples=20, deadline=None)
def test_rotations_of_any_size(size, seed, scale):
    """Orthogonal matrices with determinant 1; the inverse of an action is its negative."""
    generator = torch.Generator().manual_seed(seed)
    group = SpecialOrthogonal(size)
    action = scale * torch.randn(1, group.action_size, generator=generator, dtype=DOUBLE)
    eye = torch.eye(size, dtype=DOUBLE)
    matrix = group.act(action.expand(size, -1), eye).T
    torch.testing.assert_close(matrix @ matrix.T, eye, rtol=1e-8, atol=1e-9)
    assert float(torch.det(matrix)) == pytest.approx(1.0, abs=1e-8)
    key = torch.randn(1, size, generator=generator, dtype=DOUBLE)
    torch.testing.assert_close(group.act(-action, group.act(action, key)), key)
    if scale == 0:
        assert torch.equal(group.act(action, key), key)
    scaled = ScaledSpecialOrthogonal(size)
    factor = torch.tensor([[-0.7]], dtype=DOUBLE)
    both = torch.cat([factor, action], dim=1)
    torch.testing.assert_close(scaled.act(both, key), -0.7 * group.act(action, key))
    pure = scaled.shorten(both, 1e-12)
    torch.testing.assert_close(scaled.act(pure, key), -group.act(action, key))


def test_rotations_of_two_and_three_numbers_are_those_of_other_groups():
    key = torch.tensor([[0.3, -1.2]], dtype=DOUBLE)
    angle = torch.tensor([[0.7]], dtype=DOUBLE)
    turn = torch.cat([angle.cos(), -angle.sin()], dim=1)  # X turns against the clock's opposite
    expected = GROUPS["rotation"]().act(turn, key)
    torch.testing.assert_close(SpecialOrthogonal(2).act(angle, key), expected)
    axis = torch.tensor([[2.0, 1.0, -2.0]], dtype=DOUBLE) / 3
    x, y, z = (0.7 * axis).unbind(1)
    key = GROUPS["sphere"]().place(torch.tensor([[0.3, -1.2, 0.5]], dtype=DOUBLE))
    expected = GROUPS["sphere"]().act(torch.cat([axis, angle.cos(), angle.sin()], 1), key)
    skew = torch.stack([-z, y, -x], dim=1)
    torch.testing.assert_close(SpecialOrthogonal(3).act(skew, key), expected)


def test_the_size_of_keys_chooses_the_group():
    for name in ("rotation", "scaling_rotation"):
        assert type(ub.LieAccessMemory(3, name).group) in KERNEL_GROUPS
        assert type(ub.LieAccessMemory(3, name, key_size=2).group) in KERNEL_GROUPS
        memory = ub.LieAccessMemory(3, name, key_size=5)
        assert memory.group.action_size == 10 + (name == "scaling_rotation")
        assert f"group='{name}'" in repr(memory)
        assert "key_size=5" in repr(memory)
        large = ub.LieAccessMemory(3, name, key_size=17)
        with pytest.raises(ub.errors.BackendError, match="rotate keys of at most 16 coordinates"):
            large.unroll(random_instructions(large, 1, 2), backend="cpu")


def test_every_group_of_the_kernels_is_tested():
    assert {type(group) for group in FUSED.values()} == set(KERNEL_GROUPS)


disk_points = st.tuples(st.floats(0, 0.999), st.floats(-7, 7)).map(
    lambda polar: [polar[0] * math.cos(polar[1]), polar[0] * math.sin(polar[1])]
)


@given(
    one=disk_points,
    other=disk_points,
    third=disk_points,
    action=st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(-9, 9)),
)
@settings(max_examples=80, deadline=None)
def test_actions_of_the_disk_keep_distances(one, other, third, action):
    group = PoincareDisk()
    a, b, c = (torch.tensor([point], dtype=DOUBLE) for point in (one, other, third))
    moves = torch.tensor([action], dtype=DOUBLE)
    far = group.distance(a, b).sqrt()
    moved = [group.act(moves, point) for point in (a, b)]
    if max(float(point.norm()) for point in moved) < 0.9999:
        torch.testing.assert_close(group.distance(*moved).sqrt(), far, rtol=1e-6, atol=1e-6)
        turn = torch.cat([moves[:, 2:].cos(), -moves[:, 2:].sin()], dim=1)
        inverse = torch.cat([-complex_product(turn, moves[:, :2]), -moves[:, 2:]], dim=1)
        torch.testing.assert_close(group.act(inverse, moved[0]), a, rtol=1e-6, atol=1e-6)
    nothing = torch.zeros(1, 3, dtype=DOUBLE)
    torch.testing.assert_close(group.act(nothing, a), a)
    assert torch.equal(group.distance(a, b), group.distance(b, a))
    assert float(group.distance(a, a)) == 0
    others = group.distance(a, c).sqrt() + group.distance(c, b).sqrt()
    assert float(far) <= float(others) + 1e-6
    along = torch.tensor([[*action[:2], 0.0]], dtype=DOUBLE)
    moved = group.act(along, torch.zeros(1, 2, dtype=DOUBLE))
    assert float(group.distance(moved, torch.zeros(1, 2)).sqrt()) == pytest.approx(
        math.hypot(*action[:2]), abs=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_values_and_gradients_on_the_disk_are_finite(dtype):
    """At its edge and beyond, at equal keys, and for actions of any length."""
    group = PoincareDisk()
    points = [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.7, 0.72], [1e-20, 0.0], [0.99999, 1e-5]]
    keys = torch.tensor([*points, [5.0, 5.0], [1e10, 0.0]], dtype=dtype, requires_grad=True)
    lengths = [0.0, 1e-20, 1.0, 40.0, 1e10]
    actions = torch.tensor([[x, -x, x] for x in lengths], dtype=dtype, requires_grad=True)
    for action in actions.unbind():
        moved = group.act(action.expand(len(keys), 3), group.place(keys))
        assert bool((moved.norm(dim=-1) <= 1 - 9e-6).all())
        for which in (keys, group.place(keys)):
            distances = group.distance(moved.unsqueeze(1), which.unsqueeze(0))
            assert bool((distances.isfinite() & (distances >= 0)).all())
            weights = inverse_square(distances, torch.ones_like(distances), None)
            for result in (distances, weights[:, :1]):
                grads = torch.autograd.grad(result.sum(), (keys, actions), retain_graph=True)
                assert all(bool(grad.isfinite().all()) for grad in grads)


def test_a_head_on_the_disk_walks_a_straight_line():
    memory = ub.LieAccessMemory(2, "poincare_disk")
    instructions = random_instructions(memory, 1, 30, 0, torch.float32)
    state = memory.initial_state(1, torch.float32)
    state = state._replace(write_action=torch.tensor([[0.3, 0.0, 0.0]]))
    _, after = memory.unroll(with_shut_gates(instructions), state, "reference")
    assert after.write_action.tolist() == [[1.0, 0.0, 0.0]]  # normalised
    far = memory.group.distance(after.keys[0], torch.zeros(2)).sqrt()
    assert far[:10].tolist() == pytest.approx(range(1, 11), rel=1e-3)
    assert float(far.max()) < 12.3  # the edge


@given(gate=st.floats(0, 1), data=st.data())
@settings(max_examples=60, deadline=None)
def test_mixtures_of_turns_are_turns(gate, data):
    for name in ("rotation", "sphere"):
        group = GROUPS[name]()
        g, h = (element(group, data.draw) for _ in range(2))
        mixed = group.mix(torch.tensor([[gate]], dtype=DOUBLE), g, h)
        parts = (mixed[:, :3], mixed[:, 3:]) if name == "sphere" else (mixed,)
        if min(float(part.norm()) for part in parts) < 1e-3:
            continue  # the mean of opposite axes is zero
        turn = group.normalise(mixed)
        for part in (turn[:, :3], turn[:, 3:]) if name == "sphere" else (turn,):
            assert float(part.norm()) == pytest.approx(1.0, abs=1e-5)
        key = group.place(torch.ones(1, group.key_size, dtype=DOUBLE))
        assert float(group.act(turn, key).norm()) == pytest.approx(float(key.norm()), abs=1e-5)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_bounded_sphere_turns_by_the_bound_times_tanh(backend):
    """The bound stays as it is, also at a closed gate; the actions are those of the sphere."""
    memory = ub.LieAccessMemory(2, "bounded_sphere", variant="2017")
    state = memory.initial_state(1, DOUBLE)
    assert state.read_action.tolist() == [[1, 0, 0, 1, 0, 1]]
    bound = torch.tensor([[2.5]], dtype=DOUBLE)
    state = state._replace(read_action=torch.cat([state.read_action[:, :5], bound], 1))
    outputs = torch.tensor([[[0.0, 0.0, 5.0, x]] for x in (0.3, -1.0, 40.0)], dtype=DOUBLE)
    instructions = random_instructions(memory, 1, 3, 0)._replace(
        read_key_gate=torch.zeros(1, 3, dtype=DOUBLE), read_action=outputs.transpose(0, 1)
    )
    _, final = memory.unroll(instructions, state, backend)
    angle = 2.5 * (math.tanh(0.3) + math.tanh(-1.0) + 1.0)
    expected = torch.tensor([[math.cos(angle), math.sin(angle), 0.0]], dtype=DOUBLE)
    assert_close(final.read_key, expected, "read_key")
    assert final.read_action[0, 5] == 2.5
    assert final.write_action[0, 5] == 1


@pytest.mark.parametrize(
    ("group", "learned"), [("bounded_sphere", False), ("learned_bound_sphere", True)]
)
def test_the_bound_of_angles_is_learned_or_one_radian(group, learned):
    torch.manual_seed(0)
    memory = ub.LieAccessMemory(2, group, variant="2017", initial="learned")
    layer = ub.MemoryRNN(3, 5, memory)
    output, state = layer(torch.randn(6, 2, 3))
    output.square().sum().backward()
    bounds = state.memory.read_action[:, 5]
    gradients = [p.grad for name, p in layer.named_parameters() if name.endswith("read_action")]
    if learned:
        assert (gradients[0][..., 5] != 0).all()
        assert ((bounds > 0) & (bounds < math.pi)).all()
        assert (bounds != math.pi / 2).all()
    else:
        assert gradients == []  # without a gate the initial action has no effect
        assert (bounds == 1).all()


def test_the_learned_initial_angle_is_bounded():
    group = GROUPS["learned_bound_sphere"]()
    drawn = 3 * torch.randn(200, 6, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    action = group.initial_action(drawn)
    angle, bound = torch.atan2(action[:, 4], action[:, 3]), action[:, 5]
    assert (angle.abs() <= bound).all()
    assert_close(action[:, :3].norm(dim=-1), torch.ones(200, dtype=DOUBLE), "axis")
    assert_close(bound, math.pi * drawn[:, 5].sigmoid(), "bound")


def test_a_candidate_of_another_size_is_an_error():
    class Doubled(GROUPS["translation"]):
        def candidate(self, outputs, before):
            return torch.cat([outputs, outputs], dim=-1)

    memory = ub.LieAccessMemory(2, Doubled())
    instruction = at(random_instructions(memory, 1, 1, 0), 0)
    with pytest.raises(ShapeError, match=r"candidate of group translation"):
        memory.step(memory.initial_state(1, DOUBLE), instruction)


@every_kind
def test_strength_0_is_exactly_no_row(group, weighting):
    memory = ub.LieAccessMemory(3, group, weighting)
    instructions, state = orders_with_holes(memory, 3, 12, 1), random_state(memory, 3, 5, 2)
    _, final = memory.unroll(instructions, state, "reference")
    written = memory.trim(final)
    assert written.strengths.shape[1] < final.strengths.shape[1]
    later_instructions = random_instructions(memory, 3, 4, 3)
    expected, got = (memory.unroll(later_instructions, s, "reference")[0] for s in (final, written))
    assert_close(got, expected, "read_vectors")
    alone = ub.index_state(final, [0])
    rows = alone.strengths[0] > 0
    alone = alone._replace(
        keys=alone.keys[:, rows], values=alone.values[:, rows], strengths=alone.strengths[:, rows]
    )
    first = memory.Instruction(*(field[:1] for field in later_instructions))
    assert_close(memory.unroll(first, alone, "reference")[0], expected[:1], "read_vectors")


@every_kind
def test_a_row_of_strength_0_has_no_gradient(group, weighting):
    """Even at the read head itself, nearer than any live row."""
    memory = ub.LieAccessMemory(2, group, weighting)
    instructions = at(random_instructions(memory, 1, 1, 0), 0)
    start = memory.initial_state(1, DOUBLE)
    _, moved = memory.step(start, instructions)
    there = torch.cat([moved.read_key.unsqueeze(1), moved.read_key.unsqueeze(1) + 0.5], dim=1)
    state = start._replace(
        keys=there,
        values=torch.ones(1, 2, 2, dtype=DOUBLE),
        strengths=torch.zeros(1, 2, dtype=DOUBLE),
    )
    for strengths in ([0.0, 0.3], [0.0, 0.0]):
        held = torch.tensor([strengths], dtype=DOUBLE, requires_grad=True)
        keys = there.clone().requires_grad_()
        read_vector, _ = memory.step(state._replace(strengths=held, keys=keys), instructions)
        read_vector.sum().backward()
        assert torch.equal(
            read_vector.detach(), torch.full((1, 2), float(max(strengths) > 0)).double()
        )
        assert held.grad[0, 0] == 0
        assert held.grad.isfinite().all()
        assert (keys.grad[0, 0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_at_distance_0_values_and_gradients_are_finite(dtype):
    key = torch.zeros(1, 3, 2, dtype=dtype)
    key[0, 1] = 1.0
    for offset in (0.0, 1e-30, 1e-12, 1e-5):
        query = torch.full((1, 2), offset, dtype=dtype, requires_grad=True)
        distances = (query.unsqueeze(1) - key).square().sum(-1)
        weights = inverse_square(distances, torch.ones(1, 3, dtype=dtype), None)
        assert weights[0, [0, 2]].tolist() == pytest.approx([0.5, 0.5], abs=1e-4)
        (grad,) = torch.autograd.grad(weights[0, 0] - 0.3 * weights[0, 1], query)
        assert grad.isfinite().all()
        assert float(grad.abs().max()) <= 1e5
    weights = softmax(torch.zeros(1, 2, dtype=dtype), torch.ones(1, 2, dtype=dtype),
                      torch.zeros(1, dtype=dtype))  # fmt: skip
    assert weights.tolist() == [[0.5, 0.5]]


def test_gradients_of_a_cold_softmax_in_single_precision():
    """One row is read, and the gradient of the distances is 0, not rounding errors over T."""
    generator = torch.Generator().manual_seed(0)
    distances = torch.rand(50, 4, generator=generator) * 10
    strengths = torch.rand(50, 4, generator=generator)
    values = torch.randn(50, 4, generator=generator)

    def gradient(dtype):
        keys = distances.to(dtype).requires_grad_()
        weights = softmax(keys, strengths.to(dtype), torch.full((50,), 1e-3, dtype=dtype))
        return torch.autograd.grad((weights * values.to(dtype)).sum(), keys)[0]

    exact = gradient(torch.float64)
    torch.testing.assert_close(gradient(torch.float32).double(), exact, rtol=1e-2, atol=1e-5)


def test_a_colder_softmax_is_sharper_and_the_hottest_is_flat():
    distances, ones = torch.tensor([[0.5, 1.0, 4.0]], dtype=DOUBLE), torch.ones(1, 3, dtype=DOUBLE)
    cold, warm, hot = (
        softmax(distances, ones, torch.tensor([t], dtype=DOUBLE))[0] for t in (1e-3, 1.0, 1e6)
    )
    assert cold.tolist() == pytest.approx([1, 0, 0], abs=1e-9)
    assert warm[0] > warm[1] > warm[2]
    assert hot.tolist() == pytest.approx([1 / 3] * 3, abs=1e-5)


@pytest.mark.parametrize("steps", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@every_kind
def test_ten_thousand_steps_in_float32(group, weighting, steps):
    memory = ub.LieAccessMemory(3, group, weighting, capacity=100, drop=60)
    instructions = random_instructions(memory, 1, steps, 0, torch.float32)
    read_vectors, state = memory.unroll(instructions, None, "reference")
    assert read_vectors.isfinite().all()
    assert (read_vectors.abs() <= 1.001).all()
    assert all(field.isfinite().all() for field in state)
    assert state.strengths.shape == (1, 100)
    if "sphere" in group:
        assert_close(state.keys.norm(dim=-1), torch.ones(1, 100), "keys")


@every_capacity
def test_ten_thousand_steps_of_the_kernel_and_their_gradients(name, weighting, capacity):
    group = FUSED[name]
    memory = ub.LieAccessMemory(
        3, group, weighting, capacity=capacity, drop=60 if capacity else None
    )
    instructions = random_instructions(memory, 1, 10_000, 0, torch.float32)
    instructions = type(instructions)(*(field.requires_grad_() for field in instructions))
    read_vectors, state = memory.unroll(instructions, None, "auto")
    assert read_vectors.isfinite().all()
    assert (read_vectors.abs() <= 1.001).all()
    assert all(field.isfinite().all() for field in state)
    assert state.strengths.shape == (1, capacity or 10_000)
    if "sphere" in group.name:
        keys = state.keys.norm(dim=-1)
        assert_close(keys, torch.ones_like(keys), "keys")
    read_vectors.square().sum().backward()
    assert all(field.grad.isfinite().all() for field in instructions)
    if capacity is None and weighting == "inverse_square":  # the first row still has a gradient
        assert float(instructions.value.grad[0, 0].abs().max()) > 0


@pytest.mark.parametrize("step", ["free", "normalised", "normalised_candidate"])
@pytest.mark.parametrize("action", [(1.0, 0.0), (0.6, 0.8), (0.28, -0.96)])
def test_closed_gates_keep_a_straight_path_for_ten_thousand_steps(step, action):
    memory = ub.LieAccessMemory(3, step=step, gates="hard_sigmoid")
    instructions = random_instructions(memory, 1, 10_000, 0, torch.float32)
    first = torch.tensor([action])
    state = memory.initial_state(1, torch.float32)._replace(read_action=first, write_action=first)
    _, after = memory.unroll(with_shut_gates(instructions), state, "auto")
    # Both heads compute the same float32 sums, so they stay together exactly.
    assert float((after.write_key - 10_000 * first).norm()) < 1
    assert torch.equal(after.read_key, after.write_key)
    assert torch.equal(after.write_action, first)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("step", ["free", "normalised_candidate"])
def test_keys_that_grow_without_bound_are_an_error(backend, step):
    memory = ub.LieAccessMemory(3, "scaling_rotation", step=step)
    instructions = random_instructions(memory, 2, 200, 0, torch.float32)
    gates = {"read_key_gate": instructions.strength / 9}
    state = memory.initial_state(2, torch.float32)
    if step == "free":
        gates["read_action"] = instructions.read_action + 9
    else:  # a kept initial action keeps its length
        gates["read_action_gate"] = torch.zeros_like(instructions.strength)
        state = state._replace(read_action=torch.full((2, 2), 9.0))
    message = rf"expected .* up to 1e\+18, got larger .* step='{step}' .* step='normalised' or"
    with pytest.raises(NonFiniteError, match=message):
        memory.unroll(instructions._replace(**gates), state, backend)


def test_an_initial_action_keeps_its_length_if_only_candidates_are_normalised():
    """The write head moves by 0.5 a step, the read head by the normalised candidate of 1."""
    memory = ub.LieAccessMemory(3, step="normalised_candidate")
    state = memory.initial_state(1, DOUBLE)
    state = state._replace(write_action=torch.tensor([[0.5, 0.0]], dtype=DOUBLE))
    instructions = random_instructions(memory, 1, 4, 0)
    one, zero = torch.ones(1, 4), torch.zeros(1, 4)
    instructions = instructions._replace(
        read_action=torch.tensor([7.0, 0.0]).expand(1, 4, 2), read_action_gate=one,
        read_key_gate=zero, write_key_gate=zero, write_action_gate=zero,
    )  # fmt: skip
    instructions = memory.Instruction(*(field.to(DOUBLE) for field in instructions))
    after = memory.unroll(instructions, state, "reference")[1]
    assert after.keys[0, :, 0].tolist() == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert after.read_key[0].tolist() == pytest.approx([4.0, 0.0])


def test_a_straight_line_is_read_back_in_the_order_it_was_written():
    """Write along a line with steps of 1, then read from its start with the same steps."""
    memory = ub.LieAccessMemory(3, step="normalised")
    state, written = memory.initial_state(1, DOUBLE), []
    one, zero = torch.ones(1, dtype=DOUBLE), torch.zeros(1, dtype=DOUBLE)
    origin, right = torch.zeros(1, 2, dtype=DOUBLE), torch.tensor([[7.0, 0.0]], dtype=DOUBLE)
    for _ in range(10):
        value = torch.randn(1, 3, dtype=DOUBLE).tanh()
        written.append(value)
        instruction = memory.Instruction(
            origin, one, right, one, origin, zero, right, one, value, one
        )
        _, state = memory.step(state, instruction)
    assert_close(state.keys[0, :, 0], torch.arange(1.0, 11, dtype=DOUBLE), "keys")
    for t in range(10):
        gate = one if t == 0 else zero
        instruction = memory.Instruction(
            origin, gate, right, gate, origin, zero, right, zero, value, zero
        )
        read_vector, state = memory.step(state, instruction)
        assert (read_vector - written[t]).abs().max() < 1e-8


@given(
    strengths=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40),
    capacity=st.integers(1, 7),
    data=st.data(),
)
@settings(max_examples=80, deadline=None)
def test_a_capacity_drops_the_oldest_rows(strengths, capacity, data):
    drop = data.draw(st.integers(1, capacity))
    rows = Rows(torch.zeros(1, 0, 1), torch.zeros(1, 0, 1), torch.zeros(1, 0))
    held = []
    for t, strength in enumerate(strengths):
        mark = torch.full((1, 1, 1), float(t))
        rows = appended(rows, Rows(mark, -mark, torch.tensor([[strength]])), capacity, drop)
        if strength > 0:
            held = held[drop:] if len(held) == capacity else held
            held.append(t)
        live = rows.strengths[0] > 0
        assert rows.keys[0, live, 0].tolist() == held
        assert rows.values[0, live, 0].tolist() == [-t for t in held]
        assert rows.strengths.shape[1] == min(t + 1, capacity)


class Shear(Group):
    """A custom group: (x, y) to (x + a y, y)."""

    name = "shear"
    key_size, action_size = 2, 1
    identity, origin = (0.0,), (0.0, 1.0)

    def act(self, action, key):
        x, y = key.unbind(-1)
        return torch.stack([x + action[:, 0] * y, y], dim=-1)


def test_custom_group():
    memory = ub.LieAccessMemory(3, Shear(), "softmax", capacity=4, drop=2)
    layer = ub.MemoryRNN(2, 5, memory, learn_initial_state=True)
    assert layer.layers[0].heads.weight.shape[0] == 2 * (2 + 1 + 1 + 1) + 3 + 1 + 1
    with pytest.warns(ub.errors.BackendWarning, match="no kernel supports the group shear"):
        output, state = layer(torch.randn(9, 2, 2))
    output.sum().backward()
    assert state.memory.keys.shape == (2, 4, 2)
    assert layer.initial_state(1).memory.read_key.tolist() == [[0.0, 1.0]]
    with pytest.raises(ub.errors.BackendError, match="no kernel supports the group shear"):
        memory.unroll(random_instructions(memory, 1, 2), backend="cpu")


class Sized(Shear):
    """A group with an optional key size after another option."""

    def __init__(self, speed=1.0, *, key_size=2):
        self.speed, self.key_size = speed, key_size


class Needy(Shear):
    def __init__(self, speed):
        self.speed = speed


def test_a_group_by_its_import_path():
    here = f"{__name__}."
    assert isinstance(ub.LieAccessMemory(3, f"{here}Shear").group, Shear)
    group = ub.LieAccessMemory(3, f"{here}Sized", key_size=2).group
    assert (group.speed, group.key_size) == (1.0, 2)
    with pytest.raises(ShapeError, match="key_size: expected 2, the size of the keys"):
        ub.LieAccessMemory(3, f"{here}Shear", key_size=3)
    with pytest.raises(ConfigError, match=r"made without arguments, got \['speed'\]"):
        ub.LieAccessMemory(3, f"{here}Needy")
    with pytest.raises(ConfigError, match="give --import nowhere, or import it first"):
        ub.LieAccessMemory(3, "nowhere.Shear")


class Taxi(Shear):
    """Distances along the axes."""

    name = "taxi"

    def distance(self, key, keys):
        return (key - keys).abs().sum(-1).square()


def nearest(distances, strengths, temperature):
    """Weights as the powers of the distances, without a limit."""
    scale = 1.0 if temperature is None else 1 + temperature.unsqueeze(-1)
    return shares(torch.exp(-distances * scale), strengths)


class Flat(Shear):
    def distance(self, key, keys):
        return (key - keys).abs().sum()


def test_a_group_with_a_distance_of_its_own():
    memory = ub.LieAccessMemory(2, Taxi())
    instructions, state = random_instructions(memory, 2, 1), random_state(memory, 2, 5, 0)
    read_vectors, after = memory.unroll(instructions, state, "reference")
    for b in range(2):
        parts = []
        for key, strength in zip(state.keys[b].tolist(), state.strengths[b].tolist(), strict=True):
            pairs = zip(after.read_key[b].tolist(), key, strict=True)
            far = sum(abs(one - other) for one, other in pairs)
            parts.append(strength / (far**2 + 1e-10))
        columns = zip(*state.values[b].tolist(), strict=True)
        expected = [
            sum(part * v for part, v in zip(parts, column, strict=True)) / sum(parts)
            for column in columns
        ]
        assert read_vectors[b, 0].tolist() == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ShapeError, match=r"distances of group shear: expected shape \[2, 5\]"):
        ub.LieAccessMemory(2, Flat()).unroll(instructions, state, "reference")


def test_a_weighting_that_is_a_function():
    memory = ub.LieAccessMemory(2, weighting=nearest)
    assert repr(memory).count("weighting='nearest'") == 1
    assert memory.Instruction is ub.memories.LieAccessInstruction
    with pytest.raises(ub.errors.BackendError, match="no kernel supports the weighting nearest"):
        memory.unroll(random_instructions(memory, 1, 2), backend="cpu")
    warm = ub.LieAccessMemory(2, weighting=f"{__name__}.nearest", temperature=True)
    assert "temperature" in warm.Instruction._fields
    instructions, state = random_instructions(warm, 2, 3), random_state(warm, 2, 5, 0)
    instructions = instructions._replace(temperature=torch.zeros_like(instructions.strength))
    cold = memory.Instruction(*instructions[:-1])
    read_vectors = warm.unroll(instructions, state, "reference")[0]
    assert torch.equal(read_vectors, memory.unroll(cold, state, "reference")[0])
    lines = ub.LieAccessMemory(2, weighting=lambda distances, *_: distances.sum(-1))
    with pytest.raises(ShapeError, match=r"weights of weighting <lambda>: expected shape \[2, 5\]"):
        lines.unroll(cold, state, "reference")


def test_the_function_of_a_name_is_a_weighting():
    """A name may come from a file by someone else; no other function is called."""
    found = "expected a function of .distances, strengths, temperature. in"
    for name in ("os.system", f"{__name__}.Shear", f"{__name__}.nearst"):
        with pytest.raises(ConfigError, match=found):
            ub.LieAccessMemory(2, weighting=name)
    with pytest.raises(ConfigError, match="Did you mean 'nearest'"):
        ub.LieAccessMemory(2, weighting=f"{__name__}.nearst")
    with pytest.raises(ConfigError, match="give --import nowhere, or import it first"):
        ub.LieAccessMemory(2, weighting="nowhere.nearest")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("activation", ["identity", "sigmoid", "softplus"])
def test_other_activations_of_values(backend, activation):
    torch.manual_seed(0)
    memory = ub.LieAccessMemory(3, initial="learned", value_activation=activation)
    layer = ub.MemoryRNN(2, 4, memory, backend=backend).double()
    x = torch.randn(5, 2, 2, dtype=DOUBLE)
    _, state, trace = layer(x, return_trace=True)
    values = trace.arrays["instruction.value"]
    assert torch.equal(state.memory.values[:, 1:], values)
    if activation != "identity":
        assert bool((state.memory.values >= 0).all())
    begun = dict(layer.layers[0].initial_memory.named_parameters())
    expected = ub.memories.core.ACTIVATIONS[activation](begun["values"])
    assert torch.equal(state.memory.values[0, :1], expected)


def test_a_group_with_inconsistent_sizes():
    class Wrong(Shear):
        origin = (0.0,)

    with pytest.raises(ShapeError, match="group shear: expected 2 numbers in origin, its key_size"):
        ub.LieAccessMemory(3, Wrong())


def test_initial_state():
    state = ub.LieAccessMemory(3).initial_state(2)
    assert [tuple(field.shape) for field in state] == [
        (2, 0, 2), (2, 0, 3), (2, 0), (2, 2), (2, 2), (2, 2), (2, 2)
    ]  # fmt: skip
    assert all((field == 0).all() for field in state)
    turning = ub.LieAccessMemory(3, "rotation").initial_state(1)
    assert turning.read_action.tolist() == turning.write_action.tolist() == [[1.0, 0.0]]
    sphere = ub.LieAccessMemory(3, "sphere").initial_state(1)
    assert sphere.write_action.tolist() == [[1.0, 0.0, 0.0, 1.0, 0.0]]
    assert sphere.read_key.tolist() == [[1.0, 0.0, 0.0]]


def test_learned_initial_state_has_a_row_heads_and_a_read_vector():
    memory = ub.LieAccessMemory(4, initial="learned")
    layer = ub.MemoryRNN(3, 5, memory)
    begun = dict(layer.layers[0].initial_memory.named_parameters())
    assert {name: tuple(p.shape) for name, p in begun.items()} == {
        "keys": (1, 2), "values": (1, 4), "strengths": (1,), "read_key": (2,), "read_action": (2,),
        "write_key": (2,), "write_action": (2,), "read_vector": (4,),
    }  # fmt: skip
    state = layer.initial_state(2)
    assert torch.equal(state.memory.values[1], begun["values"].tanh())
    assert torch.equal(state.memory.strengths[0], (begun["strengths"] - 10).sigmoid())
    assert torch.equal(state.read_vector[0], begun["read_vector"].tanh())
    sphere = ub.LieAccessMemory(4, "sphere", initial="learned").initial_state(1)
    assert float(sphere.keys.norm()) == pytest.approx(1, abs=1e-6)
    output, _ = layer(torch.randn(4, 2, 3))
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_variants_choose_steps_and_gates_and_each_can_be_chosen():
    first, second = ub.LieAccessMemory(3), ub.LieAccessMemory(3, variant=2017)
    assert [head.name for head in first.heads] == list(ub.memories.LieAccessInstruction._fields)
    assert (first.step_length, second.step_length) == ("normalised", "bounded")
    missing = {"read_action_gate", "write_action_gate"}
    assert {head.name for head in first.heads} - {head.name for head in second.heads} == missing
    assert ub.LieAccessMemory(3, step="free", variant="2017").step_length == "free"
    gated = ub.LieAccessMemory(3, variant="2017", action_gate=True, key_gate=False)
    assert gated.Instruction._fields[1:3] == ("read_action", "read_action_gate")
    biases = {head.name: head.bias for head in first.heads}
    assert biases["write_key_gate"] == biases["write_action_gate"] == -10
    assert biases["read_key_gate"] is biases["read_action_gate"] is biases["strength"] is None
    walking = ub.LieAccessMemory(3, write_gate_bias=None, read_key_gate_bias=-3, strength_bias=2)
    biases = {head.name: head.bias for head in walking.heads if head.bias is not None}
    assert biases == {"read_key_gate": -3, "strength": 2}
    hard = {
        h.name for h in ub.LieAccessMemory(3, gates="hard_sigmoid").heads if "hard" in h.activation
    }
    assert hard == {f"{who}_{what}_gate" for who in ("read", "write") for what in ("key", "action")}
    drawn = {head.bias for head in ub.LieAccessMemory(3, write_gate_bias=None).heads}
    assert drawn == {None}


INVALID = {
    ShapeError: [
        ({"width": 0}, "width: expected an integer >= 1, got 0"),
        ({"key_size": -1}, "key_size: expected an integer >= 1, got -1"),
        ({"capacity": 0}, "capacity: expected an integer >= 1, got 0"),
        ({"capacity": 3, "drop": -2}, "drop: expected an integer >= 1, got -2"),
        ({"read_heads": 0}, "read_heads: expected an integer >= 1, got 0"),
        ({"write_heads": "2"}, "write_heads: expected an integer >= 1, got '2'"),
        ({"group": "rotation", "key_size": 1}, "key_size: expected an integer >= 2"),
        ({"group": "scaling_rotation", "key_size": 1}, "key_size: expected an integer >="),
        ({"group": "poincare_disk", "key_size": 3}, "2.*poincare_disk.*3. Leave it out"),
        ({"group": "sphere", "key_size": 2}, "key_size: expected 3.*sphere.*got 2"),
        ({"width": np.int64(4)}, r"got np.int64\(4\). Convert it with int\(\)"),
    ],
    ConfigError: [
        ({"capacity": 3, "drop": 4}, "drop: expected at most the capacity 3.* got 4"),
        ({"write_heads": 2, "capacity": 5}, "a multiple of the 2 write heads, .* got 5"),
        ({"drop": 4}, "drop: 4 has no effect without a capacity"),
        ({"group": SpecialOrthogonal}, r"Create one: SpecialOrthogonal\(\)"),
        ({"weighting": lambda d: d}, r"of \(distances, strengths, temperature\)"),
        ({"temperature": True}, "temperature: inverse_square takes no temperature"),
        ({"weighting": "softmax", "temperature": False}, "needs a temperature, got False"),
        ({"strength_bias": "x"}, "strength_bias: expected a finite number"),
        ({"read_key_gate_bias": "x"}, "read_key_gate_bias: expected a finite number"),
        ({"write_gate_bias": "x"}, "write_gate_bias: expected a finite number, got"),
    ],
    ChoiceError: [
        ({"group": "translations"}, "unknown group 'translations'. Did you mean"),
        ({"group": 3}, "unknown group 3"),
        ({"weighting": "softmx"}, "weighting 'softmx'. Did you mean 'softmax'"),
        ({"step": "normal"}, "unknown step 'normal'. Did you mean 'normalised'"),
        ({"variant": "2018"}, "unknown variant '2018'"),
        ({"initial": "learnt"}, "unknown initial 'learnt'. Did you mean 'learned'"),
        ({"gates": "hard"}, "unknown gates 'hard'. Did you mean 'hard_sigmoid'"),
        ({"weighting": 3}, "unknown weighting 3"),
        ({"value_activation": "softmax"}, "unknown value_activation 'softmax'. Valid"),
    ],
    DTypeError: [
        ({"temperature": 1}, "temperature: expected"),
    ],
}


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [(error, *row) for error, rows in INVALID.items() for row in rows],
)
def test_invalid_options(error, options, message):
    with pytest.raises(error, match=message):
        ub.LieAccessMemory(**options)


def test_states_that_do_not_fit():
    memory = ub.LieAccessMemory(3, capacity=4)
    instructions, state = random_instructions(memory, 2, 3), random_state(memory, 2, 4, 0)
    with pytest.raises(
        ShapeError, match=r"state.keys: expected shape \[2, N, 2\], got \[2, 4, 3\]"
    ):
        memory.unroll(instructions, state._replace(keys=torch.zeros(2, 4, 3, dtype=DOUBLE)))
    with pytest.raises(ShapeError, match="expected at most 4 rows N, the capacity of Lie"):
        memory.unroll(instructions, random_state(ub.LieAccessMemory(3), 2, 5, 0))
    with pytest.raises(ShapeError, match="keys has 4, values has 4, strengths has 3"):
        memory.unroll(instructions, state._replace(strengths=state.strengths[:, :3]))


def test_repr_shows_the_options():
    assert repr(ub.LieAccessMemory()) == (
        "LieAccessMemory(width=20, group='translation', weighting='inverse_square', "
        "step='normalised', key_size=2, key_gate=True, action_gate=True, initial='constant')"
    )
    capped = ub.LieAccessMemory(5, "sphere", "softmax", capacity=100, drop=60)
    assert repr(capped).endswith("initial='constant', capacity=100, drop=60)")
