"""`unbounded::recurrence` and its backward pass on CUDA, with the programs of this folder.

Kept tensors have the shapes of the CPU's kernels (`Sizes.kept`), but their contents differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.errors import ChoiceError
from unbounded.kernels._checks import check_lengths
from unbounded.kernels._recurrence import (
    Gradients,
    Needs,
    RecurrenceCall,
    backward_inputs,
    new_gradients,
)
from unbounded.kernels._sizes import new_kept, new_results
from unbounded.kernels.gpu import _launch
from unbounded.kernels.gpu._plan import Plan
from unbounded.kernels.gpu._products import make_products, of_inputs, recurrent_weight
from unbounded.kernels.gpu.programs import whole


def forward(*call: Any, saves: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The operator's forward pass."""
    op = RecurrenceCall(*call)
    sizes = op.sizes
    op.checked(sizes)
    check_lengths(op.lengths, sizes.batch, sizes.steps)
    for name, activation in zip(sizes.structure.heads, op.activations, strict=True):
        expected = "tanh" if name.endswith("value") else "sigmoid"
        if activation != expected:
            raise ChoiceError(f"activation of {name} on CUDA", activation, [expected])
    plan = Plan(sizes, op)
    results = new_results(sizes, op.x)
    # Without a backward pass only these buffers are needed.
    kept = new_kept(sizes, op.x, None if saves else ("cells", "saved.pushes_and_pops"))
    for name in sizes.kept:
        kept.setdefault(name, op.x.new_empty(0))
    lengths, weights = plan.lengths(), op.named_weights
    carried = len(op.state) - 2
    values, strengths = results["memory.values_last"], results["memory.strengths_last"]
    strengths.zero_()
    if op.lengths is not None:  # steps beyond a length write nothing
        for tensor in (results["outputs"], results["read_vectors"], values):
            tensor.zero_()
    rows = slice(plan.base, plan.base + sizes.rows)
    values[:, rows], strengths[:, rows] = op.state[carried], op.state[carried + 1]
    bias = weights.head_bias
    if bias is None:
        bias = op.x.new_zeros(sizes.structure.head_rows)
    has_cell = "cells" in sizes.kept
    cells = kept["cells"] if has_cell else results["outputs"]
    has_nan = _has_nan(op.state[carried:])
    numbers = plan.numbers()
    first, second = plan.tiles((sizes.hidden, numbers["UNITS"]), (numbers["K"], numbers["ROWS"]))
    if sizes.steps and sizes.batch:
        _launch.launch(
            whole.forward_program, 0, sizes.steps, (first, second, sizes.batch),
            of_x=of_inputs(plan), weight=recurrent_weight(plan), head_weight=weights.head_weight,
            head_bias=bias, hidden0=op.state[0], outputs=results["outputs"],
            cell0=op.state[1] if has_cell else op.state[0], cells=cells,
            read_vector0=op.state[carried - 1], read_vectors=results["read_vectors"],
            gates=kept["gates"],
            values=values, strengths=strengths, pushes_pops=kept["saved.pushes_and_pops"],
            changes=kept["saved.changes"], kept=kept["saved.kept"],
            grave_codes=kept["saved.grave_rows"], grave_strengths=kept["saved.grave_strengths"],
            has_nan=has_nan, lengths=lengths, **numbers, SAVES=saves,
        )  # fmt: skip
    _last(results, cells, op, lengths, has_cell)
    return list(results.values()), list(kept.values()) if saves else []


def _has_nan(memory: Sequence[Tensor]) -> Tensor:
    """Int32 [B]: whether a sequence's initial memory has a NaN."""
    values, strengths = (field.flatten(1).isnan().any(1) for field in memory)
    return (values | strengths).to(torch.int32)


def _last(
    results: dict[str, Tensor], cells: Tensor, op: RecurrenceCall, lengths: Tensor, has_cell: bool
) -> None:
    """Fill in the controller's state and the read vector after each sequence's last step."""
    histories = {"hidden": results["outputs"], "read_vector": results["read_vectors"]}
    if has_cell:
        histories["cell"] = cells
    names = [name for name in ("hidden", "cell", "read_vector") if name in histories]
    has_steps = (lengths > 0).unsqueeze(1)
    for name, initial in zip(names, op.state, strict=False):
        last = results[f"{name}_last"]
        if not len(op.x):
            last.copy_(initial)
            continue
        place = (lengths - 1).clamp(min=0).view(1, -1, 1).expand(1, -1, initial.shape[1])
        torch.where(has_steps, histories[name].gather(0, place).squeeze(0), initial, out=last)


def backward(
    *call: Any,
    results: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> Gradients:
    """The operator's backward pass."""
    op, need = RecurrenceCall(*call), Needs(*needs)
    sizes = op.sizes
    plan = Plan(sizes, op)
    _, of_forward, of_results = backward_inputs(op, results, kept, grads)
    gradients = new_gradients(op, sizes, need)

    def start_of(name: str) -> Tensor:
        grad = of_results[name]
        return op.x.new_zeros(sizes.results[name]) if grad is None else grad.clone()

    has_cell = "cells" in of_forward
    of_last = {name: start_of(f"{name}_last") for name in (*sizes.carried, *sizes.fields)}
    numbers = plan.numbers()
    new = op.x.new_empty if op.lengths is None else op.x.new_zeros
    of_gates = new(sizes.steps, sizes.batch, plan.lanes * sizes.hidden)
    # A width that is a multiple of 16 allows wide loads.
    beyond = -numbers["K"] % 16
    of_heads = op.x.new_zeros(sizes.steps, sizes.batch, numbers["K"] + beyond)
    head_weight = F.pad(op.named_weights.head_weight.t(), (0, beyond)).contiguous()
    weight = recurrent_weight(plan)
    if sizes.steps and sizes.batch:
        second, third = plan.tiles(
            (sizes.hidden, _launch.TILE), (numbers["R"] + sizes.hidden, numbers["ROWS"])
        )
        _launch.launch(
            whole.backward_program, sizes.steps - 1, sizes.steps, (sizes.batch, second, third),
            weight=weight.t().contiguous(),
            head_weight=head_weight,
            hidden0=op.state[0], outputs=of_forward["outputs"],
            cell0=op.state[1] if has_cell else op.state[0],
            cells=of_forward["cells" if has_cell else "outputs"], gates=of_forward["gates"],
            values=of_forward["memory.values_last"],
            strengths=of_forward["memory.strengths_last"].clone(),
            pushes_pops=of_forward["saved.pushes_and_pops"],
            changes=of_forward["saved.changes"], kept=of_forward["saved.kept"],
            grave_codes=of_forward["saved.grave_rows"],
            grave_strengths=of_forward["saved.grave_strengths"],
            of_strengths=of_last["memory.strengths"], of_values=of_last["memory.values"],
            of_outputs=start_of("outputs"), of_read_vectors=start_of("read_vectors"),
            of_hidden=of_last["hidden"], of_cell=of_last["cell" if has_cell else "hidden"],
            of_read_vector=of_last["read_vector"], of_gates=of_gates, of_heads=of_heads,
            lengths=plan.lengths(), **(numbers | {"UNITS": _launch.TILE, "K": of_heads.shape[-1]}),
        )  # fmt: skip
    if gradients.state:
        rows = slice(plan.base, plan.base + sizes.rows)
        for name, target in zip(sizes.state, gradients.state, strict=True):
            target.copy_(of_last[name][:, rows] if name in sizes.fields else of_last[name])
    make_products(plan, of_forward, of_gates, of_heads[..., : numbers["K"]], gradients)
    return gradients
