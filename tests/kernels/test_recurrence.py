"""The fused recurrence against the reference loop."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
import torch
from _cases import (
    GATES,
    STRUCTURES,
    VARIANTS,
    assert_equal_up_to_rounding,
    assert_parity,
    fused,
    make_case,
    reference,
    relative_error,
    results_and_gradients,
    truth_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sweep import diagonal

from unbounded.errors import MemoryOverflowError
from unbounded.memories import (
    LieAccessMemory,
    NeuralDeque,
    NeuralQueue,
    NeuralStack,
    RandomAccessMemory,
    SuperpositionList,
    SuperpositionStack,
    TuringTape,
)

ROWS = ("stack", "queue", "deque")
DTYPES = [torch.float32, torch.float64]
#: The results (outputs, ..., read vector, memory) that get a gradient.
CHOSEN = {"outputs": slice(1), "controller": slice(2), "everything": slice(None)}


@pytest.mark.parametrize(
    ("sharpened", "dtype", "lengths", "rows"),
    diagonal(
        [*((m, 1.0) for m in STRUCTURES), *((m, s) for m in ROWS for s in (30.0, 1000.0))],
        DTYPES,
        [None, [7, 0, 3, 1]],
        [0, 2],
        share=2,
    ),
)
def test_parity(sharpened, dtype, lengths, rows):
    memory, inverse_temperature = sharpened
    assert_parity(
        make_case(
            memory,
            batch=4,
            lengths=lengths,
            dtype=dtype,
            inverse_temperature=inverse_temperature,
            rows=rows,
        )
    )


ENDS = {
    "the longest first": [90, 90, 77, 60, 60, 31, 30, 29, 15, 2, 1, 0],
    "the shortest first": [0, 1, 2, 15, 29, 30, 31, 60, 60, 77, 90, 90],
    "none takes the last step": [88, 3, 40],
    "one step": [1, 1, 0],
    "no step": [0, 0],
}


@pytest.mark.parametrize(
    ("memory", "controller", "ends"),
    diagonal(["stack", "turing_tape", "register"], ["lstm", "gru"], ENDS, share=2),
)
def test_parity_with_lengths(memory, controller, ends):
    lengths = ENDS[ends]
    # The sums of the weights' gradients have more rows than one block.
    steps, batch = 90, len(lengths) * (2 if len(lengths) > 3 else 1)
    lengths = [n for n in lengths for _ in range(batch // len(lengths))]
    assert_parity(make_case(memory, controller, steps, batch, hidden=19, lengths=lengths))


@pytest.mark.parametrize("memory", ["queue", "lie_access"])
def test_the_order_of_a_batch_does_not_affect_bits(memory):
    lengths = [20, 3, 0, 17, 20, 1, 9]
    case = make_case(memory, steps=20, batch=7, hidden=21, lengths=lengths, dtype=torch.float32)
    order = torch.tensor(lengths).argsort(descending=True, stable=True)
    back = order.argsort()
    moved = case._replace(
        x=case.x[:, order].detach().requires_grad_(),
        lengths=case.lengths[order],
        initial=tuple(each[order].detach().requires_grad_() for each in case.initial),
    )
    factors = torch.randn(20, 7, 21)
    results = []
    for each, place in ((case, slice(None)), (moved, back)):
        outputs, final = fused(each)
        loss = (outputs * factors[:, order if each is moved else slice(None)]).sum()
        grads = torch.autograd.grad(loss, [each.x, each.weights.weight_hh, *each.initial])
        of_x, of_weight, *of_initial = grads
        rows = [*final[:-1], *of_initial]
        of_steps = [outputs, of_x, final[-1]]
        results.append((of_weight, [r[place] for r in rows] + [s[:, place] for s in of_steps]))
    (weight, plain), (moved_weight, sorted_again) = results
    assert all(map(torch.equal, plain, sorted_again))
    torch.testing.assert_close(moved_weight, weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("memory", "sizes"),
    diagonal(VARIANTS, product(["lstm", "elman_sigmoid"], [1, 10, 33]), share=6),
    ids=str,
)
def test_parity_of_variants_and_larger_sizes(memory, sizes):
    controller, batch = sizes
    lengths = None if batch == 1 else [(7 * b) % 21 for b in range(batch)]
    assert_parity(
        make_case(memory, controller, steps=20, batch=batch, inputs=9, hidden=70, lengths=lengths)
    )


@pytest.mark.parametrize(
    ("memory", "controller", "dtype", "lengths", "bias"),
    diagonal(
        STRUCTURES,
        ["gru", "elman_tanh", "elman_sigmoid", "elman_relu"],
        DTYPES,
        [None, [7, 0, 3, 1]],
        [True, False],
        share=4,
    ),
)
def test_parity_of_controllers(memory, controller, dtype, lengths, bias):
    assert_parity(
        make_case(memory, controller, batch=4, hidden=37, lengths=lengths, dtype=dtype, bias=bias)
    )


@pytest.mark.parametrize("memory", STRUCTURES)
def test_parity_without_recurrence(memory):
    assert_parity(make_case(memory, "elman_tanh", recurrent=False))


OVER_BLOCKS = (*STRUCTURES, *VARIANTS[3:])


@pytest.mark.parametrize(
    ("memory", "scored"),
    [
        *diagonal(OVER_BLOCKS, product(CHOSEN, [1, 8, 17]), share=9),
        *(
            pytest.param(memory, (chosen, 140), marks=pytest.mark.slow)
            for memory, chosen in product(OVER_BLOCKS, CHOSEN)
        ),
    ],
    ids=str,
)
def test_parity_over_blocks_of_steps(memory, scored):
    chosen, steps = scored
    lengths = [steps, steps * 2 // 3]
    case = make_case(memory, "elman_sigmoid", steps, 2, rows=5, lengths=lengths, bias=False)
    assert_parity(case, CHOSEN[chosen])


def some_memory(data):
    width = data.draw(st.integers(1, 40))
    depth, noop, room = (
        data.draw(s) for s in (st.integers(1, 6), st.booleans(), st.none() | st.integers(0, 8))
    )
    capacity = None if room is None else depth + room
    slots, reach = data.draw(st.integers(5, 40)), data.draw(st.integers(0, 2))
    heads, written = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))

    def policy(name):
        return "error" if room is None else name

    return data.draw(
        st.sampled_from(
            [
                NeuralStack(width),
                NeuralQueue(width),
                NeuralDeque(width),
                SuperpositionStack(width // 2 + 1, depth, noop, capacity, policy("drop_bottom")),
                SuperpositionList(width // 2 + 1, depth, noop, capacity, policy("drop_ends")),
                TuringTape(slots, width // 4 + 1, heads, written, shift_range=reach),
                TuringTape(
                    *(slots, width // 4 + 1, heads, written, "zero"),
                    shift_range=reach,
                    variant="deleu2016",
                    reads="before" if noop else "after",
                ),
                LieAccessMemory(
                    width,
                    data.draw(st.sampled_from(["translation", "rotation", "sphere"])),
                    data.draw(st.sampled_from(["inverse_square", "softmax"])),
                    # An action of length 1 has no gradient from a gate that lengthens it.
                    data.draw(st.sampled_from(["free", "bounded", "normalised_candidate"])),
                    key_gate=noop,
                    action_gate=depth > 3,
                    capacity=capacity,
                    drop=None if capacity is None else depth,
                ),
                LieAccessMemory(width, step="free", key_size=depth),
                LieAccessMemory(width, "scaling_rotation", "softmax", initial="learned"),
                RandomAccessMemory(width, 2 * depth + written, tape=noop, sharpening=heads > 1),
            ]
        )
    )


draws = given(
    controller=st.sampled_from(sorted(GATES)),
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(1, 17),
    inputs=st.integers(0, 5),
    hidden=st.integers(1, 40),
    rows=st.integers(0, 3),
    chosen=st.sampled_from(sorted(CHOSEN)),
    data=st.data(),
)


@settings(max_examples=20, deadline=None)
@draws
def test_parity_of_random_sizes(**drawn):
    assert_parity_of_draws(**drawn)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@draws
def test_parity_of_more_random_sizes(**drawn):
    assert_parity_of_draws(**drawn)


def assert_parity_of_draws(controller, dtype, batch, inputs, hidden, rows, chosen, data):
    steps = data.draw(st.integers(1, 12))
    lengths = data.draw(st.none() | st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
    memory = some_memory(data)
    if isinstance(memory, LieAccessMemory):
        dtype = torch.float64  # in 32 bits rounding selects the row where two keys nearly coincide
    case = make_case(memory, controller, steps, batch, inputs, hidden, rows, lengths, dtype)
    assert_parity(case, CHOSEN[chosen])


#: Cells are equal, so no weight has a gradient; found at random and kept.
EQUAL_CELLS = TuringTape(
    5, 1, shift="zero", shift_range=0, variant="deleu2016", reads="before"
)  # fmt: skip
OF_READ_WEIGHTS = 16


@pytest.mark.parametrize(
    ("dtype", "heads", "chosen"),
    diagonal(DTYPES, [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 3)], CHOSEN, share=3),
)
def test_parity_where_the_terms_of_a_gradient_cancel(dtype, heads, chosen):
    memory = TuringTape(5, 1, *heads, "zero", shift_range=0, variant="deleu2016", reads="before")
    for steps in range(1, 6):
        case = make_case(memory, "elman_relu", steps, 2, 0, 3, rows=0, dtype=dtype)
        assert_parity(case, CHOSEN[chosen])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gradient_that_should_be_zero_is_compared(dtype):
    """Two steps with the second scored: the read weights do not affect the read vector."""
    case = make_case(EQUAL_CELLS, "elman_relu", 2, 2, 0, 3, rows=0, dtype=dtype)
    again = partial(truth_of, case, chosen=CHOSEN["controller"])
    assert again(lambda tensor: tensor)[OF_READ_WEIGHTS].abs().max() < 1e-18
    got, expected = (
        results_and_gradients(run, case, CHOSEN["controller"]) for run in (fused, reference)
    )
    assert_equal_up_to_rounding(got, expected, again, case.tensors())
    for wrong in (100 * torch.finfo(dtype).eps, float("nan")):
        got[OF_READ_WEIGHTS] = torch.full_like(got[OF_READ_WEIGHTS], wrong)
        with pytest.raises(AssertionError):
            assert_equal_up_to_rounding(got, expected, again, case.tensors())


@pytest.mark.slow
def test_a_wrong_gradient_is_detected():
    case = make_case("turing_tape", dtype=torch.float32)
    again = partial(truth_of, case)
    expected = results_and_gradients(reference, case)
    for k in range(len(expected)):
        got = [1.01 * each if j == k else each for j, each in enumerate(expected)]
        with pytest.raises(AssertionError):
            assert_equal_up_to_rounding(got, expected, again, case.tensors())


def test_accuracy_is_at_least_the_references():
    # Geometric means over many small calls detect a single imprecise division.
    ratios = []
    for seed in range(60):
        case = make_case(ROWS[seed % 3], sorted(GATES)[seed % 5], seed=seed, dtype=torch.float32)
        got, expected = (results_and_gradients(run, case) for run in (fused, reference))
        for one, other, true in zip(got, expected, truth_of(case), strict=True):
            kernel_error, reference_error = relative_error(one, true), relative_error(other, true)
            if kernel_error > 0 and reference_error > 0:
                ratios.append(kernel_error / reference_error)
    assert len(ratios) > 300
    assert torch.tensor(ratios).log().mean().exp() <= 1.1


@pytest.mark.parametrize("memory", STRUCTURES)
def test_chunks_equal_one_call(memory):
    case = make_case(memory, steps=40, batch=2, grad=False)
    outputs, (*final, read_vectors) = fused(case)
    state, chunks = case.initial, []
    for chunk in case.x.split([1, 16, 3, 20]):
        output, (*state, read_vector) = fused(case._replace(x=chunk, initial=tuple(state)))
        chunks.append((output, read_vector))
    joined = [torch.cat(parts) for parts in zip(*chunks, strict=True)]
    for one, other in zip((*joined, *state), (outputs, read_vectors, *final), strict=True):
        assert one.shape == other.shape
        assert relative_error(one, other) <= 1e-12


@pytest.mark.parametrize(
    "memory", [SuperpositionStack(2, capacity=4), SuperpositionList(2, capacity=4)], ids=repr
)
def test_a_lost_cell_is_an_error(memory):
    case = make_case(memory, "elman_sigmoid", steps=9, batch=2, rows=0)
    fused(case._replace(x=case.x[:3]))
    for run in (fused, reference):
        with pytest.raises(MemoryOverflowError, match="capacity"):
            run(case)
    full = make_case(memory, "elman_sigmoid", steps=1, batch=2, rows=4)
    empty = (*full.initial[:-1], torch.full_like(full.initial[-1], -1))
    fused(full._replace(initial=empty))
    with pytest.raises(MemoryOverflowError, match="2 of 2"):
        fused(full)


@pytest.mark.slow
def test_results_do_not_depend_on_uninitialised_memory(monkeypatch):
    """Every buffer that the operators allocate is first filled with NaN."""
    new_empty, empty_like = torch.Tensor.new_empty, torch.empty_like

    def filled(make):
        def make_filled(*arguments, **options):
            tensor = make(*arguments, **options)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return make_filled

    monkeypatch.setattr(torch.Tensor, "new_empty", filled(new_empty))
    monkeypatch.setattr(torch, "empty_like", filled(empty_like))
    for memory in (*STRUCTURES, *VARIANTS[3:]):
        for controller in ("elman_sigmoid", "lstm"):
            assert_parity(make_case(memory, controller, steps=35, batch=2, lengths=[35, 9]))


@pytest.mark.parametrize("memory", STRUCTURES)
def test_nan_propagates(memory):
    case = make_case(memory, "elman_sigmoid", steps=4, batch=2, grad=False)
    case.x[1, 0] = float("nan")
    output, final = fused(case)
    assert not output[0].isnan().any()
    assert output[1:, 0].isnan().all()
    assert not output[:, 1].isnan().any()
    assert final[2][0].isnan().any()  # after hidden and the read vector: the first field
