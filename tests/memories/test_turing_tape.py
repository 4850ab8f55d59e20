"""The tape against the plain-Python oracle and a Python list, and its invariants."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import tape_oracle
from tests.memories.toy import check_gradients, random_instructions
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ShapeError
from unbounded.memories.core import ACTIVATIONS
from unbounded.memories.turing_tape.addressing import cosine_similarity, sharpened, shifted
from unbounded.memories.turing_tape.reference import VARIANTS

DOUBLE = torch.float64
SHIFTS = ("circular", "zero")
every_kind = pytest.mark.parametrize(
    ("shift", "variant"), list(itertools.product(SHIFTS, VARIANTS))
)


def plain(tensors, b):
    return {name: field[b].tolist() for name, field in zip(tensors._fields, tensors, strict=True)}


def random_state(memory, batch, seed):
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(batch, *shape, generator=generator, dtype=DOUBLE)

    cells, *weights = (drawn(*field.shape) for field in memory.state_fields)
    return memory.State(cells, *(weight.softmax(-1) for weight in weights))


def one_hot(place, count):
    return torch.nn.functional.one_hot(torch.tensor(place), count).to(DOUBLE)


@every_kind
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 5),
    slots=st.integers(1, 7),
    width=st.integers(1, 3),
    heads=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    reads=st.sampled_from(["after", "before"]),
    from_beginning=st.booleans(),
    data=st.data(),
)
@settings(max_examples=30, deadline=None)
def test_agrees_with_the_oracle(
    shift, variant, seed, steps, slots, width, heads, reads, from_beginning, data
):
    reach = data.draw(st.integers(0, slots))
    memory = ub.TuringTape(
        slots, width, *heads, shift, shift_range=reach, variant=variant, reads=reads
    )
    state = memory.initial_state(2, DOUBLE) if from_beginning else random_state(memory, 2, seed)
    instructions = random_instructions(memory, 2, steps, seed)
    read_vectors, final = memory.unroll(instructions, state, "reference")
    assert read_vectors.shape == (2, steps, heads[0] * width)
    for b in range(2):
        tape = [field[b].tolist() for field in state]
        for t in range(steps):
            instruction = plain(memory.Instruction(*(field[:, t] for field in instructions)), b)
            floor = 1e-6 if variant == "deleu2016" else 1e-15
            expected, *tape = tape_oracle.step(
                *tape, instruction, shift == "circular", floor, reads == "before"
            )
            assert_close(read_vectors[b, t], torch.tensor(expected, dtype=DOUBLE), "read_vector")
        for field, expected in zip(final, tape, strict=True):
            assert_close(field[b], torch.tensor(expected, dtype=DOUBLE), "state")


@pytest.mark.parametrize("shift", SHIFTS)
@given(instructions=st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_hardened_gates_make_it_a_turing_machine(shift, instructions):
    """Heads that move by up to two locations and overwrite: a list with two positions."""
    slots = 6
    memory = ub.TuringTape(slots, 2, shift=shift, shift_range=2)
    state = memory.initial_state(1, DOUBLE)
    cells, place = [[1e-6, 1e-6] for _ in range(slots)], 0
    for number, (move, writes) in enumerate(instructions):
        if shift == "zero" and not 0 <= place + move < slots:
            move = 0
        place = (place + move) % slots
        value = [number + 1.0, -number - 1.0]
        if writes:
            cells[place] = value
        head = {
            "key": torch.zeros(1, 1, 2, dtype=DOUBLE),
            "strength": torch.zeros(1, 1, dtype=DOUBLE),
            "gate": torch.zeros(1, 1, dtype=DOUBLE),
            "shift": one_hot(move + 2, 5).view(1, 1, 5),
            "sharpening": torch.ones(1, 1, dtype=DOUBLE),
        }
        instruction = memory.Instruction(
            *head.values(),
            *head.values(),
            erase=torch.full((1, 1, 2), float(writes), dtype=DOUBLE),
            add=torch.tensor([[value]], dtype=DOUBLE) * writes,
        )
        read_vector, state = memory.step(state, instruction)
        # The floor of 1e-15 leaves this much weight at every location.
        assert (read_vector[0] - torch.tensor(cells[place], dtype=DOUBLE)).abs().max() <= 1e-11
        assert (state.cells[0] - torch.tensor(cells, dtype=DOUBLE)).abs().max() <= 1e-11
        assert state.read_weights[0, 0].argmax() == state.write_weights[0, 0].argmax() == place


@pytest.mark.parametrize(
    ("shift", "variant", "slots"),
    sweep(
        SHIFTS,
        VARIANTS,
        [4, 2, 1],
        fast=lambda shift, variant, slots: (
            slots == 2 and (shift == "zero") == (variant == "graves2014")
        ),
    ),
)
def test_gradcheck(shift, variant, slots):
    # Instructions come from activations that are nowhere constant, so that no gradient is 0.
    memory = ub.TuringTape(slots, 2, 1, 2, shift, variant=variant)
    instructions = random_instructions(ub.TuringTape(slots, 2, 1, 2), 1, 2, 1)
    check_gradients(memory, instructions, random_state(memory, 1, 2), twice={"fast_mode": True})


@every_kind
def test_initial_gradients_are_finite_in_float32(shift, variant):
    """Weights of 0, equal cells and a key of zeros are hard for quotients and logarithms."""
    memory = ub.TuringTape(8, 3, shift=shift, variant=variant)
    layer = ub.MemoryRNN(2, 5, memory, backend="reference")
    torch.nn.init.zeros_(layer.layers[0].heads.weight)
    torch.nn.init.zeros_(layer.layers[0].heads.bias)
    output, _ = layer(torch.randn(20, 3, 2))
    output.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


def drift(memory, calls, steps, scale, backend, seed=0):
    """Largest deviation from 1 of a head weight sum, checked after each call."""
    generator, worst = torch.Generator().manual_seed(seed), 0.0
    state = memory.initial_state(1)
    for _ in range(calls):
        instructions = memory.Instruction(
            *(
                ACTIVATIONS[head.activation](
                    scale * torch.randn(1, steps, *head.shape, generator=generator)
                )
                for head in memory.heads
            )
        )
        read_vectors, state = memory.unroll(instructions, state, backend)
        assert read_vectors.isfinite().all()
        assert state.cells.isfinite().all()
        sums = torch.cat([state.read_weights, state.write_weights], dim=1).sum(-1)
        worst = max(worst, float((sums - 1).abs().max()))
    return worst


@pytest.mark.parametrize(
    ("shift", "variant", "scale"),
    sweep(
        SHIFTS,
        VARIANTS,
        [1.0, 30.0],
        fast=lambda shift, variant, scale: (
            scale == 30.0 and (shift == "zero") == (variant == "deleu2016")
        ),
    ),
)
def test_random_steps_in_float32_are_finite_and_the_weights_sum_to_1(shift, variant, scale):
    memory = ub.TuringTape(16, 4, 2, 2, shift, shift_range=2, variant=variant)
    assert drift(memory, 1000, 1, scale, "reference") <= 1e-5


@pytest.mark.slow
@every_kind
def test_a_million_random_steps_in_float32(shift, variant):
    """With the kernels if available; a tenth of the steps takes longer in the reference."""
    memory = ub.TuringTape(128, 20, shift=shift, variant=variant)
    assert drift(memory, 10_000, 100, 3.0, "auto") <= 1e-4


@pytest.mark.slow
@every_kind
def test_a_hundred_thousand_random_steps_of_the_reference(shift, variant):
    memory = ub.TuringTape(128, 20, shift=shift, variant=variant)
    assert drift(memory, 1000, 100, 3.0, "reference") <= 1e-4


def test_weights_lost_at_an_end_are_renormalised():
    last = one_hot(3, 4).view(1, 1, 4)
    forward = torch.tensor([[[0.0, 0.0, 1.0]]], dtype=DOUBLE)
    half = torch.tensor([[[0.0, 0.5, 0.5]]], dtype=DOUBLE)
    gamma = torch.full((1, 1), 2.0, dtype=DOUBLE)
    assert shifted(last, forward, circular=True)[0, 0].tolist() == [1, 0, 0, 0]
    assert shifted(last, forward, circular=False)[0, 0].tolist() == [0, 0, 0, 0]
    assert shifted(last, half, circular=False)[0, 0].tolist() == [0, 0, 0, 0.5]
    for variant in VARIANTS.values():
        rest = sharpened(shifted(last, half, circular=False), gamma, variant.floor)
        assert (rest - last).abs().max() <= 5 * variant.floor
        none = sharpened(shifted(last, forward, circular=False), gamma, variant.floor)
        assert none[0, 0].tolist() == [0.25] * 4


def test_a_sharpening_beyond_the_range_of_powers():
    weights = torch.full((1, 1, 128), 1 / 128)
    weights[0, 0, 5] *= 2
    for gamma in (1e2, 1e4, 1e8):
        sharp = sharpened(weights, torch.full((1, 1), gamma), 1e-15)
        assert_close(sharp[0, 0], one_hot(5, 128).float(), "weights")


def test_a_key_or_cell_of_zeros_has_similarity_0():
    keys, cells = torch.zeros(1, 1, 3), torch.zeros(1, 2, 3)
    assert cosine_similarity(keys, cells).tolist() == [[[0, 0]]]
    keys.requires_grad_(), cells.requires_grad_()
    cosine_similarity(keys, cells).sum().backward()
    assert keys.grad.isfinite().all()
    assert cells.grad.isfinite().all()


def test_initial_state():
    state = ub.TuringTape(4, 2, 2).initial_state(3)
    assert (state.cells == 1e-6).all()
    assert state.read_weights.tolist() == [[[1.0, 0, 0, 0]] * 2] * 3
    assert ub.TuringTape(4, 2, 2).initial_read_vector(1).tolist() == [[pytest.approx(1e-6)] * 4]
    uniform = ub.TuringTape(4, 2, initial_weights="uniform").initial_state(1)
    assert uniform.write_weights.tolist() == [[[0.25] * 4]]
    random = ub.TuringTape(4, 2, initial_cells="random")
    cells = random.initial_state(2).cells
    assert (cells.abs() < 1).all()
    assert not torch.equal(cells[0], cells[1])
    assert random.initial_read_vector(1).tolist() == [[0.0] * 2]
    learned = ub.TuringTape(4, 2, initial_cells="learned", initial_weights="learned")
    layer = ub.MemoryRNN(3, 5, learned)
    begun = dict(layer.layers[0].initial_memory.named_parameters())
    assert {name: tuple(p.shape) for name, p in begun.items()} == {
        "cells": (4, 2),
        "read_weights": (1, 4),
        "write_weights": (1, 4),
    }
    state = layer.initial_state(2).memory
    assert torch.equal(state.cells[1], begun["cells"].tanh())
    assert torch.equal(state.read_weights[0], begun["read_weights"].softmax(-1))


def test_variants_name_the_activations_and_each_can_be_chosen():
    def chosen(**options):
        return {head.name: head.activation for head in ub.TuringTape(4, 2, **options).heads}

    graves, deleu = chosen(), chosen(variant="deleu2016")
    assert list(graves) == list(ub.memories.TapeInstruction._fields)
    assert graves["read_key"] == graves["add"] == "tanh"
    assert deleu["read_key"] == deleu["write_strength"] == deleu["add"] == "relu"
    assert deleu["read_gate"] == deleu["erase"] == "hard_sigmoid"
    assert deleu["read_sharpening"] == "one_plus_relu"
    changed = chosen(activations={"key": "identity"})
    assert changed == {**graves, "read_key": "identity", "write_key": "identity"}
    assert {head.bias for head in ub.TuringTape(4, 2, variant="deleu2016").heads} == {0.0}


@pytest.mark.parametrize(
    ("name", "x", "value", "slope"),
    [
        ("hard_sigmoid", [-3.0, -2.5, 0.0, 1.0, 2.5, 3.0], [0, 0, 0.5, 0.7, 1, 1],
         [0, 0, 0.2, 0.2, 0, 0]),
        ("one_plus_relu", [-2.0, 0.0, 3.0], [1, 1, 4], [0, 0, 1]),
        ("one_plus_softplus", [0.0, 30.0], [1.6931471805599453, 31.0], [0.5, 1.0]),
    ],
)  # fmt: skip
def test_activations_of_heads(name, x, value, slope):
    given_x = torch.tensor(x, dtype=DOUBLE, requires_grad=True)
    got = ACTIVATIONS[name](given_x)
    got.sum().backward()
    assert_close(got.detach(), torch.tensor(value, dtype=DOUBLE), name)
    assert_close(given_x.grad, torch.tensor(slope, dtype=DOUBLE), name)


@pytest.mark.parametrize("name", ["slots", "width", "read_heads", "write_heads"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_invalid_sizes(name, value):
    with pytest.raises(ShapeError, match=f"{name}: expected an integer >= 1, got {value}"):
        ub.TuringTape(**{"shift_range": 0, name: value})


@pytest.mark.parametrize("value", [5, -1, 1.0, True])
def test_a_shift_wider_than_the_tape(value):
    message = f"shift_range: expected an integer from 0 to 4, the number of slots, got {value}. Gi"
    with pytest.raises(ShapeError, match=message):
        ub.TuringTape(4, 2, shift_range=value)
    with pytest.raises(ShapeError, match=r"from 0 to 1, the number of slots, got 2"):
        ub.TuringTape(1, 2, shift_range=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shift": "zeros"}, "unknown shift 'zeros'. Did you mean 'zero'"),
        ({"variant": "deleu"}, "unknown variant 'deleu'. Did you mean 'deleu2016'"),
        ({"reads": "befor"}, "unknown reads 'befor'. Did you mean 'before'"),
        ({"initial_cells": "zero"}, "unknown initial_cells 'zero'"),
        ({"initial_weights": "uniforn"}, "unknown initial_weights 'uniforn'. Did you mean 'unif"),
        ({"activations": {"keys": "tanh"}}, "unknown part of activations 'keys'. Did you mean"),
        ({"activations": {"key": "tan"}}, "unknown activation of key 'tan'. Did you mean 'tanh'"),
    ],
)
def test_invalid_choices(options, message):
    with pytest.raises(ChoiceError, match=message):
        ub.TuringTape(4, 2, **options)


def test_instructions_and_states_that_do_not_fit():
    memory = ub.TuringTape(4, 2)
    instructions, state = random_instructions(memory, 2, 3), memory.initial_state(2, DOUBLE)
    with pytest.raises(ShapeError, match=r"read_shift: expected shape \[2, 3, 1, 3\], got"):
        memory.unroll(instructions._replace(read_shift=torch.zeros(2, 3, 1, 5, dtype=DOUBLE)))
    with pytest.raises(ShapeError, match=r"state.cells: expected shape \[2, 4, 2\], got"):
        memory.unroll(instructions, state._replace(cells=torch.zeros(2, 5, 2, dtype=DOUBLE)))
    with pytest.raises(ShapeError, match=r"state: expected a TapeState of TuringTape, got tuple"):
        memory.unroll(instructions, tuple(state))


def test_repr_shows_the_options():
    assert repr(ub.TuringTape()) == (
        "TuringTape(slots=128, width=20, read_heads=1, write_heads=1, shift='circular', "
        "shift_range=1, variant='graves2014', reads='after')"
    )


def test_a_rectified_controller_with_feedback_stays_finite():
    """Cells grew by a factor per step; the float32 cosine was NaN from |k| |M(i)| = 1.8e19 on."""
    torch.manual_seed(0)
    memory = ub.TuringTape(8, 4, shift="zero", variant="deleu2016", writes_first=True)
    controller = functools.partial(ub.ElmanController, activation="relu", recurrent=False)
    for backend in ("reference", "auto"):
        layer = ub.MemoryRNN(2, 8, memory, controller=controller, backend=backend, batch_first=True)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(parameter.abs() * 3)
        inputs = torch.rand(3, 120, 2, requires_grad=True)
        outputs, state = layer(inputs)
        assert float(state.memory.cells.detach().max()) == 2.0**24
        assert outputs.isfinite().all()
        outputs.log1p().mean().backward()
        assert inputs.grad.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
