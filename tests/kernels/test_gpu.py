"""CUDA kernels against the reference: on a device, or in Triton's interpreter."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from _cases import GATES, MOST_IN_64_BITS, TOLERANCE, Case, make_case, reference, relative_error
from tests.sweep import diagonal, sweep

from unbounded import errors
from unbounded.kernels import kernel_of, open_session, why_not
from unbounded.kernels._recurrence import RecurrenceCall
from unbounded.kernels.gpu import MEMORIES, _device
from unbounded.kernels.gpu._device import why_not_capability, why_not_triton
from unbounded.memories import NeuralStack
from unbounded.memories.register import Register

# On Linux it is a development dependency, so a missing one must fail.
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux alone"),
    # A warning of the interpreter: exp(900) is infinite, as intended.
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
]


def first(fast: str) -> list[Any]:
    """Every memory, with one that is fast; the interpreter takes seconds for each."""
    return sweep(MEMORIES, fast=lambda name: name == fast)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def gradient_of(case: Case, result: torch.Tensor, number: int) -> torch.Tensor:
    """A separate gradient for each result."""
    return torch.linspace(-1, 1 + number, result.numel(), dtype=result.dtype).view_as(result)


def of_reference(case: Case) -> list[torch.Tensor]:
    """Results, and gradients of all tensors, in the order of the operator."""
    outputs, (*final, read_vectors) = reference(case)
    results = [outputs, read_vectors, *final]
    grads = [gradient_of(case, result, number) for number, result in enumerate(results)]
    loss = sum((result * grad).sum() for result, grad in zip(results, grads, strict=True))
    gradients = torch.autograd.grad(loss, case.tensors(), allow_unused=True)
    pairs = zip(gradients, case.tensors(), strict=True)
    gradients = [torch.zeros_like(t) if grad is None else grad for grad, t in pairs]
    return [result.detach() for result in results] + gradients


def of_programs(
    case: Case, needs: tuple[bool, bool, bool] = (True, True, True), *, results_only: bool = False
):
    from unbounded.kernels.gpu import _recurrence

    structure, activations, controller, x, lengths, weights, state = case.arguments()

    def there(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.detach().to(DEVICE)

    call = (
        structure.name, structure.options, activations, controller, there(x), there(lengths),
        [there(weight) for weight in weights], [there(field) for field in state],
    )  # fmt: skip
    results, kept = _recurrence.forward(*call, saves=True)
    if results_only and DEVICE == "cpu":  # the interpreter takes seconds
        return RecurrenceCall(*call), results, None
    grads = [there(gradient_of(case, result, number)) for number, result in enumerate(results)]
    gradients = _recurrence.backward(*call, results=results, kept=kept, grads=grads, needs=needs)
    if DEVICE == "cuda":
        assert_alone(call, results)
        again = _recurrence.backward(*call, results=results, kept=kept, grads=grads, needs=needs)
        for part, other in zip(gradients, again, strict=True):
            for one, two in zip(part, other, strict=True):
                torch.testing.assert_close(one, two, rtol=0, atol=0, equal_nan=True)
    return RecurrenceCall(*call), [result.cpu() for result in results], gradients


def assert_alone(call, results: list[torch.Tensor]) -> None:
    """Check that results are bitwise equal if nothing is kept for a backward pass."""
    from unbounded.kernels.gpu import _recurrence

    alone, none = _recurrence.forward(*call, saves=False)
    assert not none
    for one, other in zip(results, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def assert_agrees(case: Case, most: float | None = None) -> None:
    want = of_reference(case)
    call, results, gradients = of_programs(case)
    weights = {name: grad.cpu() for name, grad in zip(
        [name for name in call.named_weights._fields if _has_own(case, name)], gradients.weights,
        strict=True,
    )}  # fmt: skip
    if "bias_hh" not in weights and case.weights.bias_hh is not None:
        weights["bias_hh"] = weights["bias_ih"]
    named = case.weights._asdict().items()
    of_weights = [weights[name] for name, weight in named if weight is not None]
    got = [*results, gradients.x[0].cpu(), *of_weights, *(grad.cpu() for grad in gradients.state)]
    bound = TOLERANCE[case.x.dtype] if most is None else most
    assert len(got) == len(want)
    for number, (actual, target) in enumerate(zip(got, want, strict=True)):
        assert actual.shape == target.shape
        if target.numel():
            assert relative_error(actual, target) <= bound, number


def _has_own(case: Case, name: str) -> bool:
    if name == "weight_hh":
        return case.weights.weight_hh is not None
    return name != "bias_hh" or case.controller == "gru"


#: The controllers of each memory in fast tests, in addition to the LSTM.
OF_MEMORY = {"stack": ("gru", "elman_relu"), "queue": ("elman_tanh", "elman_sigmoid")}


@pytest.mark.parametrize(
    ("memory", "controller"),
    sweep(
        MEMORIES,
        GATES,
        fast=lambda memory, controller: (
            controller == "lstm" or controller in OF_MEMORY.get(memory, ())
        ),
    ),
)
def test_every_controller(memory: str, controller: str) -> None:
    assert_agrees(make_case(memory, controller, steps=3))


@pytest.mark.parametrize("memory", first("queue"))
def test_lengths(memory: str) -> None:
    assert_agrees(make_case(memory, "lstm", steps=6, lengths=[6, 0, 3]))
    assert_agrees(make_case(memory, "gru", steps=4, batch=2, rows=0, lengths=[1, 0]))


@pytest.mark.parametrize("memory", first("stack"))
def test_without_optional_weights(memory: str) -> None:
    case = make_case(memory, "elman_tanh", steps=3, recurrent=False, bias=False)
    assert_agrees(case._replace(weights=case.weights._replace(head_bias=None)))


@pytest.mark.parametrize(
    ("memory", "steps"),
    sweep(MEMORIES, [2, 4], fast=lambda memory, steps: (memory, steps) == ("queue", 2)),
)
def test_more_rows_and_sequences_than_one_tile(
    memory: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unbounded.kernels.gpu import _launch

    monkeypatch.setattr(_launch, "SCAN", 4)
    monkeypatch.setattr(_launch, "NUMBERS", 16)
    monkeypatch.setattr(_launch, "CHUNK", 16)
    monkeypatch.setattr(_launch, "MOST_BATCH", 16)
    assert_agrees(make_case(memory, "lstm", steps=steps, batch=17, hidden=17, rows=7))


@pytest.mark.parametrize("memory", first("stack"))
def test_float32(memory: str) -> None:
    assert_agrees(make_case(memory, "lstm", steps=5, dtype=torch.float32), 2e-5)


@pytest.mark.parametrize(
    ("gates", "memory"),
    diagonal(
        [(0.0, 0.0), (900.0, 0.0), (-900.0, 0.0), (0.0, 900.0), (900.0, -900.0)], MEMORIES, share=3
    ),
)
def test_ties(memory: str, gates: tuple[float, float]) -> None:
    """Strengths of exactly 0, 1/2 or 1, also in the state: sums are exact and ties frequent."""
    push, pop = gates
    case = make_case(memory, "elman_tanh", steps=5, batch=2, rows=3)
    heads, start = {}, 0
    for head in case.memory.heads:
        heads[head.name], start = slice(start, start + head.size), start + head.size
    weight, bias = case.weights.head_weight.detach(), case.weights.head_bias.detach()
    for name, rows in heads.items():
        if name.endswith(("push", "pop")):
            weight[rows], bias[rows] = 0.0, push if name.endswith("push") else pop
    weights = case.weights._replace(
        head_weight=weight.requires_grad_(), head_bias=bias.requires_grad_()
    )
    strengths = (case.initial[-1].detach() * 2).round().div(2).requires_grad_()
    assert_agrees(case._replace(weights=weights, initial=(*case.initial[:-1], strengths)))


@pytest.mark.parametrize("memory", first("queue"))
def test_sharp_heads(memory: str) -> None:
    assert_agrees(
        make_case(memory, "gru", steps=6, rows=4, inverse_temperature=60.0), MOST_IN_64_BITS
    )


@pytest.mark.parametrize(
    ("place", "memory"), diagonal(["x", "strengths", "values"], MEMORIES, share=3)
)
def test_nan_stays(memory: str, place: str) -> None:
    case = make_case(memory, "lstm", steps=5, grad=False)
    values, strengths = case.initial[-2:]
    if place == "x":
        case.x[2, 1] = torch.nan
    elif place == "strengths":
        strengths[1, 0] = torch.nan
    else:
        values[1, 0] = torch.nan
    (outputs, read_vectors, *_) = of_programs(case, results_only=True)[1]
    want, (*_, of_read_vectors) = reference(case)
    for actual, target in ((outputs, want), (read_vectors, of_read_vectors)):
        assert torch.equal(actual.isnan().any(-1), target.isnan().any(-1))


@pytest.mark.parametrize("memory", first("stack"))
def test_without_a_backward_pass(memory: str) -> None:
    call, results, _ = of_programs(make_case(memory, steps=3, grad=False), results_only=True)
    assert_alone(call, [result.to(DEVICE) for result in results])


def test_only_needed_gradients() -> None:
    _, _, gradients = of_programs(make_case(steps=3), (False, True, False))
    assert not gradients.x
    assert not gradients.state
    assert gradients.weights


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(steps: int) -> None:
    case = make_case(steps=steps, grad=False)
    _, results, gradients = of_programs(case)
    assert results[0].shape[0] == steps
    if not steps:
        assert torch.equal(results[2], case.initial[0])
        assert all(not weight.any() for weight in gradients.weights)


def test_no_sequence() -> None:
    _, results, _ = of_programs(make_case(batch=0, grad=False))
    assert results[0].shape[1] == 0


def test_reasons_without_a_kernel() -> None:
    there = torch.empty(2, device="cuda") if DEVICE == "cuda" else None
    if there is None:
        with torch._subclasses.FakeTensorMode():
            there = torch.empty(2, device="cuda")
    assert why_not("recurrence", kernel_of(NeuralStack(3)), there) is None
    assert "without a memory" in str(why_not("recurrence", kernel_of(Register(3)), there))
    assert "without its controller" in str(why_not("unroll", kernel_of(NeuralStack(3)), there))
    case = make_case(grad=False)
    if DEVICE == "cuda":
        structure, activations, controller, _, _, weights, state = case.arguments()
        moved = type(weights)(*(None if w is None else w.cuda() for w in weights))
        with pytest.raises(errors.BackendError, match="cuda"):
            open_session(structure, activations, controller, moved, [t.cuda() for t in state])


def test_other_activations() -> None:
    case = make_case(grad=False)
    from unbounded.kernels.gpu import _recurrence

    structure, _, *rest = case.arguments()
    call = (structure.name, structure.options, ("identity", "sigmoid", "sigmoid"), *rest)
    with pytest.raises(errors.ChoiceError, match="value on CUDA"):
        _recurrence.forward(*call, saves=False)


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("kib", [64, 99, 163, 227])
@pytest.mark.parametrize("batch", [1, 20, 33, 1000])
def test_a_tile_fits_into_shared_memory(batch: int, kib: int, itemsize: int) -> None:
    from unbounded.kernels.gpu._launch import CHUNK, STAGES, TILE, tile

    sequences, terms = tile(batch, itemsize, kib * 1024)
    assert STAGES * terms * (TILE + sequences) * itemsize <= kib * 1024
    assert sequences >= min(batch, 64)
    if kib == 227 and itemsize == 4:
        assert terms == CHUNK


def test_reasons_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_not_triton(None) is not None
    assert "3.3 or newer" in str(why_not_triton((3, 2)))
    assert why_not_triton((3, 10)) is None
    assert "7.5" in str(why_not_capability((7, 5)))
    assert why_not_capability((12, 0)) is None
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "C compiler" in str(_device.why_not.__wrapped__(None))
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert "ROCm" in str(_device.why_not.__wrapped__(None))
