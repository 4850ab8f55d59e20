"""The operators in torch: opcheck, torch.compile, double backward, threads, processes."""

from __future__ import annotations

import multiprocessing
import shutil
import threading

import pytest
import torch
from _cases import (
    MEMORIES,
    STRUCTURES,
    VARIANTS,
    assert_parity,
    fused,
    make_case,
    reference,
    relative_error,
    run_and_differentiate,
)
from test_direct_calls import recurrence_call, unroll_call
from tests.sweep import diagonal, sweep

from unbounded import errors
from unbounded.errors import say_once
from unbounded.kernels import available, kernel_of, open_session, recurrence, structure_of, why_not
from unbounded.kernels._structures import BY_TYPE
from unbounded.memories import SuperpositionStack
from unbounded.memories.core.head import KERNEL_ACTIVATIONS

OPERATORS = torch.ops.unbounded


#: Three memories, each with another controller; the others are slow.
FAST_PAIRS = {"superposition_list": "lstm", "lie_access": "gru", "deque": "elman_sigmoid"}
CHECKED_PAIRS = sweep(
    [*STRUCTURES, VARIANTS[5]],
    ("lstm", "gru", "elman_sigmoid"),
    fast=lambda memory, controller: FAST_PAIRS.get(memory) == controller,
)
#: Rows that are pushed, and cells in superposition.
TWO_MEMORIES = sweep(STRUCTURES, fast=lambda memory: memory in ("deque", "superposition_list"))


@pytest.mark.parametrize(("memory", "controller"), CHECKED_PAIRS)
def test_opcheck_of_the_recurrence(memory, controller):
    call, _ = recurrence_call(memory, controller)
    call[5] = None  # beyond the lengths the buffers are not written, so they cannot be compared
    for saves in (True, False):
        torch.library.opcheck(OPERATORS.recurrence.default, tuple(call), {"saves": saves})
    results, kept = OPERATORS.recurrence(*call, saves=True)
    grads = [torch.randn_like(result) for result in results]
    for needs in ([True] * 3, [False] * 3):
        by_name = {"results": results, "kept": kept, "grads": grads, "needs": needs}
        torch.library.opcheck(OPERATORS.recurrence_backward.default, tuple(call), by_name)


@pytest.mark.parametrize("memory", TWO_MEMORIES)
def test_opcheck_of_the_unroll(memory):
    call, _ = unroll_call(memory)
    torch.library.opcheck(OPERATORS.unroll.default, tuple(call))
    results, kept = OPERATORS.unroll(*call)
    read_vectors, *last = results
    for of_last in ([torch.randn_like(t) for t in last], [None for _ in last]):
        grads = [torch.randn_like(read_vectors), *of_last]
        by_name = {"results": results, "kept": kept, "grads": grads}
        torch.library.opcheck(OPERATORS.unroll_backward.default, tuple(call), by_name)


