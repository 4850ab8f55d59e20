"""The fused recurrence as torch operators: `unbounded::recurrence` and its backward pass.

The operators accept contiguous tensors and have no autograd formula.
`_fused` wraps them in an `autograd.Function`. A backward pass checks the shapes of the kept
buffers, but cannot detect whether row numbers in them have been changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from torch import Tensor

from unbounded.kernels._call import Call, new_call, point, point_array
from unbounded.kernels._controllers import OPTIONAL_WEIGHTS, Weights, weights_with_gradients
from unbounded.kernels._library import Handle, run_backward
from unbounded.kernels._registry import define, implement, lanes_of
from unbounded.kernels._session import CpuSession
from unbounded.kernels._sizes import (
    Sizes,
    check_dtype,
    check_lengths,
    named,
    new_kept,
    new_results,
    require,
    sizes_of_recurrence,
)
from unbounded.kernels._structures import structure_of

_CALL: Final = (
    "(str structure, int[] options, str[] activations, str controller, Tensor x, Tensor? lengths, "
    "Tensor?[] weights, Tensor[] state, "
)


class Needs(NamedTuple):
    """Whether a backward pass computes the gradients of each group."""

    x: bool
    weights: bool
    state: bool


class Gradients(NamedTuple):
    """The results of the backward operator; an empty list for gradients that are not needed.

    Fields:
        x: one tensor. weights: those of `weights_with_gradients`. state: in the input's order.
    """

    x: list[Tensor]
    weights: list[Tensor]
    state: list[Tensor]


class RecurrenceCall(NamedTuple):
    """The first arguments of both operators, in order."""

    structure: str
    options: Sequence[int]
    activations: Sequence[str]
    controller: str
    x: Tensor
    lengths: Tensor | None
    weights: Sequence[Tensor | None]
    state: Sequence[Tensor]

    @property
    def named_weights(self) -> Weights:
        """The weights by name."""
        return Weights._make(self.weights)

    @property
    def sizes(self) -> Sizes:
        """The sizes of the call."""
        return sizes_of_recurrence(
            structure_of(self.structure, tuple(self.options)), self.activations, self.controller,
            self.x, self.named_weights, self.state, lanes_of(self.x),
        )  # fmt: skip

    def checked(self, sizes: Sizes) -> dict[str, Tensor | None]:
        """The input tensors by name, after checks.

        Raises:
            ShapeError, DTypeError: one disagrees with the sizes; the message names it.
        """
        tensors = dict(zip(sizes.inputs_of_call, (self.x, *self.weights, *self.state), strict=True))
        check_dtype("x", self.x)
        require(tensors, sizes.inputs_of_call, self.x, OPTIONAL_WEIGHTS)
        return tensors


def _call_with(sizes: Sizes, op: RecurrenceCall, tensors: dict[str, Tensor | None]) -> Call:
    """Create a call with the inputs and the forward pass's results."""
    call = new_call(sizes, op.activations)
    last = [f"{name}_last" for name in sizes.fields]
    point_array(call, "state0", [tensors[name] for name in sizes.fields])
    point_array(call, "state_last", [tensors[name] for name in last])
    point_array(call, "saved", [tensors[name] for name in sizes.saved])
    initial = {f"{name}0": tensors[name] for name in sizes.carried}
    in_arrays = {*sizes.fields, *last, *sizes.saved, *sizes.carried}
    plain = {name: tensor for name, tensor in tensors.items() if name not in in_arrays}
    point(call, {"lengths": op.lengths, **initial, **plain})
    return call


class Forward(NamedTuple):
    """The tensors that a saving forward pass writes.

    Fields:
        results, kept: by name; see `Sizes`. errors: error numbers, or None.
    """

    results: dict[str, Tensor]
    kept: dict[str, Tensor]
    errors: Tensor | None

    @classmethod
    def new(cls, sizes: Sizes, like: Tensor) -> Forward:
        """Allocate the tensors."""
        errors = sizes.structure.new_errors(like, sizes.batch, sizes.rows, sizes.steps)
        return cls(new_results(sizes, like), new_kept(sizes, like), errors)


def forward_call(
    sizes: Sizes, op: RecurrenceCall, tensors: dict[str, Tensor | None], written: Forward
) -> Call:
    """Create a forward call that reads `tensors` and writes `written`, both by name."""
    writes = {**written.results, **written.kept, "error": written.errors}
    return _call_with(sizes, op, {**tensors, **writes})


