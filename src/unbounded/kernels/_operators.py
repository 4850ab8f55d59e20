"""The fused recurrence as torch operators: `unbounded::recurrence` and its backward pass.

The operators take contiguous tensors that `_checks` has seen, and have no autograd formula; the
`autograd.Function` around them is in `_autograd`.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.kernels._library import Call, run

STRUCTURES: Final = {"stack": 0, "queue": 1, "deque": 2}
CONTROLLERS: Final = {"lstm": 0}
PARTS: Final = {"stack": 1, "queue": 1, "deque": 2}
LANES: Final = {"lstm": 4}
HAS_CELL: Final = {"lstm": True}
_DTYPES: Final = {torch.float32: 0, torch.float64: 1}

_LIBRARY = torch.library.Library("unbounded", "DEF")
_LIBRARY.define(
    "recurrence(str structure, str controller, Tensor x, Tensor? lengths, Tensor weight_ih, "
    "Tensor? weight_hh, Tensor? bias_ih, Tensor? bias_hh, Tensor head_weight, Tensor head_bias, "
    "Tensor hidden0, Tensor cell0, Tensor reading0, Tensor values0, Tensor strengths0, "
    "bool saves) -> Tensor[]"
)
_LIBRARY.define(
    "recurrence_backward(str structure, str controller, Tensor[] inputs, Tensor? lengths, "
    "Tensor? weight_hh, Tensor[] results, Tensor?[] grads, bool needs_x, bool needs_weights) "
    "-> Tensor[]"
)

# Results of the forward operator: the first six are the call's, the rest is kept for backward.
RESULTS: Final = (
    "outputs hidden_last cell_last reading_last values strengths "
    "gates cells tanh_cells readings instructions deaths kept grave_rows grave_strengths "
    "live_range"
).split()


def _results(
    structure: str,
    controller: str,
    x: Tensor,
    hidden0: Tensor,
    reading0: Tensor,
    values0: Tensor,
    saves: bool,
) -> dict[str, Tensor]:
    steps, batch, _ = x.shape
    hidden, width, parts = hidden0.shape[1], values0.shape[2], PARTS[structure]
    rows = values0.shape[1] + parts * steps
    kept = steps if saves else 2
    new = x.new_empty
    small = x.new_zeros

    def index(*shape: int) -> Tensor:
        return x.new_zeros(shape, dtype=torch.int32)

    return {
        "outputs": new(steps, batch, hidden),
        "hidden_last": new(batch, hidden),
        "cell_last": new(batch, hidden if HAS_CELL[controller] else 0),
        "reading_last": new(batch, reading0.shape[1]),
        "values": new(batch, rows, width),
        "strengths": new(batch, rows),
        "gates": new(steps, batch, LANES[controller] * hidden),
        "cells": small(kept, batch, hidden if HAS_CELL[controller] else 0),
        "tanh_cells": small(steps if saves else 0, batch, hidden if HAS_CELL[controller] else 0),
        "readings": small(kept, batch, reading0.shape[1]),
        "instructions": small(steps if saves else 1, batch, 2 * parts),
        "deaths": index(batch, steps, parts),
        "kept": small(batch, steps, parts),
        "grave_rows": index(batch, rows),
        "grave_strengths": small(batch, rows),
        "live_range": index(batch, 3),
    }


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _set(call: Call, tensors: dict[str, Tensor | None]) -> None:
    for name, tensor in tensors.items():
        setattr(call, name, _pointer(tensor))


def _first_row(structure: str, steps: int) -> int:
    return steps if structure == "deque" else 0


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
    if lengths is not None and bool(((lengths < 0) | (lengths > steps)).any()):
        raise ShapeError(f"lengths must lie in 0..{steps}, the number of steps")
    results = _results(structure, controller, x, hidden0, reading0, values0, saves)
    bias = bias_ih if bias_hh is None else bias_hh if bias_ih is None else bias_ih + bias_hh
    flat_x = x.reshape(steps * batch, inputs)
    x_weight = weight_ih[:, :inputs].t()
    gates = results["gates"].view(steps * batch, -1)
    if bias is None:
        torch.mm(flat_x, x_weight, out=gates)
    else:
        torch.addmm(bias, flat_x, x_weight, out=gates)
    first = _first_row(structure, steps)
    results["values"][:, first : first + values0.shape[1]] = values0
    call = Call()
    call.steps, call.batch, call.hidden = steps, batch, hidden0.shape[1]
    call.width, call.initial_rows = values0.shape[2], values0.shape[1]
    call.saves = saves
    call.weight_ih_stride = weight_ih.shape[1]
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
    call.weight_ih = weight_ih.data_ptr() + inputs * weight_ih.element_size()
    run("forward", STRUCTURES[structure], CONTROLLERS[controller], _DTYPES[x.dtype], call)
    if not saves:
        for name in RESULTS[6:]:
            results[name] = results[name].new_empty(0)
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
    results = _results(structure, controller, x, hidden0, reading0, values0, saves)
    if not saves:
        for name in RESULTS[6:]:
            results[name] = results[name].new_empty(0)
    return [results[name] for name in RESULTS]


def _weight_gradient(grad: Tensor, earlier: Tensor, before: Tensor) -> Tensor:
    """Sum over t of grad[t]^T earlier[t - 1], where earlier[-1] is `before`."""
    total = torch.mm(grad[0].t(), before)
    if grad.shape[0] > 1:
        total.addmm_(grad[1:].flatten(0, 1).t(), earlier[:-1].flatten(0, 1))
    return total


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
    x, weight_ih, head_weight, hidden0, cell0, reading0, values0 = inputs
    kept = dict(zip(RESULTS, results, strict=True))
    grad_outputs, grad_hidden, grad_cell, grad_reading, grad_values, grad_strengths = grads
    steps, batch, input_size = x.shape
    first = _first_row(structure, steps)
    new = x.new_empty
    made = {
        "grad_values": torch.zeros_like(kept["values"])
        if grad_values is None
        else grad_values.clone(memory_format=torch.contiguous_format),
        "grad_gates": torch.empty_like(kept["gates"]),
        "grad_instructions": new(steps, batch, head_weight.shape[0]),
        "grad_hidden0": torch.empty_like(hidden0),
        "grad_cell0": torch.empty_like(cell0),
        "grad_reading0": torch.empty_like(reading0),
        "grad_strengths0": new(batch, values0.shape[1]),
    }
    call = Call()
    call.steps, call.batch, call.hidden = steps, batch, hidden0.shape[1]
    call.width, call.initial_rows, call.saves = values0.shape[2], values0.shape[1], 1
    call.weight_ih_stride = weight_ih.shape[1]
    _set(
        call,
        {
            "lengths": lengths,
            "weight_hh": weight_hh,
            "head_weight": head_weight,
            "hidden0": hidden0,
            "cell0": cell0,
            "reading0": reading0,
            "grad_outputs": grad_outputs,
            "grad_hidden_last": grad_hidden,
            "grad_cell_last": grad_cell,
            "grad_reading_last": grad_reading,
            "grad_strengths_last": grad_strengths,
            **kept,
            **made,
        },
    )
    call.weight_ih = weight_ih.data_ptr() + input_size * weight_ih.element_size()
    run("backward", STRUCTURES[structure], CONTROLLERS[controller], _DTYPES[x.dtype], call)

    grad_gates, grad_instructions = made["grad_gates"], made["grad_instructions"]
    flat_gates = grad_gates.flatten(0, 1)
    flat_instructions = grad_instructions.flatten(0, 1)
    none = new(0)
    grad_x = none
    if needs_x:
        grad_x = torch.mm(flat_gates, weight_ih[:, :input_size]).view_as(x)
    weights = [none] * 5
    if needs_weights:
        if steps:
            of_reading = _weight_gradient(grad_gates, kept["readings"], reading0)
            of_hidden = _weight_gradient(grad_gates, kept["outputs"], hidden0)
        else:
            of_reading = x.new_zeros(weight_ih.shape[0], reading0.shape[1])
            of_hidden = x.new_zeros(weight_ih.shape[0], hidden0.shape[1])
        weights = [
            torch.cat((torch.mm(flat_gates.t(), x.flatten(0, 1)), of_reading), 1),
            of_hidden,
            flat_gates.sum(0),
            torch.mm(flat_instructions.t(), kept["outputs"].flatten(0, 1)),
            flat_instructions.sum(0),
        ]
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
    x, weight_ih, head_weight, hidden0, cell0, reading0, values0 = inputs
    new = x.new_empty
    none = new(0)
    weights = [none] * 5
    if needs_weights:
        weights = [
            new(weight_ih.shape),
            new(weight_ih.shape[0], hidden0.shape[1]),
            new(weight_ih.shape[0]),
            new(head_weight.shape),
            new(head_weight.shape[0]),
        ]
    return [
        new(x.shape) if needs_x else none,
        *weights,
        new(hidden0.shape),
        new(cell0.shape),
        new(reading0.shape),
        new(values0.shape),
        new(values0.shape[:2]),
    ]


_LIBRARY.impl("recurrence", _recurrence, "CPU")
_LIBRARY.impl("recurrence_backward", _recurrence_backward, "CPU")
torch.library.register_fake("unbounded::recurrence", _recurrence_fake, lib=_LIBRARY)
torch.library.register_fake(
    "unbounded::recurrence_backward", _recurrence_backward_fake, lib=_LIBRARY
)
