"""The fused recurrence as a torch operator, `unbounded::recurrence`, without its gradients.

The operator takes contiguous tensors and has no autograd formula; the `autograd.Function` around it
is in `_autograd`, its backward pass in `_operators_backward`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from unbounded.kernels._buffers import (
    CALL_RESULTS,
    RESULTS,
    Sizes,
    check_lengths,
    new_call,
    new_results,
    require,
    set_pointers,
)
from unbounded.kernels._library import Handle
from unbounded.kernels._registry import define
from unbounded.kernels._session import Session
from unbounded.kernels._shapes import (
    CONTROLLERS,
    DTYPES,
    STRUCTURES,
    first_row,
)


class RecurrenceCall(NamedTuple):
    """What `unbounded::recurrence` is called with, in its order."""

    structure: str
    controller: str
    x: Tensor
    lengths: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    head_weight: Tensor
    head_bias: Tensor
    hidden0: Tensor
    cell0: Tensor
    reading0: Tensor
    values0: Tensor
    strengths0: Tensor
    saves: bool


def _recurrence(*arguments: Any) -> list[Tensor]:
    op = RecurrenceCall(*arguments)
    sizes = Sizes.of(op.structure, op.controller, op.x, op.hidden0, op.values0)
    steps = op.x.shape[0]
    weights = (op.weight_ih, op.weight_hh, op.bias_ih, op.bias_hh)
    initial = (op.hidden0, op.cell0, op.reading0, op.values0, op.strengths0)
    shapes = sizes.inputs_of_call()
    given = (op.x, *weights, op.head_weight, op.head_bias, *initial)
    require(dict(zip(shapes, given, strict=True)), shapes, op.x)
    check_lengths(op.lengths, sizes.steps, sizes.batch)
    if not op.saves:
        session = Session(
            op.structure, op.controller, weights, op.head_weight, op.head_bias, initial, steps
        )
        outputs = session.run(op.x, op.lengths)
        final = session.state()
        # An operator's result must not be one of its arguments.
        kept = final if steps else [tensor.clone() for tensor in final]
        return [outputs, *kept, *(op.x.new_empty(0) for _ in RESULTS[CALL_RESULTS:])]
    results = new_results(sizes, op.x)
    first = first_row(op.structure, steps)
    results["values"][:, first : first + op.values0.shape[1]] = op.values0
    call = new_call(sizes, op.weight_ih)
    set_pointers(
        call,
        {
            "x": op.x,
            "lengths": op.lengths,
            "weight_hh": op.weight_hh,
            "bias_ih": op.bias_ih,
            "bias_hh": op.bias_hh,
            "head_weight": op.head_weight,
            "head_bias": op.head_bias,
            "hidden0": op.hidden0,
            "cell0": op.cell0,
            "reading0": op.reading0,
            "strengths0": op.strengths0,
            **results,
        },
    )
    handle = Handle(
        STRUCTURES[op.structure], CONTROLLERS[op.controller].code, DTYPES[op.x.dtype], call
    )
    handle.run(call)
    handle.finish(call)
    return [results[name] for name in RESULTS]


def _recurrence_fake(*arguments: Any) -> list[Tensor]:
    op = RecurrenceCall(*arguments)
    results = new_results(Sizes.of(op.structure, op.controller, op.x, op.hidden0, op.values0), op.x)
    kept = [results[name] for name in RESULTS]
    if op.saves:
        return kept
    return [*kept[:CALL_RESULTS], *(op.x.new_empty(0) for _ in kept[CALL_RESULTS:])]


RECURRENCE = define(
    "recurrence",
    "(str structure, str controller, Tensor x, Tensor? lengths, Tensor weight_ih, "
    "Tensor? weight_hh, Tensor? bias_ih, Tensor? bias_hh, Tensor head_weight, Tensor head_bias, "
    "Tensor hidden0, Tensor cell0, Tensor reading0, Tensor values0, Tensor strengths0, "
    "bool saves) -> Tensor[]",
    _recurrence,
    _recurrence_fake,
)
