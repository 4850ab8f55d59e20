"""The sizes of a call, and the shapes and checks of all its tensors by name."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from unbounded import checks
from unbounded.checks import FLOATING
from unbounded.errors import ChoiceError, DTypeError, ShapeError
from unbounded.kernels._controllers import CONTROLLERS, ControllerKind, Weights
from unbounded.memories.core.state_field import Shape
from unbounded.memories.core.structure import Buffer, CallSizes, Structure

#: The number of steps between checkpoints is a multiple of the first number (csrc/checkpoints.h),
#: and at least the second.
_FEW_STEPS: Final = 8
_LEAST_BLOCK: Final = 64


@dataclass(frozen=True)
class Sizes:
    """The sizes of one call and the derived shapes, each computed at its first use.

    Fields:
        structure: the memory. controller: None for a memory alone.
        steps: T. batch: B. inputs: I. hidden: H. rows: N, of the initial state.
        lanes: values in a register.
    """

    structure: Structure[Any]
    controller: ControllerKind | None
    steps: int
    batch: int
    inputs: int
    hidden: int
    rows: int
    lanes: int

    @property
    def block(self) -> int:
        """Number of steps between checkpoints. The number of checkpoints also grows as sqrt(T).

        A symbolic T requires a formula without an integer root, which would fix T in the graph.
        """
        steps: int | torch.SymInt = self.steps
        if isinstance(steps, torch.SymInt):
            before = torch.sym_float(torch.sym_max(steps - 1, 0))
            root = torch.sym_int(torch.sym_sqrt(before)) + 1  # exact below 2**52
            block: int = torch.sym_max(_LEAST_BLOCK, -(-root // _FEW_STEPS) * _FEW_STEPS)
            return block
        root = math.isqrt(max(self.steps - 1, 0)) + 1
        return max(_LEAST_BLOCK, -(-root // _FEW_STEPS) * _FEW_STEPS)

    @property
    def of_memory(self) -> CallSizes:
        """The sizes on which the memory's buffers depend."""
        return CallSizes(self.steps, self.batch, self.rows, self.lanes)

    @cached_property
    def checkpoint_size(self) -> int:
        """Number of values in a checkpoint of one sequence; 0 without checkpoints."""
        return self.structure.checkpoint_size(self.of_memory)

    def with_steps(self, steps: int) -> Sizes:
        """Return the same sizes with another number of steps."""
        return new_sizes(
            self.structure, self.controller, steps, self.batch, self.inputs, self.hidden,
            self.rows, self.lanes,
        )  # fmt: skip

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Unique names for the memory's fields among the tensors of a call."""
        return tuple(f"memory.{field.name}" for field in self.structure.fields)

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """Names of the other tensors in the state: the controller's tensors and the read vector."""
        return () if self.controller is None else (*self.controller.state, "read_vector")

    @cached_property
    def weights(self) -> dict[str, Shape]:
        """Shapes of the weights; empty for a call that runs only a memory."""
        if self.controller is None:
            return {}
        gates, columns = (
            self.controller.blocks * self.hidden,
            self.inputs + self.structure.read_vector,
        )
        heads = self.structure.head_rows
        return {
            "weight_ih": (gates, columns),
            "weight_hh": (gates, self.hidden),
            "bias_ih": (gates,),
            "bias_hh": (gates,),
            "head_weight": (heads, self.hidden),
            "head_bias": (heads,),
        }

    def state_after(self, steps: int) -> dict[str, Shape]:
        """Shapes of the state after `steps`: of the controller, the read vector and the memory."""
        widths = dict.fromkeys(self.carried, self.hidden) | {
            "read_vector": self.structure.read_vector
        }
        rows = self.structure.rows_after(self.rows, steps)
        return {
            **{name: (self.batch, widths[name]) for name in self.carried},
            **{
                name: (self.batch, *field.with_rows(rows))
                for name, field in zip(self.fields, self.structure.fields, strict=True)
            },
        }

    @cached_property
    def state(self) -> dict[str, Shape]:
        """Shapes of the initial state."""
        return self.state_after(0)

    @cached_property
    def inputs_of_call(self) -> dict[str, Shape]:
        """Shapes of a recurrence's inputs: x, the weights and the state."""
        return {"x": (self.steps, self.batch, self.inputs), **self.weights, **self.state}

    @cached_property
    def instruction(self) -> dict[str, Shape]:
        """Shapes of the instructions of all steps."""
        leading = (self.batch, self.steps)
        return {name: (*leading, *shape) for name, shape in self.structure.heads.items()}

    @cached_property
    def results(self) -> dict[str, Shape]:
        """Shapes of the results: outputs (with a controller), read vectors, and the state."""
        last = {f"{name}_last": shape for name, shape in self.state_after(self.steps).items()}
        if self.controller is None:
            return {"read_vectors": (self.batch, self.steps, self.structure.read_vector), **last}
        leading = (self.steps, self.batch)
        of_steps = {
            "outputs": (*leading, self.hidden),
            "read_vectors": (*leading, self.structure.read_vector),
        }
        return {**of_steps, **last}

    @cached_property
    def saved(self) -> dict[str, Buffer]:
        """Buffers that the memory's forward pass saves, without its checkpoints."""
        saved = self.structure.saved(self.of_memory)
        return {f"saved.{name}": buffer for name, buffer in saved.items()}

    @cached_property
    def kept(self) -> dict[str, Buffer]:
        """All buffers that the forward pass keeps for the backward pass."""
        blocks = (self.steps - 1) // self.block if self.steps and self.checkpoint_size else 0
        checkpoints = Buffer((self.batch, blocks, self.checkpoint_size))
        widths = {}
        if self.controller is not None:
            widths["gates"] = self.controller.lanes * self.hidden
            if self.controller.has_cell:
                widths |= {"cells": self.hidden, "tanh_cells": self.hidden}
        of_controller = {
            name: Buffer((self.steps, self.batch, width)) for name, width in widths.items()
        }
        return {**of_controller, **self.saved, "checkpoints": checkpoints}


