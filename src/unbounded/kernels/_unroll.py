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
from unbounded.kernels._sizes import Sizes, new_buffers, sizes_of_unroll
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
        structure = structure_of(self.structure, self.options)
        lanes = lanes_of(self.instruction[0].element_size()) if self.instruction else 1
        return sizes_of_unroll(structure, self.instruction, self.state, lanes)

    def check(self, sizes: Sizes) -> None:
        """Raise unless the tensors that come in agree with the sizes."""
        like = self.instruction[0]
        check_dtype(next(iter(sizes.instruction())), like)
        # A field of the instruction and one of the state may have the same name.
        for shapes, tensors in (
            (sizes.instruction(), self.instruction),
            (sizes.state(), self.state),
        ):
            require(dict(zip(shapes, tensors, strict=True)), shapes, like)

    def call(self, sizes: Sizes) -> Call:
        """A call with the tensors that come in."""
        call = new_call(sizes)
        point_array(call, "instruction", self.instruction)
        point_array(call, "state0", self.state)
        return call


def results(sizes: Sizes) -> dict[str, Shape]:
    """Shapes of readings and last state, the first results of the forward operator."""
    last = {f"{name}_last": shape for name, shape in sizes.state(sizes.steps).items()}
    return {"readings": (sizes.batch, sizes.steps, sizes.structure.reading)} | last


def _new_results(sizes: Sizes, like: Tensor) -> dict[str, Tensor]:
    made = {name: like.new_empty(shape) for name, shape in results(sizes).items()}
    return made | new_buffers(sizes.saved(), like)


def _point_results(call: Call, sizes: Sizes, tensors: dict[str, Tensor]) -> None:
    fields = [f"{field.name}_last" for field in sizes.structure.fields]
    point_array(call, "state_last", [tensors[name] for name in fields])
    names = sizes.structure.saved(sizes.of_memory)
    point_array(call, "saved", [tensors[name] for name in names])
    point(call, {"checkpoints": tensors["checkpoints"]})


def _forward(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments)
    sizes = op.sizes
    op.check(sizes)
    like, structure = op.instruction[0], sizes.structure
    made = _new_results(sizes, like)
    faults = structure.new_faults(like, sizes.batch, sizes.rows, sizes.steps)
    call = op.call(sizes)
    _point_results(call, sizes, made)
    point(call, {"readings": made["readings"], "fault": faults})
    run_unroll(op.structure, False, like.element_size(), call)
    structure.check_faults(faults)
    return list(made.values())


def _forward_fake(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments)
    return list(_new_results(op.sizes, op.instruction[0]).values())


def _backward(*arguments: Any) -> list[Tensor]:
    op = UnrollCall(*arguments[:-2])
    kept, grads = arguments[-2:]
    sizes, like = op.sizes, op.instruction[0]
    op.check(sizes)
    shapes: dict[str, Shape | Buffer] = {**results(sizes), **sizes.saved()}
    tensors = dict(zip(shapes, kept, strict=True))
    require(tensors, shapes, like)
    of_results = dict(zip(results(sizes), grads, strict=True))
    require(of_results, shapes, like)
    made = _new_gradients(op)
    call = op.call(sizes)
    _point_results(call, sizes, tensors)
    point(call, {"grad_outputs": of_results.pop("readings")})
    point_array(call, "grad_state_last", list(of_results.values()))
    point_array(call, "grad_instruction", made[: len(op.instruction)])
    point_array(call, "grad_state0", made[len(op.instruction) :])
    run_unroll(op.structure, True, like.element_size(), call)
    return made


def _new_gradients(op: UnrollCall) -> list[Tensor]:
    return [torch.empty_like(tensor) for tensor in (*op.instruction, *op.state)]


def _backward_fake(*arguments: Any) -> list[Tensor]:
    return _new_gradients(UnrollCall(*arguments[:-2]))


UNROLL = define("unroll", f"{_CALL}) -> Tensor[]", _forward_fake)
UNROLL_BACKWARD = define(
    "unroll_backward",
    f"{_CALL}, Tensor[] results, Tensor?[] grads) -> Tensor[]",
    _backward_fake,
)
implement("unroll", "cpu", _forward)
implement("unroll_backward", "cpu", _backward)
