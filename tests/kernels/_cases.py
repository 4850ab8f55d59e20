"""Random calls of the kernels for every memory, and the reference for comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain, product
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from unbounded.kernels import ControllerWeights, Weights, kernel_of, recurrence, switched
from unbounded.memories import (
    DNC,
    LieAccessMemory,
    Memory,
    NeuralDeque,
    NeuralQueue,
    NeuralStack,
    NondeterministicStack,
    RandomAccessMemory,
    RollingTape,
    SuperpositionList,
    SuperpositionStack,
    TuringTape,
)
from unbounded.memories.register import Register
from unbounded.rnn.controllers import elman_cell, gru_cell, lstm_cell
from unbounded.rnn.heads import apply_heads
from unbounded.rnn.parity import relative_error
from unbounded.rnn.recurrence import RecurrenceState, run_recurrence

#: One of each structure.
MEMORIES: dict[str, Memory[Any, Any]] = {
    "stack": NeuralStack(6),
    "queue": NeuralQueue(6),
    "deque": NeuralDeque(6),
    "superposition_stack": SuperpositionStack(3),
    "superposition_list": SuperpositionList(3),
    "register": Register(19),
    "turing_tape": TuringTape(7, 3),
    "rolling_tape": RollingTape(7, 3, 2),
    "nondeterministic": NondeterministicStack(2, 2, 1, window=6),
    "dnc": DNC(5, 3, 2),
    "lie_access": LieAccessMemory(3),
    "random_access": RandomAccessMemory(3, 2, tape=True, sharpening=True),
}
STRUCTURES = tuple(MEMORIES)
#: Rows that are pushed, cells in superposition, and rows with keys that move or do not. Long sweeps
#: in fast tests take these, and `pytest -m slow` the others.
REPRESENTATIVE = ("deque", "superposition_list", "lie_access", "random_access")
SWEPT = [
    pytest.param(name, marks=[] if name in REPRESENTATIVE else [pytest.mark.slow])
    for name in STRUCTURES
]
#: Variants with other options.
VARIANTS = [
    NeuralStack(45),
    NeuralQueue(17),
    NeuralDeque(33),
    SuperpositionStack(2, depth=4, noop=True),
    SuperpositionStack(1, depth=1, noop=True, capacity=1, overflow="drop_bottom"),
    SuperpositionStack(17, depth=3, capacity=5, overflow="drop_bottom"),
    SuperpositionStack(4, capacity=400),
    SuperpositionList(3, noop=False),
    SuperpositionList(2, depth=4),
    SuperpositionList(1, depth=1, capacity=1, overflow="drop_ends"),
    SuperpositionList(17, depth=3, noop=False, capacity=4, overflow="drop_ends"),
    SuperpositionList(4, capacity=400),
    SuperpositionList(5, depth=3, empty=0),
    SuperpositionList(3, noop=False, capacity=4, overflow="drop_ends", empty=0),
    SuperpositionStack(1, noop=True, empty=0, width=8, activation="identity"),
    SuperpositionStack(3, depth=3, capacity=4, overflow="drop_bottom", width=5, activation="tanh"),
    SuperpositionList(2, depth=3, empty=0.25, width=9, activation="tanh"),
    SuperpositionList(3, noop=False, capacity=3, overflow="drop_ends", width=2),
    TuringTape(21, 5, 2, 3, shift_range=2),
    TuringTape(9, 4, 3, 1, "zero", variant="deleu2016"),
    TuringTape(16, 1, 1, 2, "zero", shift_range=0, reads="before"),
    TuringTape(5, 2, 2, 2, shift_range=2, variant="deleu2016", reads="before"),
    TuringTape(33, 20),
    TuringTape(1, 3, 2, 1),
    TuringTape(1, 2, 1, 2, "zero", variant="deleu2016"),
    TuringTape(2, 4),
    TuringTape(2, 3, shift_range=2, variant="deleu2016"),
    TuringTape(17, 2, shift_range=17),
    NondeterministicStack(1, 1),
    NondeterministicStack(2, 3, window=4),
    NondeterministicStack(3, 3, 2, window=3, normalized=True),
    DNC(17, 4, 1),
    DNC(33, 2, 3),
    DNC(1, 2, 1),
    DNC(18, 5, 2, links=False),
    LieAccessMemory(20, weighting="softmax"),
    LieAccessMemory(5, variant="2017"),
    LieAccessMemory(9, step="normalised_candidate", gates="hard_sigmoid", initial="learned"),
    LieAccessMemory(37, weighting="softmax", step="free", key_size=5, initial="learned"),
    LieAccessMemory(17, "scaling_rotation"),
    LieAccessMemory(65, "rotation", "softmax", key_gate=False, action_gate=False),
    LieAccessMemory(2, "sphere", capacity=6, drop=4),
    LieAccessMemory(33, "sphere", "softmax", action_gate=False, capacity=8),
    LieAccessMemory(3, "bounded_sphere", variant="2017", initial="learned", capacity=6),
    LieAccessMemory(17, "learned_bound_sphere", "softmax", initial="learned", write_heads=2),
    LieAccessMemory(4, "scaling_rotation", "softmax", "bounded", capacity=7, drop=7),
    LieAccessMemory(5, read_heads=3, value_activation="softplus"),
    LieAccessMemory(18, "sphere", "softmax", initial="learned", read_heads=2, write_heads=2),
    LieAccessMemory(3, "rotation", action_gate=False, capacity=6, drop=3, write_heads=2),
    LieAccessMemory(
        4,
        "translation",
        "softmax",
        "bounded",
        key_size=3,
        capacity=9,
        drop=1,
        read_heads=2,
        write_heads=3,
    ),
    RandomAccessMemory(),
    RandomAccessMemory(1, 1, tape=True),
    RandomAccessMemory(33, 5, sharpening=True, initial="learned"),
    RandomAccessMemory(17, 18, tape=True, initial="learned"),
    RandomAccessMemory(66, 2, tape=True, sharpening=True, initial="learned"),
]
DNC_SHARES = ("write_weights", "read_weights", "links", "precedence")
GATES = {"lstm": 4, "gru": 3, "elman_tanh": 1, "elman_sigmoid": 1, "elman_relu": 1}
#: Largest relative error against the reference, by dtype.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
#: Largest relative error that rounding can excuse.
MOST = 1e-3
#: The same in float64.
MOST_IN_64_BITS = 1e-6
#: Multiple of rounding's effect on the reference, for a gradient whose terms cancel.
NOISE = 8


class Case(NamedTuple):
    """A call of `recurrence`, with the memory in place of its declaration."""

    memory: Memory[Any, Any]
    controller: str
    x: Tensor
    lengths: Tensor | None
    weights: Weights
    initial: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        return [t for t in (self.x, *self.weights, *self.initial) if t is not None]

    def arguments(self) -> tuple[Any, ...]:
        activations = tuple(head.activation for head in self.memory.heads)
        return kernel_of(self.memory), activations, *self[1:]


def make_case(
    memory: str | Memory[Any, Any] = "stack",
    controller: str = "lstm",
    steps: int = 7,
    batch: int = 3,
    inputs: int = 4,
    hidden: int = 5,
    rows: int = 2,
    lengths: list[int] | None = None,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    inverse_temperature: float = 1.0,
    grad: bool = True,
    recurrent: bool = True,
    bias: bool = True,
) -> Case:
    """A case whose memory is in a state after some random steps."""
    memory = MEMORIES[memory] if isinstance(memory, str) else memory
    random = torch.Generator().manual_seed(seed)
    read_vector, gates = memory.read_vector_size, GATES[controller] * hidden

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(*shape, generator=random, dtype=torch.float64) * scale
        return drawn.to(dtype).requires_grad_(grad)

    scale = 1 / max(1, inputs + read_vector + hidden) ** 0.5
    heads = []
    for head in memory.heads:
        is_gate = head.activation in ("sigmoid", "softmax")
        heads.append(
            normal(head.size, hidden, scale=(inverse_temperature if is_gate else 1) / hidden**0.5)
        )
    count = sum(head.size for head in memory.heads)
    cells = (normal(batch, hidden),) if controller == "lstm" else ()
    return Case(
        memory,
        controller,
        normal(steps, batch, inputs),
        None if lengths is None else torch.tensor(lengths),
        Weights(
            normal(gates, inputs + read_vector, scale=scale),
            normal(gates, hidden, scale=scale) if recurrent else None,
            normal(gates, scale=0.1) if bias else None,
            normal(gates, scale=0.1) if bias and controller == "gru" else None,
            torch.cat(heads).detach().requires_grad_(grad),
            normal(count, scale=0.1) if memory.head_bias else None,
        ),
        (
            normal(batch, hidden),
            *cells,
            normal(batch, read_vector),
            *make_state(memory, rows, batch, random, dtype, grad),
        ),
    )


def make_state(
    memory: Memory[Any, Any],
    steps: int,
    batch: int,
    random: torch.Generator,
    dtype: torch.dtype,
    grad: bool = True,
) -> tuple[Tensor, ...]:
    """A state after some steps, perturbed so that no cell is exactly empty."""
    with torch.random.fork_rng(devices=[]):  # random initial values use torch's generator
        torch.manual_seed(random.initial_seed() + 1)
        state = memory.initial_state(batch, dtype=torch.float64)
    fields = []
    for field, tensor in zip(memory.state_fields, state, strict=True):
        padded = field.padded(tensor, steps)
        drawn = torch.rand(padded.shape, generator=random, dtype=torch.float64)
        # Weights of a DNC sum to at most 1, which its steps keep; larger ones grow without end.
        most = memory.slots if isinstance(memory, DNC) and field.name in DNC_SHARES else 1
        moved = padded + (drawn if steps else 0 * drawn) / most
        fields.append(moved.to(dtype).requires_grad_(grad))
    return tuple(fields)


def reference(case: Case) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run the case in the reference: h and r of every step, and the final state."""
    *of_controller, head_weight, head_bias = case.weights
    weights = ControllerWeights(*of_controller)

    def cell(inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if case.controller == "lstm":
            return lstm_cell(inputs, state, weights)
        if case.controller == "gru":
            return gru_cell(inputs, state, weights)
        return elman_cell(inputs, state, weights, case.controller.removeprefix("elman_"))

    size = 2 if case.controller == "lstm" else 1
    state = RecurrenceState(
        case.initial[:size], case.initial[size], case.memory.State(*case.initial[size + 1 :])
    )
    outputs, read_vectors, final = run_recurrence(
        cell,
        lambda hidden: apply_heads(case.memory.heads, hidden, head_weight, head_bias),
        case.memory,
        case.x,
        state,
        case.lengths,
    )
    return outputs, (*final.controller, final.read_vector, *final.memory, read_vectors)


def fused(case: Case) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run the case in the kernels; results as for `reference`."""
    outputs, read_vectors, final = recurrence(*case.arguments())
    return outputs, (*final, read_vectors)


def run_and_differentiate(
    function: Any, case: Case, seed: int = 1, chosen: slice = slice(None)
) -> tuple[list[Tensor], ...]:
    """All results, and the gradients of a random weighting of the chosen ones."""
    outputs, final = function(case)
    results = [outputs, *final]
    return results, gradients(results[chosen], case.tensors(), seed)


def gradients(results: list[Tensor], expected: list[Tensor], seed: int = 1) -> list[Tensor]:
    """The gradients of a random weighting of results."""
    random = torch.Generator().manual_seed(seed)
    weights = [torch.randn(r.shape, generator=random, dtype=torch.float64) for r in results]
    loss = sum((r * w.to(r.dtype)).sum() for r, w in zip(results, weights, strict=True))
    return list(torch.autograd.grad(loss, expected, allow_unused=True, materialize_grads=True))


#: Recomputes the reference in float64 after a function changed every input tensor.
Again = Callable[[Callable[[Tensor], Tensor]], list[Tensor]]


def assert_equal_up_to_rounding(
    got: list[Tensor], expected: list[Tensor], again: Again, inputs: Sequence[Tensor] = ()
) -> None:
    """Check that tensors agree with the reference within `TOLERANCE`, or within rounding.

    A gradient can be a small difference of large numbers. Then even the reference in float32
    errs by more than 1e-5. Where the two differ by more, the truth is computed by the
    reference in float64. The error may then be four times the reference's error in
    float32, or the effect of moving the inputs by half a unit of their last float32 digit,
    but never above `MOST`, which a wrong branch at a tie exceeds. In float64 the same
    holds with four units of the last digit, and `MOST_IN_64_BITS`.

    The terms of a gradient can cancel entirely: the weights of a head have no gradient if all
    cells are equal, nor has a key of width 1, nor the key of a single row. Only rounding
    errors remain then. Such a gradient may err by `NOISE` times the effect of rounding
    each intermediate value of the reference (`RoundsEachValue`), if that effect is no more than
    1000 units of the last digit of the largest number compared. With a number near 0, such as
    the initial strength 5e-5 of a learned row, the terms are larger by its inverse.
    This does not apply to results. Numbers below the square of a unit of the last digit of the
    largest number, in both, count as 0.

    Args:
        inputs: the last tensors of `got` and `expected` are their gradients.
    """

    # Computed once for all tensors, and only if needed.
    @cache
    def truths() -> list[Tensor]:
        return again(lambda tensor: tensor)

    @cache
    def moves(dtype: torch.dtype) -> list[list[Tensor]]:
        return [again(rounded_randomly(seed, dtype)) for seed in range(8)]

    @cache
    def noises(dtype: torch.dtype) -> list[list[Tensor]]:
        return rounded_throughout(again, dtype)

    largest = max(float(tensor.detach().abs().max()) for tensor in expected if tensor.numel())
    before = len(expected) - len(inputs)
    for k, (one, other) in enumerate(zip(got, expected, strict=True)):
        assert one.shape == other.shape, (k, one.shape, other.shape)
        error = relative_error(one, other)
        if error <= TOLERANCE[one.dtype]:
            continue
        both = torch.cat([one.detach().flatten(), other.detach().flatten()])
        if float(both.abs().max()) <= torch.finfo(one.dtype).eps ** 2 * largest:  # False for NaN
            continue
        truth = truths()[k]
        moved = (each[k] for each in moves(one.dtype))
        unavoidable = max(relative_error(other, truth), *(relative_error(m, truth) for m in moved))
        most = MOST if one.dtype == torch.float32 else MOST_IN_64_BITS
        allowed = min(most, max(TOLERANCE[one.dtype], 4 * unavoidable))
        if relative_error(one, truth) <= allowed:
            continue
        assert k >= before, (k, error, allowed)
        size = min(1.0, max(1e-6, float(inputs[k - before].detach().abs().max())))
        most = 1000 * torch.finfo(one.dtype).eps * largest / size
        noise = NOISE * max(largest_difference(each[k], truth) for each in noises(one.dtype))
        assert largest_difference(one, truth) <= min(most, noise), (k, error, allowed, noise, most)


def largest_difference(one: Tensor, other: Tensor) -> float:
    """Largest absolute difference; infinite if either tensor is not finite."""
    difference = float((one.detach().double() - other.detach()).abs().max())
    return difference if math.isfinite(difference) else math.inf


def rounded_throughout(again: Again, dtype: torch.dtype) -> list[list[Tensor]]:
    """Eight runs of the reference in float64 with each value rounded to `dtype`'s precision."""
    results = []
    for seed in range(8):
        with RoundsEachValue(rounded_randomly(seed, dtype)):
            results.append(again(rounded_randomly(seed + 8, dtype)))
    return results


class RoundsEachValue(TorchDispatchMode):
    """Passes the result of each operation, forward and backward, through a function.

    This is Monte Carlo arithmetic (Parker 1997): the spread of the results shows the effect of
    rounding in any order of operations.
    """

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._change = change

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        shares = any(value.alias_info is not None for value in func._schema.returns)
        return result if shares else tree_map_only(Tensor, self._rounded, result)

    def _rounded(self, tensor: Tensor) -> Tensor:
        return self._change(tensor) if tensor.dtype == torch.float64 else tensor


def rounded_randomly(seed: int, dtype: torch.dtype = torch.float32) -> Callable[[Tensor], Tensor]:
    """Move numbers by at most half a unit of the last float32 digit, or four float64 units."""
    random = torch.Generator().manual_seed(seed)
    span = 2.0**-23 if dtype == torch.float32 else 2.0**-49

    def move(tensor: Tensor) -> Tensor:
        drawn = torch.rand(tensor.shape, generator=random, dtype=torch.float64)
        return tensor * (1 + (drawn - 0.5) * span)

    return move


def truth_of(
    case: Case,
    change: Callable[[Tensor], Tensor] = lambda tensor: tensor,
    chosen: slice = slice(None),
) -> list[Tensor]:
    """The reference in float64, after `change` was applied to each tensor of the case."""

    def wide(tensor: Tensor | None) -> Any:
        return None if tensor is None else change(tensor.detach().double()).requires_grad_()

    widened = case._replace(
        x=wide(case.x),
        weights=Weights(*map(wide, case.weights)),
        initial=tuple(map(wide, case.initial)),
    )
    return results_and_gradients(reference, widened, chosen)


def results_and_gradients(function: Any, case: Case, chosen: slice = slice(None)) -> list[Tensor]:
    return list(chain(*run_and_differentiate(function, case, chosen=chosen)))


def assert_parity(case: Case, chosen: slice = slice(None)) -> None:
    assert_equal_up_to_rounding(
        results_and_gradients(fused, case, chosen),
        results_and_gradients(reference, case, chosen),
        partial(truth_of, case, chosen=chosen),
        case.tensors(),
    )


def assert_no_division_changes_a_bit(case: Case, threads: Callable[[int], None]) -> None:
    """By rule, by rows and by columns, each with one to three threads."""
    expected = None
    for count, division in product((1, 2, 3), (0, 1, 2)):
        threads(count)
        with switched(division=division):
            results = results_and_gradients(fused, case)
        expected = expected or results
        for one, other in zip(results, expected, strict=True):
            assert torch.equal(one, other), (count, division)