_cached_sizes = lru_cache(maxsize=1024)(Sizes)


def new_sizes(structure: Structure[Any], controller: ControllerKind | None, *sizes: int) -> Sizes:
    """Create the sizes of a call; equal sizes are cached.

    Args:
        sizes: steps, batch, inputs, hidden, rows, lanes. Symbolic ones, from a graph that is being
            captured, are not cached.
    """
    if all(type(size) is int for size in sizes):
        return _cached_sizes(structure, controller, *sizes)
    return Sizes(structure, controller, *sizes)


def expect_axes(name: str, tensor: Tensor, axes: str) -> None:
    """Raise ShapeError unless a tensor has as many axes as there are names in `axes`."""
    if tensor.dim() != len(axes.split(", ")):
        raise ShapeError(f"{name}: expected shape [{axes}], got {list(tensor.shape)}.")


def sizes_of_recurrence(
    structure: Structure[Any],
    activations: Sequence[str],
    controller: str,
    x: Tensor,
    weights: Weights,
    state: Sequence[Tensor],
    lanes: int,
) -> Sizes:
    """Derive the sizes from the tensors of a recurrence.

    Raises:
        ChoiceError: unknown controller or activation. ShapeError: too few axes or tensors.
    """
    if controller not in CONTROLLERS:
        raise ChoiceError("controller", controller, CONTROLLERS)
    kind = CONTROLLERS[controller]
    if kind.needs_recurrence and weights.weight_hh is None:
        raise ShapeError(f"weight_hh: a controller {controller} needs it, got None.")
    if len(activations) != len(structure.heads):
        raise ShapeError(
            f"activations: expected {len(structure.heads)} for a {structure.name}, got "
            f"{len(activations)}."
        )
    for head, activation in zip(structure.heads, activations, strict=True):
        known = structure.activations(head)
        if activation not in known:
            raise ChoiceError(f"activation of {head}", activation, known)
    expected = len(kind.state) + 1 + len(structure.fields)
    if len(state) != expected:
        raise ShapeError(
            f"initial: expected {expected} tensors for the controller {controller} and a "
            f"{structure.name}, got {len(state)}."
        )
    expect_axes("x", x, "T, B, I")
    expect_axes("hidden", state[0], "B, H")
    steps, batch, inputs = x.shape
    hidden = state[0].shape[1]
    if hidden == 0:
        raise ShapeError("hidden: expected H of at least 1, got 0.")
    rows = rows_of(structure, state[expected - len(structure.fields) :])
    return new_sizes(structure, kind, steps, batch, inputs, hidden, rows, lanes)


