"""The operators as torch sees them: opcheck, torch.compile, double backward, threads, processes."""

from __future__ import annotations

import multiprocessing
import shutil
import threading

import pytest
import torch
from _cases import (
    assert_parity,
    make_case,
    reference,
    relative_error,
    run_and_differentiate,
)

from unbounded import errors
from unbounded.errors import say_once
from unbounded.kernels import Stepper, available, recurrence, unroll, why_not

STRUCTURES = ("stack", "queue", "deque")


def operator_arguments(case, saves):
    cell = () if case.controller == "lstm" else (case.x.new_empty(case.x.shape[1], 0),)
    hidden, *rest = case.initial
    return (
        case.structure, case.controller, case.x, case.lengths, *case.weights, case.head_weight,
        case.head_bias, hidden, *cell, *rest, saves,
    )  # fmt: skip


@pytest.mark.parametrize("controller", ["lstm", "gru"])
@pytest.mark.parametrize("saves", [True, False])
def test_opcheck_of_forward(controller, saves):
    case = make_case("deque", controller, grad=False)
    torch.library.opcheck(torch.ops.unbounded.recurrence.default, operator_arguments(case, saves))


@pytest.mark.parametrize("controller", ["lstm", "gru"])
def test_opcheck_of_backward(controller):
    case = make_case("queue", controller, grad=False)
    arguments = operator_arguments(case, True)
    results = torch.ops.unbounded.recurrence(*arguments)
    inputs = [case.x, case.weights.weight_ih, case.head_weight, *arguments[10:15]]
    grads = [torch.randn_like(result) for result in results[:6]]
    torch.library.opcheck(
        torch.ops.unbounded.recurrence_backward.default,
        ("queue", controller, inputs, None, case.weights.weight_hh, results, grads, True, True),
    )


def test_opcheck_of_unroll():
    values, push_pop = torch.randn(2, 7, 3), torch.rand(2, 5, 2)
    strengths0 = torch.rand(2, 2)
    arguments = ("stack", values, push_pop, strengths0)
    torch.library.opcheck(torch.ops.unbounded.unroll.default, arguments)
    readings, strengths, *kept = torch.ops.unbounded.unroll(*arguments)
    torch.library.opcheck(
        torch.ops.unbounded.unroll_backward.default,
        ("stack", values, push_pop, strengths0, strengths, kept, torch.randn_like(readings), None),
    )


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_around_it(structure):
    case = make_case(structure)

    def function(*arguments):
        outputs, final, values = recurrence(*arguments)
        return outputs * 2, final, values

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    got = run_and_differentiate(compiled, case)
    wanted = run_and_differentiate(function, case)
    for one, other in zip((*got[0], *got[1]), (*wanted[0], *wanted[1]), strict=True):
        assert relative_error(one, other) <= 1e-12
    with torch.no_grad():
        torch.testing.assert_close(compiled(*case)[0], function(*case)[0])


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_around_it():
    case = make_case("queue", dtype=torch.float32)

    def function(*arguments):
        outputs, final, values = recurrence(*arguments)
        return torch.tanh(outputs * 2), final, values

    compiled = torch.compile(function, fullgraph=True)
    got, wanted = (run_and_differentiate(f, case) for f in (compiled, function))
    for one, other in zip((*got[0], *got[1]), (*wanted[0], *wanted[1]), strict=True):
        assert relative_error(one, other) <= 1e-5


@pytest.mark.parametrize("controller", ["lstm", "gru"])
def test_double_backward_takes_the_reference(controller):
    case = make_case("stack", controller, steps=3)
    say_once.cache_clear()
    wanted = None
    for function in (
        lambda *arguments: recurrence(*arguments, reference=reference),
        reference,
    ):
        outputs, _, _ = function(*case)
        if wanted is None:
            with pytest.warns(RuntimeWarning, match="reference path"):
                (first,) = torch.autograd.grad(outputs.square().sum(), case.x, create_graph=True)
        else:
            (first,) = torch.autograd.grad(outputs.square().sum(), case.x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), case.head_weight)
        if wanted is None:
            wanted = second
    assert relative_error(wanted, second) <= 1e-10


def test_double_backward_without_a_reference_says_so():
    case = make_case()
    outputs, _, _ = recurrence(*case)
    with pytest.raises(errors.BackendError, match="double backward"):
        torch.autograd.grad(outputs.sum(), case.x, create_graph=True)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("controller", ["lstm", "gru", "elman_tanh"])
