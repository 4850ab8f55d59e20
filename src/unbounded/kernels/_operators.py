"""The fused recurrence as torch operators: `unbounded::recurrence` and its backward pass.

The operators take contiguous tensors that have been checked, and have no autograd formula; the
`autograd.Function` around them is in `_autograd`.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from unbounded.kernels._checks import check_length_values
from unbounded.kernels._gradients import (
    empty_weight_gradients,
    input_gradient,
    weight_gradients,
)
from unbounded.kernels._library import Call, Handle, run_backward
from unbounded.kernels._session import Session
from unbounded.kernels._shapes import (
    CONTROLLERS,
    DTYPES,
    PARTS,
    STRUCTURES,
    first_row,
    joint_bias,
    project_input,
)

__all__ = ["CONTROLLERS", "define"]

LIBRARY: Final = torch.library.Library("unbounded", "DEF")  # type: ignore[no-untyped-call]


def define(name: str, schema: str, implementation: object, fake: object) -> None:
    """Register one operator for the CPU."""
    LIBRARY.define(name + schema)  # type: ignore[no-untyped-call]
    LIBRARY.impl(name, implementation, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"unbounded::{name}", fake, lib=LIBRARY)  # type: ignore[arg-type]


#: Results of the forward operator: the first six are the call's, the rest is for backward.
RESULTS: Final = (
    "outputs",
    "hidden_last",
    "cell_last",
    "reading_last",
    "values",
    "strengths",
    "gates",
    "cells",
    "tanh_cells",
    "readings",
    "instructions",
    "deaths",
    "kept",
    "grave_rows",
    "grave_strengths",
    "live_range",
)
CALL_RESULTS: Final = 6


def _results(
    structure: str, controller: str, x: Tensor, hidden0: Tensor, reading0: Tensor, values0: Tensor
) -> dict[str, Tensor]:
    steps, batch, _ = x.shape
    hidden, width, parts = hidden0.shape[1], values0.shape[2], PARTS[structure]
    kind = CONTROLLERS[controller]
    rows, cell = values0.shape[1] + parts * steps, hidden if kind.has_cell else 0
    new, zeros = x.new_empty, x.new_zeros
    # Graves are zeros because most of their room is never written.
    return {
        "outputs": new(steps, batch, hidden),
        "hidden_last": new(batch, hidden),
        "cell_last": new(batch, cell),
        "reading_last": new(batch, reading0.shape[1]),
        "values": new(batch, rows, width),
        "strengths": new(batch, rows),
        "gates": new(steps, batch, kind.lanes * hidden),
        "cells": new(steps, batch, cell),
        "tanh_cells": new(steps, batch, cell),
        "readings": new(steps, batch, reading0.shape[1]),
        "instructions": new(steps, batch, 2 * parts),
        "deaths": new(batch, steps, parts, dtype=torch.int32),
        "kept": new(batch, steps, parts),
        "grave_rows": zeros(batch, rows, dtype=torch.int32),
        "grave_strengths": zeros(batch, rows),
        "live_range": new(batch, 3, dtype=torch.int32),
    }


def _set(call: Call, tensors: dict[str, Tensor | None]) -> None:
    for name, tensor in tensors.items():
        setattr(call, name, None if tensor is None else tensor.data_ptr())


def _sizes(x: Tensor, weight_ih: Tensor, hidden0: Tensor, values0: Tensor) -> Call:
    call = Call()
    call.steps, call.batch, inputs = x.shape
    call.capacity, call.hidden = call.steps, hidden0.shape[1]
    _, call.initial_rows, call.width = values0.shape
    call.saves = 1
    call.weight_ih_stride = weight_ih.shape[1]
    call.weight_ih = weight_ih.data_ptr() + inputs * weight_ih.element_size()
    return call


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
    steps, batch, inputs = x.shape
    check_length_values(lengths, steps)
    if not saves:
        weights = (weight_ih, weight_hh, bias_ih, bias_hh)
        initial = (hidden0, cell0, reading0, values0, strengths0)
        session = Session(structure, controller, weights, head_weight, head_bias, initial, steps)
        outputs = session.run(x, lengths)
        final = session.state()
        # An operator's result must not be one of its arguments.
        given = final if steps else [tensor.clone() for tensor in final]
        return [outputs, *given, *(x.new_empty(0) for _ in RESULTS[CALL_RESULTS:])]
    results = _results(structure, controller, x, hidden0, reading0, values0)
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
    call = _sizes(x, weight_ih, hidden0, values0)
    _set(
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
    results = _results(structure, controller, x, hidden0, reading0, values0)
    kept = [results[name] for name in RESULTS]
    if saves:
        return kept
    return [*kept[:CALL_RESULTS], *(x.new_empty(0) for _ in kept[CALL_RESULTS:])]


def _recurrence_backward(
    structure: str,
    controller: str,
    inputs: list[Tensor],
    lengths: Tensor | None,
    weight_hh: Tensor | None,
    results: list[Tensor],
    grads: list[Tensor | None],
    needs_x: bool,
    needs_weights: bool,
) -> list[Tensor]:
    x, weight_ih, head_weight, hidden0, cell0, reading0, values0, strengths0 = inputs
    kept = dict(zip(RESULTS, results, strict=True))
    grad_outputs, grad_hidden, grad_cell, grad_reading, grad_values, grad_strengths = grads
    steps, batch, _ = x.shape
    kind = CONTROLLERS[controller]
    made = {
        "grad_values": torch.zeros_like(kept["values"])
        if grad_values is None
        else grad_values.clone(memory_format=torch.contiguous_format),
        "grad_gates": torch.empty_like(kept["gates"]),
        "grad_instructions": x.new_empty(steps, batch, head_weight.shape[0]),
        "grad_hidden0": torch.empty_like(hidden0),
        "grad_cell0": torch.empty_like(cell0),
        "grad_reading0": torch.empty_like(reading0),
        "grad_strengths0": x.new_empty(batch, values0.shape[1]),
    }
    call = _sizes(x, weight_ih, hidden0, values0)
    _set(
        call,
        {
            "lengths": lengths,
            "weight_hh": weight_hh,
            "head_weight": head_weight,
            "hidden0": hidden0,
            "cell0": cell0,
            "reading0": reading0,
            "strengths0": strengths0,
            "grad_outputs": grad_outputs,
            "grad_hidden_last": grad_hidden,
            "grad_cell_last": grad_cell,
            "grad_reading_last": grad_reading,
            "grad_strengths_last": grad_strengths,
            **kept,
            **made,
        },
    )
    run_backward(STRUCTURES[structure], kind.code, DTYPES[x.dtype], call)

    grad_gates, grad_instructions = made["grad_gates"], made["grad_instructions"]
    grad_x = x.new_empty(0)
    if needs_x:
        grad_x = input_gradient(controller, grad_gates, weight_ih, x)
    weights = [x.new_empty(0) for _ in range(6)]
    if needs_weights:
        weights = weight_gradients(
            controller, x, weight_hh, grad_gates, grad_instructions, kept, hidden0, reading0
        )
    first = first_row(structure, steps)
    return [
        grad_x,
        *weights,
        made["grad_hidden0"],
        made["grad_cell0"],
        made["grad_reading0"],
        made["grad_values"][:, first : first + values0.shape[1]].clone(),
        made["grad_strengths0"],
    ]


def _recurrence_backward_fake(
    structure: str,
    controller: str,
    inputs: list[Tensor],
    lengths: Tensor | None,
    weight_hh: Tensor | None,
    results: list[Tensor],
    grads: list[Tensor | None],
    needs_x: bool,
    needs_weights: bool,
) -> list[Tensor]:
    x, weight_ih, head_weight, hidden0, cell0, reading0, values0, _ = inputs
    new = x.new_empty
    none = new(0)
    weights = [none] * 6
    if needs_weights:
        weights = empty_weight_gradients(controller, weight_ih, weight_hh, head_weight)
    return [
        new(x.shape) if needs_x else none,
        *weights,
        new(hidden0.shape),
        new(cell0.shape),
        new(reading0.shape),
        new(values0.shape),
        new(values0.shape[:2]),
    ]


define(
    "recurrence",
    "(str structure, str controller, Tensor x, Tensor? lengths, Tensor weight_ih, "
    "Tensor? weight_hh, Tensor? bias_ih, Tensor? bias_hh, Tensor head_weight, Tensor head_bias, "
    "Tensor hidden0, Tensor cell0, Tensor reading0, Tensor values0, Tensor strengths0, "
    "bool saves) -> Tensor[]",
    _recurrence,
    _recurrence_fake,
)
define(
    "recurrence_backward",
    "(str structure, str controller, Tensor[] inputs, Tensor? lengths, Tensor? weight_hh, "
    "Tensor[] results, Tensor?[] grads, bool needs_x, bool needs_weights) -> Tensor[]",
    _recurrence_backward,
    _recurrence_backward_fake,
)
