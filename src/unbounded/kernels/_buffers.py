"""The tensors of a fused recurrence: their shapes in one place, to allocate and check them by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ChoiceError, DTypeError, ShapeError
from unbounded.kernels._checks import check_length_values
from unbounded.kernels._library import Call
from unbounded.kernels._shapes import CONTROLLERS, DTYPES, PARTS, STRUCTURES

#: Results of the forward operator: the first six are the call's, the rest is for backward.
RESULTS: Final = (
    "outputs",
    "hidden_last",
    "cell_last",
    "reading_last",
    "values",
    "strengths",
    "gates",
    "cells",
    "tanh_cells",
    "readings",
    "instructions",
    "deaths",
    "kept",
    "grave_rows",
    "grave_strengths",
    "live_range",
)
CALL_RESULTS: Final = 6
_INTEGERS: Final = ("deaths", "grave_rows", "live_range")

Shape = tuple[int, ...]


class Sizes(NamedTuple):
    """The sizes of one call.

    Fields:
        steps: T. batch: B. inputs: I. hidden: H. width: M. rows: N, of the initial memory.
        parts: of the memory. blocks, lanes: of the controller. cell: H, or 0 without a cell.
    """

    steps: int
    batch: int
    inputs: int
    hidden: int
    width: int
    rows: int
    parts: int
    blocks: int
    lanes: int
    cell: int

    @classmethod
    def of(
        cls, structure: str, controller: str, x: Tensor, hidden0: Tensor, values0: Tensor
    ) -> Sizes:
        """Read the sizes off three tensors that name them all.

        Raises:
            ChoiceError: no such structure or controller. ShapeError: not three axes, two and three.
            DTypeError: the kernels do not take this dtype.
        """
        if structure not in STRUCTURES:
            raise ChoiceError("structure", structure, STRUCTURES)
        if controller not in CONTROLLERS:
            raise ChoiceError("controller", controller, CONTROLLERS)
        for name, tensor, axes in (("x", x, 3), ("hidden0", hidden0, 2), ("values0", values0, 3)):
            if tensor.dim() != axes:
                raise ShapeError(f"{name}: expected {axes} axes, got {list(tensor.shape)}.")
        check_dtype("x", x)
        kind, hidden = CONTROLLERS[controller], hidden0.shape[1]
        steps, batch, inputs = x.shape
        rows, width = values0.shape[1:]
        cell = hidden if kind.has_cell else 0
        parts, blocks, lanes = PARTS[structure], kind.blocks, kind.lanes
        return cls(steps, batch, inputs, hidden, width, rows, parts, blocks, lanes, cell)

    @property
    def reading(self) -> int:
        """R, size of the reading."""
        return self.parts * self.width

    @property
    def heads(self) -> int:
        """K, rows of the heads' linear map."""
        return self.parts * (self.width + 2)

    @property
    def final_rows(self) -> int:
        """Rows of the memory after the last step."""
        return self.rows + self.parts * self.steps

    def inputs_of_call(self) -> dict[str, Shape]:
        """Shapes of the tensors that come in, in the operator's order."""
        blocks = self.blocks * self.hidden
        return {
            "x": (self.steps, self.batch, self.inputs),
            "weight_ih": (blocks, self.inputs + self.reading),
            "weight_hh": (blocks, self.hidden),
            "bias_ih": (blocks,),
            "bias_hh": (blocks,),
            "head_weight": (self.heads, self.hidden),
            "head_bias": (self.heads,),
            "hidden0": (self.batch, self.hidden),
            "cell0": (self.batch, self.cell),
            "reading0": (self.batch, self.reading),
            "values0": (self.batch, self.rows, self.width),
            "strengths0": (self.batch, self.rows),
        }

    def results(self) -> dict[str, Shape]:
        """Shapes of the forward operator's results."""
        sequence, rows = (self.steps, self.batch), (self.batch, self.final_rows)
        return {
            "outputs": (*sequence, self.hidden),
            "hidden_last": (self.batch, self.hidden),
            "cell_last": (self.batch, self.cell),
            "reading_last": (self.batch, self.reading),
            "values": (*rows, self.width),
            "strengths": rows,
            "gates": (*sequence, self.lanes * self.hidden),
            "cells": (*sequence, self.cell),
            "tanh_cells": (*sequence, self.cell),
            "readings": (*sequence, self.reading),
            "instructions": (*sequence, 2 * self.parts),
            "deaths": (self.batch, self.steps, self.parts),
            "kept": (self.batch, self.steps, self.parts),
            "grave_rows": rows,
            "grave_strengths": rows,
            "live_range": (self.batch, 3),
        }


