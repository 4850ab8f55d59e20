"""The tape against the plain-Python oracle, a Python list, and what always holds of it."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories import tape_oracle
from tests.memories.toy import told
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ShapeError
from unbounded.memories.addressing import cosine_similarity, sharpened, shifted
from unbounded.memories.head import ACTIVATIONS
from unbounded.memories.tape_variants import VARIANTS

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
    reach = data.draw(st.integers(0, (slots - 1) // 2))
    memory = ub.TuringTape(
        slots, width, *heads, shift, shift_range=reach, variant=variant, reads=reads
    )
    state = memory.initial_state(2, DOUBLE) if from_beginning else random_state(memory, 2, seed)
    orders = told(memory, 2, steps, seed)
    readings, final = memory.unroll(orders, state, "reference")
    assert readings.shape == (2, steps, heads[0] * width)
    for b in range(2):
        tape = [field[b].tolist() for field in state]
        for t in range(steps):
            order = plain(memory.Instruction(*(field[:, t] for field in orders)), b)
            floor = 1e-6 if variant == "deleu2016" else 1e-15
            want, *tape = tape_oracle.step(
                *tape, order, shift == "circular", floor, reads == "before"
            )
            assert_close(readings[b, t], torch.tensor(want, dtype=DOUBLE), "reading")
        for field, want in zip(final, tape, strict=True):
            assert_close(field[b], torch.tensor(want, dtype=DOUBLE), "state")


@pytest.mark.parametrize("shift", SHIFTS)
@given(orders=st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_hard_orders_make_it_a_turing_machine(shift, orders):
    """Heads that move by one place or two and write over what is there: a list and two places."""
    slots = 6
    memory = ub.TuringTape(slots, 2, shift=shift, shift_range=2)
    state = memory.initial_state(1, DOUBLE)
    cells, place = [[1e-6, 1e-6] for _ in range(slots)], 0
    for number, (move, writes) in enumerate(orders):
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
        order = memory.Instruction(
            *head.values(),
            *head.values(),
            erase=torch.full((1, 1, 2), float(writes), dtype=DOUBLE),
            add=torch.tensor([[value]], dtype=DOUBLE) * writes,
        )
        reading, state = memory.step(state, order)
        # The floor of 1e-15 leaves that much of each weight everywhere.
        assert (reading[0] - torch.tensor(cells[place], dtype=DOUBLE)).abs().max() <= 1e-11
        assert (state.cells[0] - torch.tensor(cells, dtype=DOUBLE)).abs().max() <= 1e-11
        assert state.read_weights[0, 0].argmax() == state.write_weights[0, 0].argmax() == place


@every_kind
def test_gradcheck(shift, variant):
    # What is told comes from activations that are nowhere constant, so that nothing is 0.
    memory = ub.TuringTape(4, 2, 1, 2, shift, variant=variant)
    orders, state = told(ub.TuringTape(4, 2, 1, 2), 1, 2, 1), random_state(memory, 1, 2)

    def run(*tensors):
        order, start = memory.Instruction(*tensors[:12]), memory.State(*tensors[12:])
        readings, final = memory.unroll(order, start, "reference")
        return readings, *final

    tensors = [tensor.clone().requires_grad_() for tensor in (*orders, *state)]
    assert torch.autograd.gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors, fast_mode=True)


@every_kind
def test_gradients_at_the_beginning_are_finite_in_float32(shift, variant):
    """Weights of 0, cells alike, a key of zeros: where quotients and logarithms would fail."""
    memory = ub.TuringTape(8, 3, shift=shift, variant=variant)
    layer = ub.MemoryRNN(2, 5, memory, backend="reference")
    torch.nn.init.zeros_(layer.heads.weight)
    torch.nn.init.zeros_(layer.heads.bias)
    output, _ = layer(torch.randn(20, 3, 2))
    output.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


def drift(memory, calls, steps, scale, backend, seed=0):
    """How far the sums of the head weights are from 1 at the most, looked at after each call."""
    generator, worst = torch.Generator().manual_seed(seed), 0.0
    state = memory.initial_state(1)
    for _ in range(calls):
        orders = memory.Instruction(
            *(
                ACTIVATIONS[head.activation](
                    scale * torch.randn(1, steps, *head.shape, generator=generator)
                )
                for head in memory.heads
            )
        )
        readings, state = memory.unroll(orders, state, backend)
        assert readings.isfinite().all()
        assert state.cells.isfinite().all()
        sums = torch.cat([state.read_weights, state.write_weights], dim=1).sum(-1)
        worst = max(worst, float((sums - 1).abs().max()))
    return worst


@every_kind
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_random_steps_in_float32_are_finite_and_the_weights_sum_to_1(shift, variant, scale):
    memory = ub.TuringTape(16, 4, 2, 2, shift, shift_range=2, variant=variant)
    assert drift(memory, 1000, 1, scale, "reference") <= 1e-5


@pytest.mark.slow
@every_kind
def test_a_million_random_steps_in_float32(shift, variant):
    """In the kernels, where there are any; in the reference a tenth of them take longer."""
    memory = ub.TuringTape(128, 20, shift=shift, variant=variant)
    assert drift(memory, 10_000, 100, 3.0, "auto") <= 1e-4


@pytest.mark.slow
@every_kind
def test_a_hundred_thousand_random_steps_of_the_reference(shift, variant):
    memory = ub.TuringTape(128, 20, shift=shift, variant=variant)
    assert drift(memory, 1000, 100, 3.0, "reference") <= 1e-4


def test_what_a_shift_loses_over_an_end_is_made_up_for_and_all_lost_is_uniform():
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


def test_a_sharpening_that_no_power_could_hold():
    weights = torch.full((1, 1, 128), 1 / 128)
    weights[0, 0, 5] *= 2
    for gamma in (1e2, 1e4, 1e8):
        sharp = sharpened(weights, torch.full((1, 1), gamma), 1e-15)
        assert_close(sharp[0, 0], one_hot(5, 128).float(), "weights")


def test_a_key_or_cell_of_zeros_is_like_nothing():
    keys, cells = torch.zeros(1, 1, 3), torch.zeros(1, 2, 3)
    assert cosine_similarity(keys, cells).tolist() == [[[0, 0]]]
    keys.requires_grad_(), cells.requires_grad_()
    cosine_similarity(keys, cells).sum().backward()
    assert keys.grad.isfinite().all()
    assert cells.grad.isfinite().all()


def test_the_order_of_write_heads_does_not_matter():
    memory = ub.TuringTape(6, 3, 1, 3)
    state, orders = random_state(memory, 2, 1), told(memory, 2, 1, 2)
    orders = memory.Instruction(*(field[:, 0] for field in orders))
    turned = memory.Instruction(
        *(
            field[:, [2, 0, 1]] if name.startswith(("write", "erase", "add")) else field
            for name, field in zip(orders._fields, orders, strict=True)
        )
    )
    start = state._replace(write_weights=state.write_weights[:, [2, 0, 1]])
    (reading, new), (same, other) = memory.step(state, orders), memory.step(start, turned)
    assert_close(same, reading, "reading")
    assert_close(other.cells, new.cells, "cells")
    assert_close(other.write_weights, new.write_weights[:, [2, 0, 1]], "weights")


def test_reading_before_writing_reads_what_was_there():
    orders = told(ub.TuringTape(5, 2), 2, 1)
    orders = type(orders)(*(field[:, 0] for field in orders))
    readings = {}
    for reads in ("after", "before"):
        memory = ub.TuringTape(5, 2, reads=reads)
        state = random_state(memory, 2, 3)
        readings[reads], new = memory.step(state, orders)
        cells = state.cells if reads == "before" else new.cells
        assert_close(readings[reads], (new.read_weights @ cells)[:, 0], reads)
    assert not torch.equal(readings["after"], readings["before"])


def test_how_it_begins():
    state = ub.TuringTape(4, 2, 2).initial_state(3)
    assert (state.cells == 1e-6).all()
    assert state.read_weights.tolist() == [[[1.0, 0, 0, 0]] * 2] * 3
    assert ub.TuringTape(4, 2, 2).initial_reading(1).tolist() == [[pytest.approx(1e-6)] * 4]
    uniform = ub.TuringTape(4, 2, initial_weights="uniform").initial_state(1)
    assert uniform.write_weights.tolist() == [[[0.25] * 4]]
    random = ub.TuringTape(4, 2, initial_cells="random")
    cells = random.initial_state(2).cells
    assert (cells.abs() < 1).all()
    assert not torch.equal(cells[0], cells[1])
    assert random.initial_reading(1).tolist() == [[0.0] * 2]
    learned = ub.TuringTape(4, 2, initial_cells="learned", initial_weights="learned")
    layer = ub.MemoryRNN(3, 5, learned)
    begun = dict(layer.initial_memory.named_parameters())
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
def test_sizes_that_are_none(name, value):
    with pytest.raises(ShapeError, match=f"{name}: expected an integer >= 1, got {value}"):
        ub.TuringTape(**{"shift_range": 0, name: value})


@pytest.mark.parametrize("value", [2, -1, 1.0, True])
def test_a_shift_wider_than_the_tape(value):
    message = f"shift_range: expected an integer from 0 to 1, .* 4 slots, got {value}. Give"
    with pytest.raises(ShapeError, match=message):
        ub.TuringTape(4, 2, shift_range=value)
    with pytest.raises(ShapeError, match=r"from 0 to 0, .* 1 slots, got 1"):
        ub.TuringTape(1, 2)


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
def test_choices_that_are_none(options, message):
    with pytest.raises(ChoiceError, match=message):
        ub.TuringTape(4, 2, **options)


def test_instructions_and_states_that_do_not_fit():
    memory = ub.TuringTape(4, 2)
    orders, state = told(memory, 2, 3), memory.initial_state(2, DOUBLE)
    with pytest.raises(ShapeError, match=r"read_shift: expected shape \[2, 3, 1, 3\], got"):
        memory.unroll(orders._replace(read_shift=torch.zeros(2, 3, 1, 5, dtype=DOUBLE)))
    with pytest.raises(ShapeError, match=r"state.cells: expected shape \[2, 4, 2\], got"):
        memory.unroll(orders, state._replace(cells=torch.zeros(2, 5, 2, dtype=DOUBLE)))
    with pytest.raises(ShapeError, match=r"state: expected a TapeState of TuringTape, got tuple"):
        memory.unroll(orders, tuple(state))


def test_repr_says_what_was_chosen():
    assert repr(ub.TuringTape()) == (
        "TuringTape(slots=128, width=20, read_heads=1, write_heads=1, shift='circular', "
        "shift_range=1, variant='graves2014', reads='after')"
    )


def test_a_rectified_controller_that_reads_what_it_wrote_stays_finite():
    """Cells grew by a factor a step; in float32 the cosine was NaN from |k| |M(i)| = 1.8e19 on."""
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