def backward_call(
    sizes: Sizes,
    op: RecurrenceCall,
    tensors: dict[str, Tensor | None],
    of_results: dict[str, Tensor | None],
    gradients: Gradients,
) -> tuple[Call, list[Tensor]]:
    """Create a backward call, and return further tensors that it writes, which must outlive it.

    Args:
        tensors: the inputs, the forward pass's results and kept buffers, by name.
        of_results: the gradients of the results, by name.
        gradients: where it writes the gradients that are needed.
    """
    call = _call_with(sizes, op, tensors)
    names = weights_with_gradients(op.controller, op.named_weights)
    of_weights = dict(zip(names, gradients.weights, strict=True)) if gradients.weights else {}
    of_state = dict(zip(sizes.state, gradients.state, strict=True)) if gradients.state else {}
    last = {f"{name}_last" for name in sizes.fields}
    point_array(call, "grad_state_last", [of_results[f"{name}_last"] for name in sizes.fields])
    point_array(call, "grad_state0", [of_state.get(name) for name in sizes.fields])
    # The gradients of carried tensors are always computed.
    of_carried = {
        f"grad_{name}0": of_state[name] if gradients.state else op.x.new_empty(sizes.state[name])
        for name in sizes.carried
    }
    of_inputs = of_weights | ({"x": gradients.x[0]} if gradients.x else {})
    of_rest = {f"grad_{name}": tensor for name, tensor in of_inputs.items()}
    of_last = {f"grad_{name}": grad for name, grad in of_results.items() if name not in last}
    point(call, {**of_carried, **of_rest, **of_last})
    return call, list(of_carried.values())


# Torch passes arguments after the star in a schema by name, and all others by position.
def _forward(*call: Any, saves: bool) -> tuple[list[Tensor], list[Tensor]]:
    op = RecurrenceCall(*call)
    sizes = op.sizes
    tensors = op.checked(sizes)
    check_lengths(op.lengths, sizes.batch, sizes.steps)
    structure = sizes.structure
    if not saves:
        session = CpuSession(
            structure, op.activations, op.controller, op.named_weights, op.state, sizes.steps
        )
        return [*session.run(op.x, op.lengths), *session.state()], []
    written = Forward.new(sizes, op.x)
    call_of_all = forward_call(sizes, op, tensors, written)
    handle = Handle(op.structure, op.controller, op.x.element_size(), call_of_all)
    handle.run(call_of_all)
    handle.finish(call_of_all)
    structure.check_errors(written.errors)
    return list(written.results.values()), list(written.kept.values())


def _forward_fake(*call: Any, saves: bool) -> tuple[list[Tensor], list[Tensor]]:
    op = RecurrenceCall(*call)
    kept = new_kept(op.sizes, op.x) if saves else {}
    return list(new_results(op.sizes, op.x).values()), list(kept.values())


def backward_inputs(
    op: RecurrenceCall,
    results: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> tuple[dict[str, Tensor | None], dict[str, Tensor], dict[str, Tensor | None]]:
    """The inputs of a backward pass by name: the forward pass's inputs and results, and gradients.

    Raises:
        ShapeError, DTypeError: one disagrees with the sizes; the message names it.
    """
    sizes = op.sizes
    tensors = op.checked(sizes)
    check_lengths(op.lengths, sizes.batch)
    of_forward = {
        **named("results", results, sizes.results),
        **named("kept", kept, sizes.kept),
    }
    require(of_forward, {**sizes.results, **sizes.kept}, op.x)
    of_results = named("grads", grads, sizes.results)
    require(of_results, sizes.results, op.x, tuple(of_results))
    return tensors, of_forward, of_results


def _backward(
    *call: Any,
    results: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> Gradients:
    op, need = RecurrenceCall(*call), Needs(*needs)
    sizes = op.sizes
    tensors, of_forward, of_results = backward_inputs(op, results, kept, grads)
    gradients = new_gradients(op, sizes, need)
    all_of_call, further = backward_call(
        sizes, op, {**tensors, **of_forward}, of_results, gradients
    )
    run_backward(op.structure, op.controller, op.x.element_size(), all_of_call)
    del further
    return gradients


def new_gradients(op: RecurrenceCall, sizes: Sizes, needs: Needs) -> Gradients:
    """Allocate the gradients that are needed."""
    # Without steps or sequences, the sums over them are 0.
    new = op.x.new_empty if sizes.steps * sizes.batch else op.x.new_zeros
    names = weights_with_gradients(op.controller, op.named_weights)
    return Gradients(
        [new(op.x.shape)] if needs.x else [],
        [new(sizes.weights[name]) for name in names] if needs.weights else [],
        [new(shape) for shape in sizes.state.values()] if needs.state else [],
    )


def _backward_fake(
    *call: Any,
    results: Sequence[Tensor],
    kept: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> Gradients:
    op = RecurrenceCall(*call)
    return new_gradients(op, op.sizes, Needs(*needs))


RECURRENCE = define(
    "recurrence", f"{_CALL}*, bool saves) -> (Tensor[] results, Tensor[] kept)", _forward_fake
)
RECURRENCE_BACKWARD = define(
    "recurrence_backward",
    f"{_CALL}*, Tensor[] results, Tensor[] kept, Tensor?[] grads, bool[] needs) "
    "-> (Tensor[] x, Tensor[] weights, Tensor[] state)",
    _backward_fake,
)
implement("recurrence", "cpu", _forward)
implement("recurrence_backward", "cpu", _backward)