def new_results(sizes: Sizes, like: Tensor) -> dict[str, Tensor]:
    """Make room for the results; graves are zeros because most of their room is never written."""
    made = {}
    for name, shape in sizes.results().items():
        make = like.new_zeros if name.startswith("grave") else like.new_empty
        made[name] = make(shape, dtype=torch.int32 if name in _INTEGERS else like.dtype)
    return made


def check_dtype(name: str, tensor: Tensor) -> None:
    """Raise DTypeError unless the kernels take a tensor's dtype."""
    if tensor.dtype not in DTYPES:
        raise DTypeError(f"{name}: expected one of {list(DTYPES)}, got {tensor.dtype}.")


def require(
    tensors: Mapping[str, Tensor | None], shapes: Mapping[str, Shape], like: Tensor
) -> None:
    """Raise unless tensors are contiguous, on the CPU, of these shapes and the dtype of `like`.

    Args:
        tensors: by name; None where there is none.
        shapes: by name; names that are not in `tensors` are passed over.
    """
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.shape != shapes[name]:
            wanted, given = list(shapes[name]), list(tensor.shape)
            raise ShapeError(f"{name}: expected shape {wanted}, got {given}.")
        dtype = torch.int32 if name in _INTEGERS else like.dtype
        if tensor.dtype != dtype:
            raise DTypeError(f"{name}: expected dtype {dtype}, got {tensor.dtype}.")
        if not tensor.is_contiguous() or tensor.device.type != "cpu":
            raise ShapeError(f"{name}: expected a contiguous tensor on the CPU.")


def require_unroll(structure: str, values: Tensor, push_pop: Tensor, strengths0: Tensor) -> None:
    """As `require`, of what `unbounded::unroll` takes."""
    if structure not in STRUCTURES:
        raise ChoiceError("structure", structure, STRUCTURES)
    for name, tensor in (("values", values), ("push_pop", push_pop)):
        if tensor.dim() != 3:
            raise ShapeError(f"{name}: expected 3 axes, got {list(tensor.shape)}.")
    check_dtype("values", values)
    batch, rows, width = values.shape
    steps, parts = push_pop.shape[1], PARTS[structure]
    initial = rows - parts * steps
    if initial < 0:
        raise ShapeError(f"values: expected at least {parts * steps} rows, got {rows}.")
    shapes = {
        "values": (batch, rows, width),
        "push_pop": (batch, steps, 2 * parts),
        "strengths0": (batch, initial),
    }
    require(dict(zip(shapes, (values, push_pop, strengths0), strict=True)), shapes, values)


def check_lengths(lengths: Tensor | None, steps: int, batch: int) -> None:
    """Raise unless lengths are int64 [B], contiguous, and lie in 0..T."""
    if lengths is None:
        return
    if lengths.dtype != torch.int64:
        raise DTypeError(f"lengths: expected dtype torch.int64, got {lengths.dtype}.")
    if lengths.shape != (batch,) or not lengths.is_contiguous():
        raise ShapeError(f"lengths: expected contiguous [{batch}], got {lengths.shape}.")
    check_length_values(lengths, steps)


def set_pointers(call: Call, tensors: dict[str, Tensor | None]) -> None:
    """Enter the addresses of tensors under their names."""
    for name, tensor in tensors.items():
        # An empty tensor stands for what there is none of.
        setattr(call, name, None if tensor is None else tensor.data_ptr() or None)


def new_call(sizes: Sizes, weight_ih: Tensor) -> Call:
    """A call of these sizes that saves what the backward pass needs, without its tensors."""
    call = Call()
    call.steps, call.batch, call.capacity = sizes.steps, sizes.batch, sizes.steps
    call.hidden, call.width, call.initial_rows = sizes.hidden, sizes.width, sizes.rows
    call.saves = 1
    call.weight_ih_stride, call.inputs = weight_ih.shape[1], sizes.inputs
    call.weight_ih = weight_ih.data_ptr() + sizes.inputs * weight_ih.element_size()
    return call
