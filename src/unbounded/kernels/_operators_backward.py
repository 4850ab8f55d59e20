"""The backward pass of `unbounded::recurrence` as an operator of its own.

`results` are those of the forward pass: their shapes are checked, but a call whose row numbers were
changed in between is beyond what can be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.kernels._buffers import (
    RESULTS,
    Sizes,
    check_lengths,
    new_call,
    require,
    set_pointers,
)
from unbounded.kernels._gradients import new_weight_gradients
from unbounded.kernels._library import run_backward
from unbounded.kernels._registry import define
from unbounded.kernels._shapes import CONTROLLERS, DTYPES, STRUCTURES


class BackwardCall(NamedTuple):
    """What `unbounded::recurrence_backward` is called with, in its order."""

    structure: str
    controller: str
    inputs: list[Tensor]
    lengths: Tensor | None
    weight_hh: Tensor | None
    results: list[Tensor]
    grads: list[Tensor | None]
    needs_x: bool
    needs_weights: bool


def _recurrence_backward(*arguments: Any) -> list[Tensor]:
    op = BackwardCall(*arguments)
    x, weight_ih, head_weight, hidden0, cell0, reading0, values0, strengths0 = op.inputs
    sizes = Sizes.of(op.structure, op.controller, x, hidden0, values0)
    names, kept = sizes.results(), dict(zip(RESULTS, op.results, strict=True))
    given = {
        "weight_ih": weight_ih,
        "weight_hh": op.weight_hh,
        "head_weight": head_weight,
        "hidden0": hidden0,
        "cell0": cell0,
        "reading0": reading0,
        "strengths0": strengths0,
    }
    require({"x": x, "values0": values0} | given, sizes.inputs_of_call(), x)
    require(kept, names, x)
    require(dict(zip(RESULTS, op.grads, strict=False)), names, x)
    check_lengths(op.lengths, sizes.steps, sizes.batch)
    grad_outputs, grad_hidden, grad_cell, grad_reading, grad_values, grad_strengths = op.grads
    steps, batch, _ = x.shape
    kind = CONTROLLERS[op.controller]
    made = {
        "grad_hidden0": torch.empty_like(hidden0),
        "grad_cell0": torch.empty_like(cell0),
        "grad_reading0": torch.empty_like(reading0),
        "grad_values0": torch.empty_like(values0),
        "grad_strengths0": x.new_empty(batch, values0.shape[1]),
    }
    weights = new_weight_gradients(
        op.controller, weight_ih, op.weight_hh, head_weight,
        needed=op.needs_weights, steps=steps * batch,
    )  # fmt: skip
    grad_x = torch.empty_like(x) if op.needs_x else x.new_empty(0)
    call = new_call(sizes, weight_ih)
    del given["weight_ih"]  # the call begins at the reading's columns
    set_pointers(
        call,
        {
            "lengths": op.lengths,
            **given,
            "grad_outputs": grad_outputs,
            "grad_hidden_last": grad_hidden,
            "grad_cell_last": grad_cell,
            "grad_reading_last": grad_reading,
            "grad_values_last": grad_values,
            "grad_strengths_last": grad_strengths,
            **kept,
            **made,
            "x": x,
            "grad_x": grad_x if op.needs_x else None,
            **weights,
        },
    )
    run_backward(STRUCTURES[op.structure], kind.code, DTYPES[x.dtype], call)
    return [
        grad_x,
        *weights.values(),
        made["grad_hidden0"],
        made["grad_cell0"],
        made["grad_reading0"],
        made["grad_values0"],
        made["grad_strengths0"],
    ]


def _recurrence_backward_fake(*arguments: Any) -> list[Tensor]:
    op = BackwardCall(*arguments)
    x, weight_ih, head_weight, hidden0, cell0, reading0, values0, _ = op.inputs
    new = x.new_empty
    weights = new_weight_gradients(
        op.controller, weight_ih, op.weight_hh, head_weight,
        needed=op.needs_weights, steps=x.shape[0] * x.shape[1],
    )  # fmt: skip
    return [
        new(x.shape) if op.needs_x else new(0),
        *weights.values(),
        new(hidden0.shape),
        new(cell0.shape),
        new(reading0.shape),
        new(values0.shape),
        new(values0.shape[:2]),
    ]


RECURRENCE_BACKWARD = define(
    "recurrence_backward",
    "(str structure, str controller, Tensor[] inputs, Tensor? lengths, Tensor? weight_hh, "
    "Tensor[] results, Tensor?[] grads, bool needs_x, bool needs_weights) -> Tensor[]",
    _recurrence_backward,
    _recurrence_backward_fake,
)
