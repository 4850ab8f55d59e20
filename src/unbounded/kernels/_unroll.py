"""The fused unroll as torch operators: only a memory, on given instructions, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.kernels._call import Call, new_call, point, point_array
from unbounded.kernels._library import run_unroll
from unbounded.kernels._registry import define, implement, lanes_of
from unbounded.kernels._sizes import (
    Sizes,
    check_dtype,
    named,
    new_kept,
    new_results,
    require,
    sizes_of_unroll,
)
from unbounded.kernels._structures import structure_of

_CALL = "(str structure, int[] options, Tensor[] instruction, Tensor[] state"


class UnrollCall(NamedTuple):
    """The first arguments of both operators, in order."""

    structure: str
    options: Sequence[int]
    instruction: Sequence[Tensor]
    state: Sequence[Tensor]

    @property
    def sizes(self) -> Sizes:
        """The sizes of the call."""
        structure = structure_of(self.structure, tuple(self.options))
        lanes = lanes_of(self.instruction[0]) if self.instruction else 1
        return sizes_of_unroll(structure, self.instruction, self.state, lanes)

    def check(self, sizes: Sizes) -> None:
        """Raise ShapeError or DTypeError unless the inputs agree with the sizes."""
        like = self.instruction[0]
        check_dtype(next(iter(sizes.instruction)), like)
        # A field of the instruction and a field of the state may have the same name.
        for shapes, tensors in (
            (sizes.instruction, self.instruction),
            (sizes.state, self.state),
        ):
            require(dict(zip(shapes, tensors, strict=True)), shapes, like)

    def call(self, sizes: Sizes, results: dict[str, Tensor]) -> Call:
        """Create a call with the inputs and the forward pass's results."""
        call = new_call(sizes)
        point_array(call, "instruction", self.instruction)
        point_array(call, "state0", self.state)
        point_array(call, "state_last", [results[f"{name}_last"] for name in sizes.fields])
        point_array(call, "saved", [results[name] for name in sizes.saved])
        point(call, {name: results[name] for name in ("read_vectors", "checkpoints")})
        return call


def _forward(*call: Any) -> tuple[list[Tensor], list[Tensor]]:
    op = UnrollCall(*call)
    sizes = op.sizes
    op.check(sizes)
    like, structure = op.instruction[0], sizes.structure
    results, kept = new_results(sizes, like), new_kept(sizes, like)
    errors = structure.new_errors(like, sizes.batch, sizes.rows, sizes.steps)
    call_of_all = op.call(sizes, {**results, **kept})
    point(call_of_all, {"error": errors})
    run_unroll(op.structure, False, like.element_size(), call_of_all)
    structure.check_errors(errors)
    return list(results.values()), list(kept.values())


def _forward_fake(*call: Any) -> tuple[list[Tensor], list[Tensor]]:
    op = UnrollCall(*call)
    sizes, like = op.sizes, op.instruction[0]
    return list(new_results(sizes, like).values()), list(new_kept(sizes, like).values())


def _backward(
    *call: Any,
    results: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> tuple[list[Tensor], list[Tensor]]:
    op = UnrollCall(*call)
    sizes, like = op.sizes, op.instruction[0]
    op.check(sizes)
    of_forward = {
        **named("results", results, sizes.results),
        **named("kept", kept, sizes.kept),
    }
    require(of_forward, {**sizes.results, **sizes.kept}, like)
    of_results = named("grads", grads, sizes.results)
    last = [f"{name}_last" for name in sizes.fields]
    require(of_results, sizes.results, like, last)
    of_instruction = [torch.empty_like(tensor) for tensor in op.instruction]
    of_state = [torch.empty_like(tensor) for tensor in op.state]
    call_of_all = op.call(sizes, of_forward)
    point(call_of_all, {"grad_read_vectors": of_results["read_vectors"]})
    point_array(call_of_all, "grad_state_last", [of_results[name] for name in last])
    point_array(call_of_all, "grad_instruction", of_instruction)
    point_array(call_of_all, "grad_state0", of_state)
    run_unroll(op.structure, True, like.element_size(), call_of_all)
    return of_instruction, of_state


def _backward_fake(
    *call: Any,
    results: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> tuple[list[Tensor], list[Tensor]]:
    op = UnrollCall(*call)
    return list(map(torch.empty_like, op.instruction)), list(map(torch.empty_like, op.state))


UNROLL = define("unroll", f"{_CALL}) -> (Tensor[] results, Tensor[] kept)", _forward_fake)
UNROLL_BACKWARD = define(
    "unroll_backward",
    f"{_CALL}, *, Tensor[] results, Tensor[] kept, Tensor?[] grads) "
    "-> (Tensor[] instruction, Tensor[] state)",
    _backward_fake,
)
implement("unroll", "cpu", _forward)
implement("unroll_backward", "cpu", _backward)
