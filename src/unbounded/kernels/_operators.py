"""The fused recurrence as a torch operator, `unbounded::recurrence`, without its gradients.

The operator takes contiguous tensors and has no autograd formula; the `autograd.Function` around it
is in `_autograd`, its backward pass in `_operators_backward`.
"""

from __future__ import annotations

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
    joint_bias,
    project_input,
)


def _recurrence(
    structure: str,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor | None,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    head_weight: Tensor,
    head_bias: Tensor,
    hidden0: Tensor,
    cell0: Tensor,
    reading0: Tensor,
    values0: Tensor,
    strengths0: Tensor,
    saves: bool,
) -> list[Tensor]:
    sizes = Sizes.of(structure, controller, x, hidden0, values0)
    steps, batch, inputs = x.shape
    weights = (weight_ih, weight_hh, bias_ih, bias_hh)
    initial = (hidden0, cell0, reading0, values0, strengths0)
    shapes = sizes.inputs_of_call()
    given = (x, *weights, head_weight, head_bias, *initial)
    require(dict(zip(shapes, given, strict=True)), shapes, x)
    check_lengths(lengths, sizes.steps, sizes.batch)
    if not saves:
        session = Session(structure, controller, weights, head_weight, head_bias, initial, steps)
        outputs = session.run(x, lengths)
        final = session.state()
        # An operator's result must not be one of its arguments.
        kept = final if steps else [tensor.clone() for tensor in final]
        return [outputs, *kept, *(x.new_empty(0) for _ in RESULTS[CALL_RESULTS:])]
    results = new_results(sizes, x)
    project_input(
        controller,
        x.reshape(steps * batch, inputs),
        weight_ih[:, :inputs].t(),
        joint_bias(controller, bias_ih, bias_hh),
        bias_hh,
        results["gates"].view(steps * batch, -1),
    )
    first = first_row(structure, steps)
    results["values"][:, first : first + values0.shape[1]] = values0
    call = new_call(sizes, weight_ih)
    set_pointers(
        call,
        {
            "lengths": lengths,
            "weight_hh": weight_hh,
            "head_weight": head_weight,
            "head_bias": head_bias,
            "hidden0": hidden0,
            "cell0": cell0,
            "reading0": reading0,
            "strengths0": strengths0,
            **results,
        },
    )
    handle = Handle(STRUCTURES[structure], CONTROLLERS[controller].code, DTYPES[x.dtype], call)
    handle.run(call)
    handle.finish(call)
    return [results[name] for name in RESULTS]


def _recurrence_fake(
    structure: str,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor | None,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    head_weight: Tensor,
    head_bias: Tensor,
    hidden0: Tensor,
    cell0: Tensor,
    reading0: Tensor,
    values0: Tensor,
    strengths0: Tensor,
    saves: bool,
) -> list[Tensor]:
    results = new_results(Sizes.of(structure, controller, x, hidden0, values0), x)
    kept = [results[name] for name in RESULTS]
    if saves:
        return kept
    return [*kept[:CALL_RESULTS], *(x.new_empty(0) for _ in kept[CALL_RESULTS:])]


define(
    "recurrence",
    "(str structure, str controller, Tensor x, Tensor? lengths, Tensor weight_ih, "
    "Tensor? weight_hh, Tensor? bias_ih, Tensor? bias_hh, Tensor head_weight, Tensor head_bias, "
    "Tensor hidden0, Tensor cell0, Tensor reading0, Tensor values0, Tensor strengths0, "
    "bool saves) -> Tensor[]",
    _recurrence,
    _recurrence_fake,
)
