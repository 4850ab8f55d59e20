"""`unbounded::recurrence` and its backward pass on CUDA, with the programs of this folder.

Kept tensors have the same shapes as in the CPU's kernels (`Sizes.kept`), but other contents. Torch
does the work for all steps at once: weights by lanes, gradients of x and of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from unbounded.errors import ChoiceError
from unbounded.kernels._controllers import CONTROLLERS, weights_with_gradients
from unbounded.kernels._recurrence import (
    Gradients,
    Needs,
    RecurrenceCall,
    backward_inputs,
    new_gradients,
)
from unbounded.kernels._sizes import Sizes, check_lengths, new_kept, new_results
from unbounded.kernels.gpu import _launch
from unbounded.kernels.gpu.programs import whole
from unbounded.kernels.gpu.programs.cells import CELLS
from unbounded.kernels.gpu.programs.rows import KINDS


class Plan(NamedTuple):
    """The sizes of a call for the programs."""

    sizes: Sizes
    op: RecurrenceCall

    @property
    def lanes(self) -> int:
        """Number of sums of products that a unit needs in a step."""
        return CONTROLLERS[self.op.controller].lanes

    @property
    def ends(self) -> int:
        """Number of ends that are pushed, popped and read."""
        return self.sizes.structure.read_vector // self.sizes.structure.options[0]

    @property
    def base(self) -> int:
        """Index of the first initial row."""
        return self.sizes.steps if self.op.structure == "deque" else 0

    @property
    def tile(self) -> tuple[int, int]:
        """Number of sequences in a tile, and of terms that a sum adds at once."""
        return _launch.tile_for(self.sizes.batch, self.op.x)

    def lengths(self) -> Tensor:
        """Lengths as int64 [B]; all are T if no lengths are given."""
        if self.op.lengths is not None:
            return self.op.lengths
        return torch.full(
            (self.sizes.batch,), self.sizes.steps, dtype=torch.int64, device=self.op.x.device
        )

    def numbers(self) -> dict[str, Any]:
        """The programs' arguments other than tensors."""
        sizes, width = self.sizes, self.sizes.structure.options[0]
        read_vector = sizes.structure.read_vector
        return {
            "T": sizes.steps, "B": sizes.batch, "H": sizes.hidden, "R": read_vector,
            "K": sizes.structure.head_rows,
            "N": sizes.structure.rows_after(sizes.rows, sizes.steps), "N0": sizes.rows, "M": width,
            "CELL": CELLS[self.op.controller], "LANES": self.lanes,
            "KIND": KINDS[self.op.structure], "ENDS": self.ends,
            "UNITS": _launch.TILE // self.lanes, "ROWS": _launch.TILE,
            "BATCH": self.tile[0], "CHUNK": self.tile[1],
            "SCAN": _launch.SCAN, "PART": _launch.part(width),
            "WIDTH": triton.next_power_of_2(width),
            "PRECISION": "ieee" if self.op.x.dtype == torch.float64 else "tf32x3",
        }  # fmt: skip

    def tiles(self, *sizes: tuple[int, int]) -> list[int]:
        """Numbers of tiles in the phases, from pairs (rows, rows per tile)."""
        batches = triton.cdiv(self.sizes.batch, self.tile[0])
        return [triton.cdiv(rows, of_tile) * batches for rows, of_tile in sizes]


def _lanes(weight: Tensor, controller: str, is_hidden: bool) -> Tensor:
    """Arrange the rows of a weight or bias by lanes.

    A GRU has separate lanes for the parts of its gate n that come from x and from h.
    """
    if controller != "gru":
        return weight
    r_and_z, n = weight.split([2 * (len(weight) // 3), len(weight) // 3])
    zeros = torch.zeros_like(n)
    return torch.cat([r_and_z, zeros, n] if is_hidden else [r_and_z, n, zeros])


def _blocks(of_lanes: Tensor, controller: str, is_hidden: bool) -> Tensor:
    """Map the gradient of the lanes of a weight or bias to the gradient of its rows."""
    if controller != "gru":
        return of_lanes
    r_and_z, n_of_x, n_of_h = of_lanes.split([2 * (len(of_lanes) // 4), *[len(of_lanes) // 4] * 2])
    return torch.cat([r_and_z, n_of_h if is_hidden else n_of_x])


def recurrent_weight(plan: Plan) -> Tensor:
    """[LANES H, R + H]: the weights of read vector and h."""
    op, weights = plan.op, plan.op.named_weights
    of_read_vector = _lanes(weights.weight_ih[:, plan.sizes.inputs :], op.controller, False)
    if weights.weight_hh is None:
        of_hidden = of_read_vector.new_zeros(len(of_read_vector), plan.sizes.hidden)
    else:
        of_hidden = _lanes(weights.weight_hh, op.controller, True)
    return torch.cat([of_read_vector, of_hidden], dim=1)


def of_inputs(plan: Plan) -> Tensor:
    """[T, B, LANES H]: the part of the lanes from x and the biases."""
    op, weights = plan.op, plan.op.named_weights
    weight = _lanes(weights.weight_ih[:, : plan.sizes.inputs], op.controller, False)
    total = torch.matmul(op.x, weight.t())
    for bias, is_hidden in ((weights.bias_ih, False), (weights.bias_hh, True)):
        if bias is not None:
            total += _lanes(bias, op.controller, is_hidden)
    return total


def make_products(
    plan: Plan, of_forward: dict[str, Any], of_gates: Tensor, of_heads: Tensor, written: Gradients
) -> None:
    """Write the gradients of x and of the weights, which are products over all steps."""
    op, sizes, weights = plan.op, plan.sizes, plan.op.named_weights
    if written.x:
        weight = _lanes(weights.weight_ih[:, : sizes.inputs], op.controller, False)
        torch.matmul(of_gates, weight, out=written.x[0])
    if not written.weights or not of_gates.numel():
        return
    flat = of_gates.flatten(0, 1)
    of_h = of_heads.flatten(0, 1)
    initial = {"read_vectors": op.state[len(sizes.carried) - 1], "outputs": op.state[0]}
    read_vector, hidden = (
        torch.cat([first.unsqueeze(0), of_forward[name][:-1]]).flatten(0, 1)
        for name, first in initial.items()
    )
    inputs = torch.cat([op.x.flatten(0, 1), read_vector], dim=1)
    total = flat.sum(0)
    gradients = {
        "weight_ih": _blocks(flat.t() @ inputs, op.controller, False),
        "weight_hh": _blocks(flat.t() @ hidden, op.controller, True),
        "bias_ih": _blocks(total, op.controller, False),
        "bias_hh": _blocks(total, op.controller, True),
        "head_weight": of_h.t() @ of_forward["outputs"].flatten(0, 1),
        "head_bias": of_h.sum(0),
    }
    names = weights_with_gradients(op.controller, weights)
    for name, target in zip(names, written.weights, strict=True):
        target.copy_(gradients[name])


def forward(*call: Any, saves: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Run the operator's forward pass."""
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
    # Without a backward pass, only these buffers are needed.
    kept = new_kept(sizes, op.x, None if saves else ("cells", "saved.pushes_and_pops"))
    for name in sizes.kept:
        kept.setdefault(name, op.x.new_empty(0))
    lengths, weights = plan.lengths(), op.named_weights
    carried = len(op.state) - 2
    values, strengths = results["memory.values_last"], results["memory.strengths_last"]
    strengths.zero_()
    if op.lengths is not None:  # steps beyond a sequence's length write nothing
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
    """Run the operator's backward pass."""
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