def sizes_of_unroll(
    structure: Structure[Any], instruction: Sequence[Tensor], state: Sequence[Tensor], lanes: int
) -> Sizes:
    """Derive the sizes of a call that runs only a memory, as `sizes_of_recurrence` does."""
    for name, tensors, expected in (
        ("instruction", instruction, structure.heads),
        ("initial", state, structure.fields),
    ):
        if len(tensors) != len(expected):
            raise ShapeError(
                f"{name}: expected {len(expected)} fields for a {structure.name}, got "
                f"{len(tensors)}."
            )
    first = instruction[0]
    if first.dim() < 2:
        raise ShapeError(
            f"{next(iter(structure.heads))}: expected shape [B, T, ...], got {list(first.shape)}."
        )
    batch, steps = first.shape[:2]
    return new_sizes(structure, None, steps, batch, 0, 0, rows_of(structure, state), lanes)


def rows_of(structure: Structure[Any], fields: Sequence[Tensor]) -> int:
    """The number of rows N in the fields of a state; 0 without rows."""
    for field, tensor in zip(structure.fields, fields, strict=True):
        if field.row_axis is not None:
            if tensor.dim() != 1 + len(field.shape):
                axes = ["B", *map(str, field.shape)]
                raise ShapeError(
                    f"{field.name}: expected shape [{', '.join(axes)}], got {list(tensor.shape)}."
                )
            rows = tensor.shape[field.row_axis]
            structure.check_rows(rows)
            return rows
    return 0


def new_results(sizes: Sizes, like: Tensor) -> dict[str, Tensor]:
    """Allocate the results of a call."""
    return {name: like.new_empty(shape) for name, shape in sizes.results.items()}


def new_kept(sizes: Sizes, like: Tensor, names: Collection[str] | None = None) -> dict[str, Tensor]:
    """Allocate the buffers that a call keeps for its backward pass, or the named ones."""
    return {
        name: (like.new_zeros if buffer.starts_zero else like.new_empty)(
            buffer.shape, dtype=torch.int32 if buffer.is_integer else like.dtype
        )
        for name, buffer in sizes.kept.items()
        if names is None or name in names
    }


TensorT = TypeVar("TensorT", bound=Tensor | None)


def check_dtype(name: str, tensor: Tensor) -> None:
    """Raise DTypeError unless the kernels support a tensor's dtype."""
    if tensor.dtype not in FLOATING:
        raise DTypeError(f"{name}: expected one of {list(FLOATING)}, got {tensor.dtype}.")


def require(
    tensors: Mapping[str, Tensor | None],
    shapes: Mapping[str, Shape | Buffer],
    like: Tensor,
    optional: Collection[str] = (),
) -> None:
    """Raise unless tensors are contiguous, of these shapes, and of the device and dtype of `like`.

    Args:
        tensors: by name.
        shapes: by name; a Buffer may be of integers.
        optional: names of tensors that may be None.
    """
    for name, tensor in tensors.items():
        if tensor is None and name in optional:
            continue
        if tensor is None:
            raise ShapeError(f"{name}: expected a tensor, got None.")
        expected = shapes[name]
        buffer = expected if isinstance(expected, Buffer) else Buffer(expected)
        if tensor.shape != buffer.shape:
            got = list(tensor.shape)
            raise ShapeError(f"{name}: expected shape {list(buffer.shape)}, got {got}.")
        dtype = torch.int32 if buffer.is_integer else like.dtype
        if tensor.dtype != dtype:
            raise DTypeError(f"{name}: expected dtype {dtype}, got {tensor.dtype}.")
        if not tensor.is_contiguous() or tensor.device != like.device:
            raise ShapeError(f"{name}: expected a contiguous tensor on {like.device}.")


def named(what: str, tensors: Sequence[TensorT], names: Collection[str]) -> dict[str, TensorT]:
    """Tensors by name.

    Raises:
        ShapeError: the numbers of tensors and names differ; the message begins with `what`.
    """
    if len(tensors) != len(names):
        raise ShapeError(f"{what}: expected {len(names)} tensors, got {len(tensors)}.")
    return dict(zip(names, tensors, strict=True))


def check_lengths(lengths: Tensor | None, batch: int, steps: int | None = None) -> None:
    """Check as `unbounded.checks.check_lengths`, and that lengths are contiguous."""
    checks.check_lengths(lengths, batch, steps)
    if lengths is not None and not lengths.is_contiguous():
        raise ShapeError("lengths: expected a contiguous tensor.")
