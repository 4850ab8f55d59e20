"""The fused unroll as torch operators: a memory alone, on given instructions, and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.kernels._call import Call, new_call, point, point_array
from unbounded.kernels._checks import check_dtype, require
from unbounded.kernels._library import lanes_of, run_unroll
from unbounded.kernels._registry import define, implement
from unbounded.kernels._sizes import Sizes, new_results, sizes_of_unroll
from unbounded.kernels.structures import structure_of
from unbounded.kernels.structures.structure import Buffer, Shape

_CALL = "(str structure, int[] options, Tensor[] instruction, Tensor[] state"


class UnrollCall(NamedTuple):
    """What both operators are called with first, in their order."""

    structure: str
    options: Sequence[int]
    instruction: Sequence[Tensor]
    state: Sequence[Tensor]

    @property
    def sizes(self) -> Sizes:
        """The sizes of the call."""
        structure = structure_of(self.structure, tuple(self.options))
        lanes = lanes_of(self.instruction[0].element_size()) if self.instruction else 1
        return sizes_of_unroll(structure, self.instruction, self.state, lanes)

    def check(self, sizes: Sizes) -> None:
        """Raise ShapeError or DTypeError unless the tensors that come in agree with the sizes."""
        like = self.instruction[0]
        check_dtype(next(iter(sizes.instruction)), like)
        # A field of the instruction and one of the state may have the same name.
        for shapes, tensors in (
            (sizes.instruction, self.instruction),
            (sizes.state, self.state),
        ):
            require(dict(zip(shapes, tensors, strict=True)), shapes, like)

    def call(self, sizes: Sizes, results: dict[str, Tensor]) -> Call:
        """A call with the tensors that come in and the forward pass's results."""
        call = new_call(sizes)
        point_array(call, "instruction", self.instruction)
        point_array(call, "state0", self.state)
        point_array(call, "state_last", [results[f"{name}_last"] for name in sizes.fields])
        point_array(call, "saved", [results[name] for name in sizes.saved])
        point(call, {name: results[name] for name in ("readings", "checkpoints")})
        return call


def _forward(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments)
    sizes = op.sizes
    op.check(sizes)
    like, structure = op.instruction[0], sizes.structure
    results = new_results(sizes, like)
    faults = structure.new_faults(like, sizes.batch, sizes.rows, sizes.steps)
    call = op.call(sizes, results)
    point(call, {"fault": faults})
    run_unroll(op.structure, False, like.element_size(), call)
    structure.check_faults(faults)
    return list(results.values())


def _forward_fake(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments)
    return list(new_results(op.sizes, op.instruction[0]).values())


def _backward(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments[:-2])
    kept, grads = arguments[-2:]
    sizes, like = op.sizes, op.instruction[0]
    op.check(sizes)
    shapes: dict[str, Shape | Buffer] = {**sizes.results, **sizes.kept}
    results = dict(zip(shapes, kept, strict=True))
    require(results, shapes, like)
    of_results = dict(zip(sizes.results, grads, strict=True))
    last = [f"{name}_last" for name in sizes.fields]
    require(of_results, shapes, like, last)
    of_instruction = [torch.empty_like(tensor) for tensor in op.instruction]
    of_state = [torch.empty_like(tensor) for tensor in op.state]
    call = op.call(sizes, results)
    point(call, {"grad_outputs": of_results["readings"]})
    point_array(call, "grad_state_last", [of_results[name] for name in last])
    point_array(call, "grad_instruction", of_instruction)
    point_array(call, "grad_state0", of_state)
    run_unroll(op.structure, True, like.element_size(), call)
    return [*of_instruction, *of_state]


def _backward_fake(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments[:-2])
    return [torch.empty_like(tensor) for tensor in (*op.instruction, *op.state)]


UNROLL = define("unroll", f"{_CALL}) -> Tensor[]", _forward_fake)
UNROLL_BACKWARD = define(
    "unroll_backward",
    f"{_CALL}, Tensor[] results, Tensor?[] grads) -> Tensor[]",
    _backward_fake,
)
implement("unroll", "cpu", _forward)
implement("unroll_backward", "cpu", _backward)