@pytest.mark.parametrize("lengths", [None, [9, 0, 4]])
def test_stepping_equals_a_whole_sequence(structure, controller, lengths):
    case = make_case(structure, controller, steps=9, grad=False)
    outputs, final, _ = reference(*case._replace(lengths=lengths and torch.tensor(lengths)))
    whole, whole_final, _ = recurrence(*case._replace(lengths=lengths and torch.tensor(lengths)))
    stepper = Stepper(structure, controller, *case[4:], capacity=2)
    parts = []
    begin = 0
    for size in (1, 3, 1, 4):
        left = None
        if lengths is not None:
            left = (torch.tensor(lengths) - begin).clamp(0, size)
        parts.append(stepper.run(case.x[begin : begin + size], left))
        begin += size
    for got, state in ((whole, whole_final), (torch.cat(parts), stepper.state())):
        assert relative_error(got, outputs) <= 1e-12
        for one, other in zip(state, final, strict=True):
            assert one.shape == other.shape
            assert relative_error(one, other) <= 1e-12


def test_no_steps():
    case = make_case(grad=False)
    outputs, final, _ = recurrence(*case._replace(x=case.x[:0]))
    assert outputs.shape == (0, 3, 5)
    for one, other in zip(final, case.initial, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_threads_and_bit_identical_runs(structure, threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        case = make_case(structure, steps=30, batch=5, hidden=70, width=40, dtype=torch.float32)
        first = run_and_differentiate(recurrence, case)
        for _ in range(5):
            again = run_and_differentiate(recurrence, case)
            for one, other in zip((*first[0], *first[1]), (*again[0], *again[1]), strict=True):
                assert torch.equal(one, other)
        assert_parity(case)
    finally:
        torch.set_num_threads(before)


def test_calls_from_several_threads_at_once():
    case = make_case(steps=20, hidden=40)
    wanted = run_and_differentiate(recurrence, case)
    faults = []

    def work():
        for _ in range(10):
            got = run_and_differentiate(recurrence, case)
            if not all(torch.equal(a, b) for a, b in zip(got[0], wanted[0], strict=True)):
                faults.append("differs")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults


def _in_child(queue):
    case = make_case(steps=5, hidden=40, grad=False)
    queue.put(float(recurrence(*case)[0].sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_worker_processes(method):
    case = make_case(steps=5, hidden=40, grad=False)
    wanted = float(recurrence(*case)[0].sum())
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == pytest.approx(wanted, abs=1e-9)
    child.join()


def test_non_contiguous_input():
    case = make_case()
    x = case.x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    weight = case.weights.weight_ih.detach().t().contiguous().t().requires_grad_()
    assert_parity(case._replace(x=x, weights=case.weights._replace(weight_ih=weight)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_it_cannot_serve():
    case = make_case()
    assert available().ok
    assert why_not(*case.tensors()) is None
    assert "float16" in why_not(case.x.half())
    assert "meta" in why_not(case.x.to("meta"))
    assert "one dtype" in why_not(case.x, case.head_bias.float())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(case.x.detach(), torch.ones_like(case.x))
        assert "forward-mode" in why_not(dual)
    torch.func.vmap(lambda x: (_expect_functorch(x), x)[1])(case.x.detach())


def _expect_functorch(x):
    assert "torch.func" in why_not(x)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda c: c._replace(structure="stak"), errors.ChoiceError, "stack"),
        (lambda c: c._replace(controller="lstmm"), errors.ChoiceError, "lstm"),
        (lambda c: c._replace(x=c.x[0]), errors.ShapeError, "x"),
        (lambda c: c._replace(x=c.x[:, :2]), errors.ShapeError, "x"),
        (lambda c: c._replace(lengths=torch.tensor([1, 2])), errors.ShapeError, "lengths"),
        (lambda c: c._replace(lengths=torch.tensor([1, 2, 8])), errors.ShapeError, "lengths"),
        (lambda c: c._replace(lengths=torch.tensor([1, -2, 3])), errors.ShapeError, "lengths"),
        (lambda c: c._replace(lengths=torch.ones(3)), errors.DTypeError, "lengths"),
        (lambda c: c._replace(head_bias=c.head_bias[:-1]), errors.ShapeError, "head_bias"),
        (lambda c: c._replace(initial=c.initial[:-1]), errors.ShapeError, "initial"),
        (
            lambda c: c._replace(initial=(*c.initial[:-1], c.initial[-1][:, :1])),
            errors.ShapeError,
            "strengths",
        ),
        (
            lambda c: c._replace(weights=c.weights._replace(weight_hh=None)),
            errors.ShapeError,
            "weight_hh",
        ),
        (lambda c: c._replace(head_bias=c.head_bias.float()), errors.BackendError, "dtype"),
    ],
)
def test_bad_input_is_an_error_before_the_call(change, error, message):
    with pytest.raises(error, match=message):
        recurrence(*change(make_case()))


def test_bad_input_of_unroll():
    value, push = torch.randn(2, 3, 4), torch.rand(2, 3)
    empty = (value.new_zeros(2, 0, 4), value.new_zeros(2, 0))
    with pytest.raises(errors.ShapeError, match="pop"):
        unroll("stack", (value, push, push[:, :1]), empty)
    with pytest.raises(errors.ShapeError, match="6 fields"):
        unroll("deque", (value, push, push), empty)
    with pytest.raises(errors.ChoiceError):
        unroll("heap", (value, push, push), empty)
