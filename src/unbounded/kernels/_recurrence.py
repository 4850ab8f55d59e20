"""The fused recurrence as torch operators: `unbounded::recurrence` and its backward pass.

They take contiguous tensors and have no autograd formula; the `autograd.Function` around them is in
`_autograd`. A backward pass checks the shapes of what the forward pass kept, but a call whose row
numbers were changed in between is beyond what can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from torch import Tensor

from unbounded.kernels._call import new_call, point, point_array
from unbounded.kernels._checks import check_dtype, check_lengths, require
from unbounded.kernels._controllers import Weights
from unbounded.kernels._library import Handle, lanes_of, run_backward
from unbounded.kernels._registry import define, implement
from unbounded.kernels._session import Session
from unbounded.kernels._sizes import Sizes, new_buffers, sizes_of_recurrence
from unbounded.kernels.structures import structure_of
from unbounded.kernels.structures.structure import Buffer, Shape

_CALL: Final = (
    "(str structure, int[] options, str[] activations, str controller, Tensor x, Tensor? lengths, "
    "Tensor?[] weights, Tensor[] state, "
)


class Needs(NamedTuple):
    """Of what a backward pass makes gradients."""

    x: bool
    weights: bool
    state: bool


class RecurrenceCall(NamedTuple):
    """What both operators are called with first, in their order."""

    structure: str
    options: Sequence[int]
    activations: Sequence[str]
    controller: str
    x: Tensor
    lengths: Tensor | None
    weights: Sequence[Tensor | None]
    state: Sequence[Tensor]

    @property
    def sizes(self) -> Sizes:
        """The sizes of the call."""
        return sizes_of_recurrence(
            structure_of(self.structure, self.options), self.activations, self.controller, self.x,
            Weights._make(self.weights), self.state, lanes_of(self.x.element_size()),
        )  # fmt: skip

    def inputs(self, sizes: Sizes) -> dict[str, Tensor | None]:
        """The tensors that come in, by name."""
        weights = Weights._make(self.weights)._asdict()
        return {"x": self.x, **weights, **dict(zip(sizes.state(), self.state, strict=True))}

    def check(self, sizes: Sizes) -> None:
        """Raise unless the tensors that come in agree with the sizes."""
        check_dtype("x", self.x)
        shapes = {"x": (sizes.steps, sizes.batch, sizes.inputs)}
        require(self.inputs(sizes), {**shapes, **sizes.weights(), **sizes.state()}, self.x)


def results(sizes: Sizes) -> dict[str, Shape]:
    """Shapes of outputs and last state, the first results of the forward operator."""
    last = {f"{name}_last": shape for name, shape in sizes.state(sizes.steps).items()}
    return {"outputs": (sizes.steps, sizes.batch, sizes.hidden)} | last


def gradients(sizes: Sizes, has_recurrence: bool, needs: Needs) -> dict[str, Shape]:
    """Shapes of the backward operator's results."""
    shapes: dict[str, Shape] = {}
    if needs.x:
        shapes["x"] = (sizes.steps, sizes.batch, sizes.inputs)
    if needs.weights:
        shapes |= sizes.weights()
        if not has_recurrence:
            del shapes["weight_hh"]
        if sizes.controller is not None and not sizes.controller.has_two_biases:
            del shapes["bias_hh"]  # that of bias_ih, which is added to the same sum
    return shapes | (sizes.state() if needs.state else {})


def _new_results(sizes: Sizes, like: Tensor, saves: bool) -> dict[str, Tensor]:
    made = {name: like.new_empty(shape) for name, shape in results(sizes).items()}
    return made | (new_buffers(sizes.kept(), like) if saves else {})


def _forward(*arguments: Any) -> list[Tensor]:
    op, saves = RecurrenceCall(*arguments[:-1]), arguments[-1]
    sizes = op.sizes
    op.check(sizes)
    check_lengths(op.lengths, sizes.batch, sizes.steps)
    structure = sizes.structure
    if not saves:
        weights = Weights._make(op.weights)
        session = Session(structure, op.activations, op.controller, weights, op.state, sizes.steps)
        outputs = session.run(op.x, op.lengths)
        return [outputs, *session.state()]
    made = _new_results(sizes, op.x, True)
    call = new_call(sizes, op.activations)
    faults = structure.new_faults(op.x, sizes.batch, sizes.rows, sizes.steps)
    _point_inputs(call, op, sizes)
    _point_results(call, sizes, made)
    point(call, {"fault": faults})
    handle = Handle(op.structure, op.controller, op.x.element_size(), call)
    handle.run(call)
    handle.finish(call)
    structure.check_faults(faults)
    return list(made.values())


