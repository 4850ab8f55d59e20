"""The fused recurrence of superposition memories as torch operators.

`unbounded::superposition` and its backward pass take contiguous tensors;
the `autograd.Function` around them is in `_superposition`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.kernels._buffers import require
from unbounded.kernels._gradients import new_weight_gradients
from unbounded.kernels._library import Call, Handle, run_backward
from unbounded.kernels._registry import define
from unbounded.kernels._shapes import CONTROLLERS, DTYPES
from unbounded.kernels._superposition_shapes import MixtureSizes, check_call, sizes_of_call

#: Results of the forward operator: the first five are the call's, the rest is for backward.
RESULTS: Final = (
    "outputs",
    "hidden_last",
    "cell_last",
    "reading_last",
    "memory_last",
    "gates",
    "cells",
    "tanh_cells",
    "readings",
    "planes",
    "checkpoints",
)
CALL_RESULTS: Final = 5


def _results(
    sizes: MixtureSizes, controller: str, x: Tensor, hidden0: Tensor, saves: bool
) -> dict[str, Tensor]:
    steps, batch, _ = x.shape
    hidden, kind, new = hidden0.shape[1], CONTROLLERS[controller], x.new_empty
    cell, reading = hidden if kind.has_cell else 0, sizes.number * sizes.depth
    ring = steps if saves else 2
    return {
        "outputs": new(steps, batch, hidden),
        "hidden_last": new(batch, hidden),
        "cell_last": new(batch, cell),
        "reading_last": new(batch, reading),
        "memory_last": new(batch, sizes.number, sizes.grown(steps)),
        "gates": new(steps, batch, kind.lanes * hidden),
        "cells": new(ring, batch, cell),
        "tanh_cells": new(ring, batch, cell),
        "readings": new(ring, batch, reading),
        **sizes.saved(x, batch, steps, saves=saves),
    }


def _call(
    sizes: MixtureSizes,
    x: Tensor,
    weight_ih: Tensor,
    hidden0: Tensor,
    tensors: dict[str, Tensor | None],
) -> Call:
    call = Call()
    sizes.set(call, x.shape[0])
    call.batch, call.hidden = hidden0.shape
    call.weight_ih_stride, call.inputs = weight_ih.shape[1], x.shape[2]
    call.weight_ih = weight_ih.data_ptr() + x.shape[2] * weight_ih.element_size()
    for name, tensor in tensors.items():
        if tensor is not None:
            # An empty tensor has no address.
            setattr(call, name, tensor.data_ptr() or None)
    return call


class SuperpositionCall(NamedTuple):
    """What `unbounded::superposition` is called with, in its order."""

    structure: str
    controller: str
    x: Tensor
    lengths: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    head_weight: Tensor
    head_bias: Tensor | None
    hidden0: Tensor
    cell0: Tensor
    reading0: Tensor
    memory0: Tensor
    capacity: int
    strict: bool
    saves: bool


def _superposition(*arguments: Any) -> list[Tensor]:
    op = SuperpositionCall(*arguments)
    sizes = sizes_of_call(
        op.structure, op.head_weight, op.reading0, op.memory0, op.capacity, op.strict
    )
    tensors = {
        "weight_ih": op.weight_ih,
        "weight_hh": op.weight_hh,
        "bias_ih": op.bias_ih,
        "bias_hh": op.bias_hh,
        "head_bias": op.head_bias,
        "cell0": op.cell0,
        "reading0": op.reading0,
        "memory0": op.memory0,
    }
    check_call(sizes, op.controller, op.x, op.lengths, op.head_weight, op.hidden0, tensors)
    steps, batch, _ = op.x.shape
    results = _results(sizes, op.controller, op.x, op.hidden0, op.saves)
    overflow = sizes.overflow(op.x, batch, steps)
    given = {
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
        "memory0": op.memory0,
        "overflow": overflow,
        **results,
    }
    call = _call(sizes, op.x, op.weight_ih, op.hidden0, given)
    call.saves = int(op.saves)
    handle = Handle(sizes.code, CONTROLLERS[op.controller].code, DTYPES[op.x.dtype], call)
    handle.run(call)
    handle.finish(call)
    sizes.check_overflow(overflow)
    if steps == 0:
        for name, before in (("hidden", op.hidden0), ("cell", op.cell0), ("reading", op.reading0)):
            results[f"{name}_last"].copy_(before)
    return _kept(results, op.saves)


def _kept(results: dict[str, Tensor], saves: bool) -> list[Tensor]:
    kept = [results[name] for name in RESULTS]
    if saves:
        return kept
    return [*kept[:CALL_RESULTS], *(kept[0].new_empty(0) for _ in kept[CALL_RESULTS:])]


def _superposition_fake(*arguments: Any) -> list[Tensor]:
    op = SuperpositionCall(*arguments)
    sizes = sizes_of_call(
        op.structure, op.head_weight, op.reading0, op.memory0, op.capacity, op.strict
    )
    return _kept(_results(sizes, op.controller, op.x, op.hidden0, op.saves), op.saves)


class BackwardCall(NamedTuple):
    """What `unbounded::superposition_backward` is called with, in its order."""

    structure: str
    controller: str
    inputs: list[Tensor]
    lengths: Tensor | None
    weight_hh: Tensor | None
    results: list[Tensor]
    grads: list[Tensor | None]
    capacity: int
    needs_x: bool
    needs_weights: bool
    needs_memory: bool


def _superposition_backward(*arguments: Any) -> list[Tensor]:
    op = BackwardCall(*arguments)
    x, weight_ih, head_weight, hidden0, cell0, reading0, memory0 = op.inputs
    kept = dict(zip(RESULTS, op.results, strict=True))
    sizes = sizes_of_call(op.structure, head_weight, reading0, memory0, op.capacity, False)
    tensors = {
        "weight_ih": weight_ih,
        "weight_hh": op.weight_hh,
        "cell0": cell0,
        "reading0": reading0,
        "memory0": memory0,
    }
    check_call(sizes, op.controller, x, op.lengths, head_weight, hidden0, tensors)
    steps, batch, _ = x.shape
    like = x.new_empty(x.shape, device="meta")
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in _results(sizes, op.controller, like, hidden0, saves=True).items()
    }
    require(kept, shapes, x)
    names = RESULTS[:CALL_RESULTS]
    require(dict(zip(names, op.grads, strict=True)), shapes, x)
    made = {
        "grad_hidden0": torch.empty_like(hidden0),
        "grad_cell0": torch.empty_like(cell0),
        "grad_reading0": torch.empty_like(reading0),
    }
    if op.needs_memory:
        made["grad_memory0"] = torch.empty_like(memory0)
    weights = new_weight_gradients(
        op.controller, weight_ih, op.weight_hh, head_weight,
        needed=op.needs_weights, steps=steps * batch,
    )  # fmt: skip
    of_x = torch.empty_like(x) if op.needs_x else x.new_empty(0)
    given = {
        "lengths": op.lengths,
        "x": x,
        "grad_x": of_x if op.needs_x else None,
        **weights,
        "weight_hh": op.weight_hh,
        "head_weight": head_weight,
        "hidden0": hidden0,
        "cell0": cell0,
        "reading0": reading0,
        "memory0": memory0,
        **{f"grad_{name}": grad for name, grad in zip(names, op.grads, strict=True)},
        **kept,
        **made,
    }
    call = _call(sizes, x, weight_ih, hidden0, given)
    call.saves = 1
    run_backward(sizes.code, CONTROLLERS[op.controller].code, DTYPES[x.dtype], call)
    return [
        of_x,
        *weights.values(),
        made["grad_hidden0"],
        made["grad_cell0"],
        made["grad_reading0"],
        made["grad_memory0"] if op.needs_memory else x.new_empty(0),
    ]


def _superposition_backward_fake(*arguments: Any) -> list[Tensor]:
    op = BackwardCall(*arguments)
    x, weight_ih, head_weight, *initial = op.inputs
    weights = new_weight_gradients(
        op.controller, weight_ih, op.weight_hh, head_weight,
        needed=op.needs_weights, steps=x.shape[0] * x.shape[1],
    )  # fmt: skip
    *of_initial, of_memory = (torch.empty_like(tensor) for tensor in initial)
    return [
        torch.empty_like(x) if op.needs_x else x.new_empty(0),
        *weights.values(),
        *of_initial,
        of_memory if op.needs_memory else x.new_empty(0),
    ]


SUPERPOSITION = define(
    "superposition",
    "(str structure, str controller, Tensor x, Tensor? lengths, Tensor weight_ih, "
    "Tensor? weight_hh, Tensor? bias_ih, Tensor? bias_hh, Tensor head_weight, Tensor? head_bias, "
    "Tensor hidden0, Tensor cell0, Tensor reading0, Tensor memory0, int capacity, bool strict, "
    "bool saves) -> Tensor[]",
    _superposition,
    _superposition_fake,
)
SUPERPOSITION_BACKWARD = define(
    "superposition_backward",
    "(str structure, str controller, Tensor[] inputs, Tensor? lengths, Tensor? weight_hh, "
    "Tensor[] results, Tensor?[] grads, int capacity, bool needs_x, bool needs_weights, "
    "bool needs_memory) -> Tensor[]",
    _superposition_backward,
    _superposition_backward_fake,
)
