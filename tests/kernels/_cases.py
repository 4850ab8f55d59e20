"""Random calls of the recurrence and the reference beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.kernels import ControllerWeights, recurrence
from unbounded.layers.controllers import elman_cell, gru_cell, lstm_cell
from unbounded.layers.parity import relative_error
from unbounded.layers.recurrence import MemoryRNNState, run_recurrence
from unbounded.memories import NeuralDeque, NeuralQueue, NeuralStack

MEMORIES = {"stack": NeuralStack, "queue": NeuralQueue, "deque": NeuralDeque}
GATES = {"lstm": 4, "gru": 3, "elman_tanh": 1, "elman_sigmoid": 1, "elman_relu": 1}
#: Relative error allowed against the reference, by dtype.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
#: Relative error that no rounding excuses.
MOST = 1e-3


class Case(NamedTuple):
    structure: str
    controller: str
    x: Tensor
    lengths: Tensor | None
    weights: ControllerWeights
    head_weight: Tensor
    head_bias: Tensor
    initial: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        given = [self.x, *self.weights, self.head_weight, self.head_bias, *self.initial]
        return [tensor for tensor in given if tensor is not None]


def make_case(
    structure: str = "stack",
    controller: str = "lstm",
    steps: int = 7,
    batch: int = 3,
    inputs: int = 4,
    hidden: int = 5,
    width: int = 6,
    rows: int = 2,
    lengths: list[int] | None = None,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
    sharpness: float = 1.0,
    grad: bool = True,
    recurrent: bool = True,
    bias: bool = True,
) -> Case:
    random = torch.Generator().manual_seed(seed)
    parts = 2 if structure == "deque" else 1
    reading, gates = parts * width, GATES[controller] * hidden

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(*shape, generator=random, dtype=torch.float64) * scale
        return drawn.to(dtype).requires_grad_(grad)

    scale = 1 / max(1, inputs + reading + hidden) ** 0.5
    head_weight = torch.randn(parts * (width + 2), hidden, generator=random, dtype=torch.float64)
    head_weight = head_weight / hidden**0.5
    for part in range(parts):
        head_weight[(width + 2) * part + width : (width + 2) * (part + 1)] *= sharpness
    strengths = torch.rand(batch, rows, generator=random, dtype=torch.float64).to(dtype)
    cells = (normal(batch, hidden),) if controller == "lstm" else ()
    return Case(
        structure,
        controller,
        normal(steps, batch, inputs),
        None if lengths is None else torch.tensor(lengths),
        ControllerWeights(
            normal(gates, inputs + reading, scale=scale),
            normal(gates, hidden, scale=scale) if recurrent else None,
            normal(gates, scale=0.1) if bias else None,
            normal(gates, scale=0.1) if bias and controller == "gru" else None,
        ),
        head_weight.to(dtype).requires_grad_(grad),
        normal(parts * (width + 2), scale=0.1),
        (
            normal(batch, hidden),
            *cells,
            normal(batch, reading),
            normal(batch, rows, width),
            strengths.requires_grad_(grad),
        ),
    )


def reference(
    structure: str,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weights: ControllerWeights,
    head_weight: Tensor,
    head_bias: Tensor,
    initial: tuple[Tensor, ...],
) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
    memory = MEMORIES[structure](initial[-2].shape[-1])
    parts = 2 if structure == "deque" else 1

    def heads(hidden: Tensor) -> tuple[Tensor, ...]:
        raw = torch.nn.functional.linear(hidden, head_weight, head_bias)
        fields: list[Tensor] = []
        for part in raw.chunk(parts, -1):
            fields += [torch.tanh(part[:, :-2]), *torch.sigmoid(part[:, -2:]).unbind(-1)]
        return tuple(fields)

    def cell(inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if controller == "lstm":
            return lstm_cell(inputs, state, weights)
        if controller == "gru":
            return gru_cell(inputs, state, weights)
        return elman_cell(inputs, state, weights, controller.removeprefix("elman_"))

    *controller_state, reading, values, strengths = initial
    state = MemoryRNNState(tuple(controller_state), reading, memory.State(values, strengths))
    outputs, final = run_recurrence(cell, heads, memory, x, state, lengths)
    return (
        outputs,
        (*final.controller, final.reading, final.memory.values, final.memory.strengths),
        final.memory.values,
    )


def run_and_differentiate(function: Any, case: Case, seed: int = 1) -> tuple[list[Tensor], ...]:
    """Outputs and final state, and the gradients of a random weighting of them all."""
    outputs, final, _ = function(*case)
    results = [outputs, *final]
    random = torch.Generator().manual_seed(seed)
    weights = [torch.randn(r.shape, generator=random, dtype=torch.float64) for r in results]
    loss = sum((r * w.to(r.dtype)).sum() for r, w in zip(results, weights, strict=True))
    given = case.tensors()
    grads = torch.autograd.grad(loss, given, allow_unused=True)
    grads = [torch.zeros_like(t) if g is None else g for g, t in zip(grads, given, strict=True)]
    return results, grads


#: Passes every given tensor through a function and computes the reference again, in float64.
Again = Callable[[Callable[[Tensor], Tensor]], list[Tensor]]


def assert_equal_up_to_rounding(got: list[Tensor], wanted: list[Tensor], again: Again) -> None:
    """Each tensor within `TOLERANCE` of the reference, where float32 can say it that exactly.

    A gradient can be a small difference of large numbers, and then the reference in float32 is
    itself further than 1e-5 from the truth. Where the two differ by more, the truth is computed:
    the reference in float64. The error allowed from there is four times what the reference errs in
    float32, or what moving the given numbers by half a unit of their last float32 digit changes,
    and never above `MOST`: what a wrong branch at a tie does is more than that.
    """
    for k, (one, other) in enumerate(zip(got, wanted, strict=True)):
        assert one.shape == other.shape, (k, one.shape, other.shape)
        error = relative_error(one, other)
        if error <= TOLERANCE[one.dtype]:
            continue
        assert one.dtype == torch.float32, (k, error)
        truth = again(lambda tensor: tensor)[k]
        moved = (again(rounded_otherwise(seed))[k] for seed in range(8))
        unavoidable = max(relative_error(other, truth), *(relative_error(m, truth) for m in moved))
        allowed = min(MOST, max(TOLERANCE[one.dtype], 4 * unavoidable))
        assert relative_error(one, truth) <= allowed, (k, error, allowed)


def rounded_otherwise(seed: int) -> Callable[[Tensor], Tensor]:
    """Moves numbers by at most half a unit of their last float32 digit."""
    random = torch.Generator().manual_seed(seed)

    def move(tensor: Tensor) -> Tensor:
        drawn = torch.rand(tensor.shape, generator=random, dtype=torch.float64)
        return tensor * (1 + (drawn - 0.5) * 2.0**-23)

    return move


def truth_of(
    case: Case, change: Callable[[Tensor], Tensor] = lambda tensor: tensor
) -> list[Tensor]:
    """The reference in float64, after each tensor of the case went through `change`."""

    def wide(tensor: Tensor | None) -> Any:
        return None if tensor is None else change(tensor.detach().double()).requires_grad_()

    widened = case._replace(
        x=wide(case.x),
        weights=ControllerWeights(*map(wide, case.weights)),
        head_weight=wide(case.head_weight),
        head_bias=wide(case.head_bias),
        initial=tuple(map(wide, case.initial)),
    )
    return results_and_gradients(reference, widened)


def results_and_gradients(function: Any, case: Case) -> list[Tensor]:
    return list(chain(*run_and_differentiate(function, case)))


def assert_parity(case: Case) -> None:
    assert_equal_up_to_rounding(
        results_and_gradients(recurrence, case),
        results_and_gradients(reference, case),
        partial(truth_of, case),
    )
