"""Fused superposition stacks and lists in the recurrence, against the reference loop."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import pytest
import torch
from _cases import assert_equal_up_to_rounding, relative_error
from hypothesis import given, settings
from hypothesis import strategies as st

from unbounded.errors import MemoryOverflowError, ShapeError, say_once
from unbounded.kernels import ControllerWeights, Stepper, recurrence
from unbounded.layers import ElmanController, MemoryRNN
from unbounded.layers.parity import _tensors as tensors_of
from unbounded.memories import SuperpositionList, SuperpositionStack
from unbounded.memories.state import map_state

CONTROLLERS = {
    "lstm": "lstm",
    "gru": "gru",
    "elman": "elman",
    "paper": partial(ElmanController, activation="sigmoid", recurrent=False, bias=False),
    "recurrent": partial(ElmanController, activation="sigmoid", bias=False),
}
STACKS = [
    SuperpositionStack(3),
    SuperpositionStack(2, depth=4, noop=True),
    SuperpositionStack(1, depth=1, noop=True, capacity=1, overflow="drop_bottom"),
    SuperpositionStack(17, depth=3, capacity=5, overflow="drop_bottom"),
    SuperpositionStack(4, capacity=200),
]
LISTS = [
    SuperpositionList(3, noop=False),
    SuperpositionList(2, depth=4),
    SuperpositionList(1, depth=1, capacity=1, overflow="drop_ends"),
    SuperpositionList(17, depth=3, noop=False, capacity=4, overflow="drop_ends"),
    SuperpositionList(4, capacity=200),
]
MEMORIES = [*STACKS, *LISTS]
#: What of (output, ..., reading, cells) gets a gradient.
GRADIENTS = {"outputs": [0], "reading": [0, -2], "everything": None}


def make_layers(memory, controller, inputs, hidden, dtype, seed=0):
    torch.manual_seed(seed)
    layers = [
        MemoryRNN(inputs, hidden, memory, CONTROLLERS[controller], backend=backend, dtype=dtype)
        for backend in ("cpu", "reference")
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    return layers


def make_state(layer, batch, steps, dtype):
    """A state as some steps leave it, moved off it so that no cell is just empty."""
    if steps == 0:
        return None
    with torch.no_grad():
        _, state = layer(torch.randn(steps, batch, layer.input_size, dtype=dtype))
    return map_state(lambda t: (t + 0.1 * torch.rand_like(t)).requires_grad_(), state)


def run(layer, x, state, lengths, which):
    output, final = layer(x, state, lengths)
    results = [output, *tensors_of(final)]
    chosen = results if which is None else [results[k] for k in which]
    loss = sum(
        (r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).view_as(r)).sum() for r in chosen
    )
    given = [x, *layer.parameters(), *([] if state is None else tensors_of(state))]
    grads = torch.autograd.grad(loss, given, allow_unused=True)
    pairs = zip(grads, given, strict=True)
    return [*results, *(torch.zeros_like(t) if g is None else g for g, t in pairs)]


def assert_parity(
    memory, controller="paper", steps=7, batch=3, before=3, lengths=None, gradients="everything",
    dtype=torch.float64, inputs=3, hidden=5, seed=0,
):  # fmt: skip
    fused, reference = make_layers(memory, controller, inputs, hidden, dtype, seed)
    x = torch.randn(steps, batch, inputs, dtype=dtype, requires_grad=True)
    state = make_state(reference, batch, before, dtype)
    lengths = None if lengths is None else torch.tensor(lengths)
    which = GRADIENTS[gradients]
    got, wanted = (run(each, x, state, lengths, which) for each in (fused, reference))

    def again(change):
        def wide(tensor):
            return change(tensor.detach().double()).requires_grad_()

        layer = deepcopy(reference).double()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(change(parameter))
        given = None if state is None else map_state(wide, state)
        return run(layer, wide(x), given, lengths, which)

    assert_equal_up_to_rounding(got, wanted, again)


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [None, [7, 0, 3, 1]])
def test_parity(memory, controller, dtype, lengths):
    assert_parity(memory, controller, batch=4, lengths=lengths, dtype=dtype)


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@pytest.mark.parametrize("gradients", GRADIENTS)
@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("steps", [1, 8, 17, 140])
def test_parity_over_blocks_of_steps(memory, gradients, before, steps):
    assert_parity(
        memory, steps=steps, batch=2, before=before, gradients=gradients,
        lengths=[steps, steps * 2 // 3],
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    is_list=st.booleans(),
    controller=st.sampled_from(sorted(CONTROLLERS)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    count=st.integers(1, 20),
    depth=st.integers(1, 6),
    noop=st.booleans(),
    room=st.none() | st.integers(0, 8),
    batch=st.integers(1, 17),
    inputs=st.integers(1, 5),
    hidden=st.integers(1, 40),
    before=st.integers(0, 4),
    gradients=st.sampled_from(sorted(GRADIENTS)),
    data=st.data(),
)
def test_parity_of_random_sizes(
    is_list, controller, dtype, count, depth, noop, room, batch, inputs, hidden, before,
    gradients, data,
):  # fmt: skip
    steps = data.draw(st.integers(1, 20))
    lengths = data.draw(st.none() | st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
    make, drop = (
        (SuperpositionList, "drop_ends") if is_list else (SuperpositionStack, "drop_bottom")
    )
    capacity, overflow = (None, "error") if room is None else (depth + room, drop)
    memory = make(count, depth, noop, capacity=capacity, overflow=overflow)
    assert_parity(
        memory, controller, steps, batch, before, lengths, gradients, dtype, inputs, hidden
    )


@pytest.mark.parametrize("memory", [STACKS[0], STACKS[3], LISTS[1], LISTS[3]], ids=repr)
def test_chunks_equal_the_whole(memory):
    fused, _ = make_layers(memory, "recurrent", 3, 5, torch.float64)
    x = torch.randn(40, 2, 3, dtype=torch.float64)
    whole, final = fused(x)
    state, parts = None, []
    for part in x.split([1, 16, 3, 20]):
        output, state = fused(part, state)
        parts.append(output)
    assert relative_error(torch.cat(parts), whole) <= 1e-12
    for one, other in zip(tensors_of(state), tensors_of(final), strict=True):
        assert one.shape == other.shape
        assert relative_error(one, other) <= 1e-12


@pytest.mark.parametrize(
    "memory", [SuperpositionStack(2, capacity=4), SuperpositionList(2, capacity=4)], ids=repr
)
def test_a_lost_cell_is_an_error(memory):
    fused, reference = make_layers(memory, "paper", 3, 5, torch.float32)
    x = torch.randn(9, 2, 3)
    fused(x[:3])
    for layer in (fused, reference):
        with pytest.raises(MemoryOverflowError, match="capacity"):
            layer(x)
    state = fused(x[:4])[1]
    empty = state._replace(memory=fused.memory.State(torch.full_like(state.memory.cells, -1)))
    fused(x[:1], empty)
    with pytest.raises(MemoryOverflowError, match="2 of 2"):
        fused(x[:1], state)


def test_results_do_not_depend_on_what_their_memory_held(monkeypatch):
    """Every buffer that the operators make is filled with NaN first."""
    new_empty, empty_like = torch.Tensor.new_empty, torch.empty_like

    def filled(make):
        def make_filled(*arguments, **options):
            made = make(*arguments, **options)
            return made.fill_(float("nan")) if made.is_floating_point() else made

        return make_filled

    monkeypatch.setattr(torch.Tensor, "new_empty", filled(new_empty))
    monkeypatch.setattr(torch, "empty_like", filled(empty_like))
    for memory in (STACKS[1], STACKS[3], LISTS[1], LISTS[3]):
        for controller in ("paper", "lstm"):
            assert_parity(memory, controller, steps=35, batch=2, lengths=[35, 9])


def test_nan_comes_through():
    fused, _ = make_layers(STACKS[0], "paper", 3, 5, torch.float32)
    x = torch.randn(4, 2, 3)
    x[1, 0] = float("nan")
    output, state = fused(x)
    assert not output[0].isnan().any()
    assert output[1:, 0].isnan().all()
    assert not output[:, 1].isnan().any()
    assert state.memory.cells[0].isnan().any()


def test_faults_are_named():
    x, weights = torch.randn(2, 3, 4), ControllerWeights(torch.randn(5, 10), None, None, None)
    hidden, reading, cells = torch.randn(3, 5), torch.randn(3, 6), torch.randn(3, 3, 2)

    def call(structure="superposition_stack", heads=9, reading=reading, cells=cells):
        return recurrence(
            structure, "elman_sigmoid", x, None, weights, torch.randn(heads, 5), None,
            (hidden, reading, cells),
        )  # fmt: skip

    assert call()[1][-1].shape == (3, 3, 4)
    with pytest.raises(ShapeError, match="head_weight"):
        call(heads=8)
    with pytest.raises(ShapeError, match="head_weight"):
        call(heads=15)
    with pytest.raises(ShapeError, match="HEAD in the middle"):
        call("superposition_list", heads=12)
    with pytest.raises(ShapeError, match="reading"):
        call(reading=torch.randn(3, 7))
    with pytest.raises(ShapeError, match=r"cells.*\[B, S, N\]"):
        call(cells=torch.randn(3, 6))


def operator_arguments(memory, controller, saves, steps=5):
    fused, _ = make_layers(memory, controller, 3, 4, torch.float64)
    state = make_state(fused, 2, 2, torch.float64)
    hidden, *cell, reading, cells = (t.detach() for t in tensors_of(state))
    cell = cell or [hidden.new_empty(2, 0)]
    weights = [None if w is None else w.detach() for w in fused.controller.weights]
    options = memory.kernel_options
    return (
        memory.kernel_name, fused.controller.kernel_name, hidden.new_ones(steps, 2, 3), None,
        *weights, fused.heads.weight.detach(), None, hidden, *cell, reading, cells,
        options.capacity or 0, options.strict, saves,
    )  # fmt: skip


@pytest.mark.parametrize("controller", ["paper", "lstm", "gru"])
@pytest.mark.parametrize("memory", [STACKS[1], STACKS[3], LISTS[0]], ids=repr)
def test_opcheck(memory, controller):
    for saves in (True, False):
        arguments = operator_arguments(memory, controller, saves, steps=20)
        torch.library.opcheck(torch.ops.unbounded.superposition.default, arguments)
    arguments = operator_arguments(memory, controller, True, steps=20)
    results = torch.ops.unbounded.superposition(*arguments)
    structure, name, x, _, weight_ih, weight_hh, _, _, head_weight, _, *initial = arguments[:14]
    grads = [torch.randn_like(result) for result in results[:5]]
    for needs in ((True, True, True), (False, False, False)):
        torch.library.opcheck(
            torch.ops.unbounded.superposition_backward.default,
            (
                structure, name, [x, weight_ih, head_weight, *initial], None, weight_hh, results,
                grads, arguments[14], *needs,
            ),
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_around_it():
    fused, _ = make_layers(STACKS[1], "paper", 3, 5, torch.float64)
    x = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(fused, backend="aot_eager", fullgraph=True)
    got, wanted = (run(each, x, None, None, None) for each in (compiled, fused))
    for one, other in zip(got, wanted, strict=True):
        assert relative_error(one, other) <= 1e-12


@pytest.mark.parametrize("controller", ["paper", "lstm"])
def test_double_backward_takes_the_reference(controller):
    say_once.cache_clear()
    second = []
    for layer in make_layers(LISTS[0], controller, 3, 5, torch.float64):
        torch.manual_seed(1)
        x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
        loss = layer(x)[0].square().sum()
        if second:
            (first,) = torch.autograd.grad(loss, x, create_graph=True)
        else:
            with pytest.warns(RuntimeWarning, match="reference path"):
                (first,) = torch.autograd.grad(loss, x, create_graph=True)
        second += torch.autograd.grad(first.square().sum(), layer.heads.weight)
    assert relative_error(*second) <= 1e-10


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@pytest.mark.parametrize("controller", ["paper", "lstm", "gru"])
@pytest.mark.parametrize("lengths", [None, [20, 0, 6]])
def test_stepping_equals_the_reference(memory, controller, lengths):
    fused, reference = make_layers(memory, controller, 3, 5, torch.float64)
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    with torch.no_grad():
        state = reference(x[:2])[1]
        lengths = None if lengths is None else torch.tensor(lengths)
        outputs, final = reference(x, state, lengths)
    stepper = Stepper(
        memory.kernel_name, fused.controller.kernel_name, fused.controller.weights,
        fused.heads.weight, None, tuple(tensors_of(state)), 2, memory.kernel_options,
    )  # fmt: skip
    parts, begin = [], 0
    for size in (1, 3, 1, 15):
        left = None if lengths is None else (lengths - begin).clamp(0, size)
        parts.append(stepper.run(x[begin : begin + size], left))
        begin += size
    assert relative_error(torch.cat(parts), outputs) <= 1e-12
    for one, other in zip(stepper.state(), tensors_of(final), strict=True):
        assert one.shape == other.shape
        assert relative_error(one, other) <= 1e-12


def test_stepping_notices_a_lost_cell():
    memory = SuperpositionStack(2, capacity=4)
    fused, _ = make_layers(memory, "paper", 3, 5, torch.float32)
    state = tuple(tensors_of(fused.initial_state(2)))
    stepper = Stepper(
        memory.kernel_name, "elman_sigmoid", fused.controller.weights, fused.heads.weight, None,
        state, options=memory.kernel_options,
    )  # fmt: skip
    stepper.run(torch.randn(4, 2, 3))
    with pytest.raises(MemoryOverflowError, match="capacity 4"):
        stepper.run(torch.randn(1, 2, 3))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("memory", [STACKS[0], LISTS[0]], ids=repr)
def test_threads_and_bit_identical_runs(memory, threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        fused, _ = make_layers(memory, "recurrent", 3, 70, torch.float32)
        x = torch.randn(30, 5, 3, requires_grad=True)
        first = run(fused, x, None, None, None)
        for _ in range(5):
            again = run(fused, x, None, None, None)
            for one, other in zip(first, again, strict=True):
                assert torch.equal(one, other)
        assert_parity(memory, "recurrent", 30, 5, hidden=70)
    finally:
        torch.set_num_threads(before)
