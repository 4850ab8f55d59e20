"""The fused recurrence as torch operators: `unbounded::recurrence` and its backward pass.

They take contiguous tensors and have no autograd formula; the `autograd.Function` around them is in
`_autograd`. A backward pass checks the shapes of what the forward pass kept, but a call whose row
numbers were changed in between is beyond what can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from torch import Tensor

from unbounded.kernels._call import Call, new_call, point, point_array
from unbounded.kernels._checks import check_dtype, check_lengths, require
from unbounded.kernels._controllers import OPTIONAL_WEIGHTS, Weights
from unbounded.kernels._library import Handle, lanes_of, run_backward
from unbounded.kernels._registry import define, implement
from unbounded.kernels._session import Session
from unbounded.kernels._sizes import Sizes, new_results, sizes_of_recurrence
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
            structure_of(self.structure, tuple(self.options)), self.activations, self.controller,
            self.x, Weights._make(self.weights), self.state, lanes_of(self.x.element_size()),
        )  # fmt: skip

    def checked(self, sizes: Sizes) -> dict[str, Tensor | None]:
        """The tensors that come in, by name.

        Raises:
            ShapeError, DTypeError: one does not agree with the sizes; the message names it.
        """
        tensors = dict(zip(sizes.inputs_of_call, (self.x, *self.weights, *self.state), strict=True))
        check_dtype("x", self.x)
        require(tensors, sizes.inputs_of_call, self.x, OPTIONAL_WEIGHTS)
        return tensors


def gradients(sizes: Sizes, has_recurrence: bool, needs: Needs) -> dict[str, Shape]:
    """Shapes of the backward operator's results."""
    without = set() if has_recurrence else {"weight_hh"}
    if sizes.controller is not None and not sizes.controller.has_two_biases:
        without.add("bias_hh")  # that of bias_ih, which is added to the same sum
    wanted = {"x"} if needs.x else set()
    wanted |= {*sizes.weights} - without if needs.weights else set()
    wanted |= {*sizes.state} if needs.state else set()
    return {name: shape for name, shape in sizes.inputs_of_call.items() if name in wanted}


def _call_with(sizes: Sizes, op: RecurrenceCall, tensors: dict[str, Tensor | None]) -> Call:
    """A call with the tensors that come in and the forward pass's results."""
    call = new_call(sizes, op.activations)
    last = [f"{name}_last" for name in sizes.fields]
    point_array(call, "state0", [tensors[name] for name in sizes.fields])
    point_array(call, "state_last", [tensors[name] for name in last])
    point_array(call, "saved", [tensors[name] for name in sizes.saved])
    begin = {f"{name}0": tensors[name] for name in sizes.carried}
    in_arrays = {*sizes.fields, *last, *sizes.saved, *sizes.carried}
    plain = {name: tensor for name, tensor in tensors.items() if name not in in_arrays}
    point(call, {"lengths": op.lengths, **begin, **plain})
    return call


def _forward(*arguments: Any) -> list[Tensor]:
    op, saves = RecurrenceCall(*arguments[:-1]), arguments[-1]
    sizes = op.sizes
    tensors = op.checked(sizes)
    check_lengths(op.lengths, sizes.batch, sizes.steps)
    structure = sizes.structure
    if not saves:
        weights = Weights._make(op.weights)
        session = Session(structure, op.activations, op.controller, weights, op.state, sizes.steps)
        outputs = session.run(op.x, op.lengths)
        return [outputs, *session.state()]
    results = new_results(sizes, op.x)
    faults = structure.new_faults(op.x, sizes.batch, sizes.rows, sizes.steps)
    call = _call_with(sizes, op, {**tensors, **results, "fault": faults})
    handle = Handle(op.structure, op.controller, op.x.element_size(), call)
    handle.run(call)
    handle.finish(call)
    structure.check_faults(faults)
    return list(results.values())


def _forward_fake(*arguments: Any) -> list[Tensor]:
    op, saves = RecurrenceCall(*arguments[:-1]), arguments[-1]
    return list(new_results(op.sizes, op.x, saves).values())


def _backward(*arguments: Any) -> list[Tensor]:
    op = RecurrenceCall(*arguments[:-3])
    kept, grads, needs = arguments[-3], arguments[-2], Needs(*arguments[-1])
    sizes = op.sizes
    tensors = op.checked(sizes)
    check_lengths(op.lengths, sizes.batch)
    shapes: dict[str, Shape | Buffer] = {**sizes.results, **sizes.kept}
    results = dict(zip(shapes, kept, strict=True))
    require(results, shapes, op.x)
    of_results = dict(zip(sizes.results, grads, strict=True))
    require(of_results, shapes, op.x, tuple(of_results))
    made = _new_gradients(op, sizes, needs)
    call = _call_with(sizes, op, {**tensors, **results})
    last = [of_results.pop(f"{name}_last") for name in sizes.fields]
    point_array(call, "grad_state_last", last)
    point_array(call, "grad_state0", [made.get(name) for name in sizes.fields])
    # The gradients of what is carried are made in any case.
    of_carried = {
        f"grad_{name}0": made[name] if needs.state else op.x.new_empty(sizes.state[name])
        for name in sizes.carried
    }
    of_rest = {f"grad_{name}": made[name] for name in made if name not in sizes.state}
    of_last = {f"grad_{name}": grad for name, grad in of_results.items()}
    point(call, {**of_carried, **of_rest, **of_last})
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