def _point_inputs(call: Any, op: RecurrenceCall, sizes: Sizes) -> None:
    fields = {field.name for field in sizes.structure.fields}
    inputs = op.inputs(sizes)
    point_array(call, "state0", [inputs.pop(field.name) for field in sizes.structure.fields])
    carried = {name: inputs.pop(name) for name in sizes.state() if name not in fields}
    point(call, inputs)
    point(call, {f"{name}0": tensor for name, tensor in carried.items()})
    point(call, {"lengths": op.lengths})


def _point_results(call: Any, sizes: Sizes, tensors: dict[str, Tensor]) -> None:
    """Enter the forward pass's results, memory and its buffers into their arrays."""
    left = dict(tensors)
    last = [left.pop(f"{field.name}_last") for field in sizes.structure.fields]
    saved = [left.pop(name) for name in sizes.structure.saved(sizes.of_memory)]
    point_array(call, "state_last", last)
    point_array(call, "saved", saved)
    point(call, left)


def _forward_fake(*arguments: Any) -> list[Tensor]:
    op, saves = RecurrenceCall(*arguments[:-1]), arguments[-1]
    return list(_new_results(op.sizes, op.x, saves).values())


def _backward(*arguments: Any) -> list[Tensor]:
    op = RecurrenceCall(*arguments[:-3])
    kept, grads, needs = arguments[-3], arguments[-2], Needs(*arguments[-1])
    sizes = op.sizes
    op.check(sizes)
    check_lengths(op.lengths, sizes.batch)
    shapes: dict[str, Shape | Buffer] = {**results(sizes), **sizes.kept()}
    tensors = dict(zip(shapes, kept, strict=True))
    require(tensors, shapes, op.x)
    of_results = dict(zip(results(sizes), grads, strict=True))
    require(of_results, shapes, op.x)
    made = _new_gradients(op, sizes, needs)
    call = new_call(sizes, op.activations)
    _point_inputs(call, op, sizes)
    _point_results(call, sizes, tensors)
    fields = [field.name for field in sizes.structure.fields]
    last = [of_results.pop(f"{name}_last") for name in fields]
    point_array(call, "grad_state_last", last)
    point(call, {f"grad_{name}": grad for name, grad in of_results.items()})
    point_array(call, "grad_state0", [made.get(name) for name in fields])
    carried = {name: shape for name, shape in sizes.state().items() if name not in fields}
    # These are made in any case.
    of_carried = {name: made.get(name, op.x.new_empty(s)) for name, s in carried.items()}
    point(call, {f"grad_{name}0": grad for name, grad in of_carried.items()})
    weights = {name: grad for name, grad in made.items() if name not in sizes.state()}
    point(call, {f"grad_{name}": grad for name, grad in weights.items()})
    run_backward(op.structure, op.controller, op.x.element_size(), call)
    return list(made.values())


def _new_gradients(op: RecurrenceCall, sizes: Sizes, needs: Needs) -> dict[str, Tensor]:
    shapes = gradients(sizes, Weights._make(op.weights).weight_hh is not None, needs)
    # Without a step or a sequence the sums over them are 0.
    new = op.x.new_empty if sizes.steps * sizes.batch else op.x.new_zeros
    return {name: new(shape) for name, shape in shapes.items()}


def _backward_fake(*arguments: Any) -> list[Tensor]:
    op = RecurrenceCall(*arguments[:-3])
    return list(_new_gradients(op, op.sizes, Needs(*arguments[-1])).values())


RECURRENCE = define("recurrence", f"{_CALL}bool saves) -> Tensor[]", _forward_fake)
RECURRENCE_BACKWARD = define(
    "recurrence_backward",
    f"{_CALL}Tensor[] results, Tensor?[] grads, bool[] needs) -> Tensor[]",
    _backward_fake,
)
implement("recurrence", "cpu", _forward)
implement("recurrence_backward", "cpu", _backward)