@pytest.mark.parametrize("memory", TWO_MEMORIES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_around_it(memory):
    case = make_case(memory)

    def function(case):
        outputs, final = fused(case)
        return outputs * 2, final

    torch.compiler.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    got = run_and_differentiate(compiled, case)
    expected = run_and_differentiate(function, case)
    for one, other in zip((*got[0], *got[1]), (*expected[0], *expected[1]), strict=True):
        assert relative_error(one, other) <= 1e-12
    with torch.no_grad():
        torch.testing.assert_close(compiled(case)[0], function(case)[0])


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_around_it():
    case = make_case("queue", dtype=torch.float32)

    def function(case):
        outputs, final = fused(case)
        return torch.tanh(outputs * 2), final

    compiled = torch.compile(function, fullgraph=True)
    got, expected = (run_and_differentiate(f, case) for f in (compiled, function))
    for one, other in zip((*got[0], *got[1]), (*expected[0], *expected[1]), strict=True):
        assert relative_error(one, other) <= 1e-5


@pytest.mark.parametrize("memory", STRUCTURES)
@pytest.mark.parametrize("controller", ["lstm", "gru", "elman_sigmoid"])
def test_double_backward_takes_the_reference(memory, controller):
    case = make_case(memory, controller, steps=3)

    def plain(lengths, x, weights, initial):
        changed = case._replace(lengths=lengths, x=x, weights=weights, initial=tuple(initial))
        outputs, (*final, read_vectors) = reference(changed)
        return outputs, read_vectors, *final

    say_once.cache_clear()
    outputs, *_ = recurrence(*case.arguments(), reference=plain)
    with pytest.warns(RuntimeWarning, match="reference path"):
        (first,) = torch.autograd.grad(outputs.square().sum(), case.x, create_graph=True)
    actual = torch.autograd.grad(first.square().sum(), case.weights.head_weight)
    outputs, _ = reference(case)
    (first,) = torch.autograd.grad(outputs.square().sum(), case.x, create_graph=True)
    expected = torch.autograd.grad(first.square().sum(), case.weights.head_weight)
    assert relative_error(*actual, *expected) <= 1e-10


def test_double_backward_without_a_reference_is_an_error():
    case = make_case()
    outputs, _ = fused(case)
    with pytest.raises(errors.BackendError, match="double backward"):
        torch.autograd.grad(outputs.sum(), case.x, create_graph=True)


def test_many_gradients_without_a_reference_are_an_error():
    case = make_case()
    outputs, _ = fused(case)
    many = torch.ones(2, *outputs.shape, dtype=outputs.dtype)
    with pytest.raises(errors.BackendError, match=r"many gradients at once.*no reference"):
        torch.autograd.grad(outputs, case.x, many, is_grads_batched=True)


def test_only_needed_gradients_are_computed():
    case = make_case("stack", "gru", grad=False)
    for k, tensor in enumerate(case.tensors()):
        tensor.requires_grad_()
        outputs, final = fused(case)
        loss = outputs.square().sum() + sum(field.square().sum() for field in final)
        (grad,) = torch.autograd.grad(loss, [tensor])
        everything = make_case("stack", "gru")
        outputs, final = fused(everything)
        loss = outputs.square().sum() + sum(field.square().sum() for field in final)
        assert torch.equal(grad, torch.autograd.grad(loss, everything.tensors())[k])
        tensor.requires_grad_(False)


@pytest.mark.parametrize(
    ("memory", "controller", "lengths"),
    diagonal([*STRUCTURES, *VARIANTS], ["lstm", "gru", "elman_tanh"], [None, [9, 0, 4]], share=3),
    ids=str,
)
def test_stepping_equals_a_full_sequence(memory, controller, lengths):
    given = None if lengths is None else torch.tensor(lengths)
    case = make_case(memory, controller, steps=9, grad=False)._replace(lengths=given)
    outputs, final = reference(case)
    structure, activations, name, _, _, weights, initial = case.arguments()
    session = open_session(structure, activations, name, weights, initial, room=2)
    chunks, begin = [], 0
    for size in (1, 3, 1, 4):
        left = None if given is None else (given - begin).clamp(0, size)
        chunks.append(session.run(case.x[begin : begin + size], left))
        begin += size
    stepped, read_vectors = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    for got, state in (fused(case), (stepped, (*session.state(), read_vectors))):
        assert relative_error(got, outputs) <= 1e-12
        for one, other in zip(state, final, strict=True):
            assert one.shape == other.shape
            assert relative_error(one, other) <= 1e-12


def test_stepping_detects_a_lost_cell():
    case = make_case(SuperpositionStack(2, capacity=4), steps=5, rows=0, grad=False)
    structure, activations, name, x, _, weights, initial = case.arguments()
    session = open_session(structure, activations, name, weights, initial)
    session.run(x[:4])
    with pytest.raises(errors.MemoryOverflowError, match="capacity 4"):
        session.run(x[4:])


@pytest.mark.parametrize("memory", STRUCTURES)
def test_no_steps(memory):
    case = make_case(memory)
    case = case._replace(x=case.x[:0])
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            outputs, (*final, read_vectors) = fused(case)
        assert outputs.shape == (0, 3, 5)
        assert read_vectors.shape[:2] == (0, 3)
        for one, other in zip(final, case.initial, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize(("memory", "threads"), diagonal(STRUCTURES, [1, 2, 3], share=3))
def test_threads_and_bit_identical_runs(memory, threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        case = make_case(memory, steps=30, batch=5, hidden=70, dtype=torch.float32)
        first = run_and_differentiate(fused, case)
        for _ in range(5):
            again = run_and_differentiate(fused, case)
            for one, other in zip((*first[0], *first[1]), (*again[0], *again[1]), strict=True):
                assert torch.equal(one, other)
        assert_parity(case)
    finally:
        torch.set_num_threads(before)


def test_calls_from_several_threads_at_once():
    case = make_case(steps=20, hidden=40)
    expected = run_and_differentiate(fused, case)
    errors = []

    def work():
        for _ in range(10):
            got = run_and_differentiate(fused, case)
            if not all(torch.equal(a, b) for a, b in zip(got[0], expected[0], strict=True)):
                errors.append("differs")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors


def _in_child(queue):
    case = make_case(steps=5, hidden=40, grad=False)
    queue.put(float(fused(case)[0].sum()))


# A spawned one imports torch.
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_worker_processes(method):
    case = make_case(steps=5, hidden=40, grad=False)
    expected = float(fused(case)[0].sum())
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == pytest.approx(expected, abs=1e-9)
    child.join()


def test_non_contiguous_input():
    case = make_case()
    x = case.x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    weight = case.weights.weight_ih.detach().t().contiguous().t().requires_grad_()
    assert_parity(case._replace(x=x, weights=case.weights._replace(weight_ih=weight)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_unsupported_calls():
    case = make_case()
    assert available().ok
    assert why_not("recurrence", None, *case.tensors()) is None
    assert "float16" in why_not("recurrence", None, case.x.half())
    assert "meta" in why_not("recurrence", None, case.x.to("meta"))
    assert "one dtype" in why_not("recurrence", None, case.x, case.weights.head_bias.float())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(case.x.detach(), torch.ones_like(case.x))
        assert "forward-mode" in why_not("recurrence", None, dual)
    torch.func.vmap(lambda x: (_expect_functorch(x), x)[1])(case.x.detach())


def _expect_functorch(x):
    assert "torch.func" in why_not("recurrence", None, x)


def with_weights(case, **weights):
    return case._replace(weights=case.weights._replace(**weights))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda c: c._replace(controller="lstmm"), errors.ChoiceError, "lstm"),
        (lambda c: c._replace(x=c.x[0]), errors.ShapeError, "x"),
        (lambda c: c._replace(x=c.x[:, :2]), errors.ShapeError, "x"),
        (lambda c: c._replace(lengths=torch.tensor([1, 2])), errors.ShapeError, "lengths"),
        (lambda c: c._replace(lengths=torch.tensor([1, 2, 8])), errors.ShapeError, "lengths"),
        (lambda c: c._replace(lengths=torch.tensor([1, -2, 3])), errors.ShapeError, "lengths"),
        (lambda c: c._replace(lengths=torch.ones(3)), errors.DTypeError, "lengths"),
        (lambda c: with_weights(c, head_bias=torch.ones(7)), errors.ShapeError, "head_bias"),
        (lambda c: with_weights(c, weight_hh=None), errors.ShapeError, "weight_hh"),
        (lambda c: with_weights(c, weight_ih=None), errors.ShapeError, "weight_ih"),
        (lambda c: with_weights(c, head_weight=None), errors.ShapeError, "head_weight"),
        (lambda c: with_weights(c, head_bias=torch.ones(8)), errors.DTypeError, "head_bias"),
        (lambda c: c._replace(initial=c.initial[:-1]), errors.ShapeError, "initial"),
        (
            lambda c: c._replace(initial=(*c.initial[:-1], c.initial[-1][:, :1])),
            errors.ShapeError,
            "strengths",
        ),
    ],
)
def test_bad_input_is_an_error_before_the_call(change, error, message):
    with pytest.raises(error, match=message):
        fused(change(make_case()))


@pytest.mark.parametrize("memory", [*STRUCTURES, *VARIANTS], ids=str)
def test_a_memory_is_made_again_from_the_options(memory):
    """With the same heads, fields and growth, which the buffers of a call depend on."""
    memory = MEMORIES[memory] if isinstance(memory, str) else memory
    kernel, own = kernel_of(memory), BY_TYPE[type(memory)](memory)
    assert kernel.memory is not memory
    assert kernel is structure_of(own.name, own.options)
    for name in ("options", "heads", "read_vector", "growth", "nonnegative"):
        assert getattr(kernel, name) == getattr(own, name)
    for actual, expected in zip(kernel.fields, memory.state_fields, strict=True):
        assert (actual.name, actual.shape, actual.growth) == (
            expected.name,
            expected.shape,
            expected.growth,
        )
        assert actual.most_rows == expected.most_rows
    names = [field.name for field in memory.state_fields]
    assert {*names, *kernel.heads} >= {*kernel.nonnegative, *kernel.live_fields}


ACTIVATIONS = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "softplus": torch.nn.functional.softplus,
    "softmax": lambda x: torch.softmax(x, -1),
    "hard_sigmoid": lambda x: (0.2 * x + 0.5).clamp(0, 1),
    "one_plus_relu": lambda x: 1 + torch.relu(x),
    "one_plus_softplus": lambda x: 1 + torch.nn.functional.softplus(x),
}
#: Activations with a gradient computed from y, which loses digits where y is near 1.
FEW_DIGITS = ("tanh", "sigmoid", "softmax", "one_plus_softplus")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [-25.0, -16.0, -8.0, 0.0, 8.0, 19.9, 20.1])
def test_every_activation_of_a_head(activation, dtype, bias):
    """A register that is always written ends with its last instruction."""
    assert tuple(ACTIVATIONS) == KERNEL_ACTIVATIONS
    case = make_case(MEMORIES["register"], "elman_tanh", steps=1, batch=4, dtype=dtype)
    with torch.no_grad():
        case.weights.head_bias[:19] += bias
        case.weights.head_weight[19:] = 0
        case.weights.head_bias[19:] = 1e4
    structure, _, *rest = case.arguments()
    outputs, _, final = recurrence(structure, (activation, "sigmoid"), *rest)
    head_weight, head_bias = case.weights.head_weight, case.weights.head_bias
    expected = ACTIVATIONS[activation](outputs.detach()[0] @ head_weight[:19].T + head_bias[:19])
    # An exponential amplifies the rounding of its argument, which grows with the argument.
    of_sums = torch.finfo(dtype).eps / 2 * abs(bias)
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-12}[dtype] + of_sums
    assert relative_error(final[-1], expected) <= tolerance
    actual, target = (
        torch.autograd.grad(v.square().sum(), head_bias)[0][:19] for v in (final[-1], expected)
    )
    if activation in FEW_DIGITS:
        assert (actual - target).abs().max() <= 8 * tolerance
    else:
        assert relative_error(actual, target) <= 4 * tolerance
