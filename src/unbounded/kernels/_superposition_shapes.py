"""Sizes and buffers of superposition stacks and lists; mirrors csrc/mixture*.h."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ChoiceError, MemoryOverflowError, ShapeError
from unbounded.kernels._buffers import check_dtype, check_lengths, require
from unbounded.kernels._library import VECTOR_BYTES, Call
from unbounded.kernels._shapes import CONTROLLERS, SUPERPOSITIONS

#: Actions of each structure without NO-OP.
BASIC_ACTIONS: Final = {"superposition_stack": 2, "superposition_list": 3}
_ROW_MARGIN: Final = 2
_LEAST_BLOCK: Final = 16


class MixtureSizes(NamedTuple):
    """What tells one superposition memory from another.

    Fields:
        structure: "superposition_stack" or "superposition_list".
        count: S. depth: k. actions: of each structure. cells: N0, of the initial state.
        capacity: as of the memory; 0 for none.
        strict: whether a lost cell that is not empty is an error.
    """

    structure: str
    count: int
    depth: int
    actions: int
    cells: int
    capacity: int
    strict: bool

    def grown(self, steps: int) -> int:
        """Cells after so many steps."""
        if self.structure == "superposition_stack":
            grown = self.cells + steps
            return max(self.cells, min(grown, self.capacity)) if self.capacity else grown
        side = self.cells // 2
        if self.capacity:
            return 2 * max(side, min(side + steps, self.capacity - 1)) + 1
        return 2 * (side + steps) + 1

    def rows(self, steps: int) -> int:
        """Rows of the kernels' buffers with room for so many steps."""
        most = self.grown(steps)
        if self.structure == "superposition_stack":
            return max(most, self.depth) + 2 * _ROW_MARGIN
        return 2 * max(most // 2, self.depth - 1) + 1 + 2 * _ROW_MARGIN

    @property
    def code(self) -> int:
        """Number of the structure in csrc/library.cpp."""
        return SUPERPOSITIONS[self.structure]

    def saved(self, like: Tensor, batch: int, steps: int, *, saves: bool) -> dict[str, Tensor]:
        """Buffers of the weights and values of each step and of the cells at the ends of blocks."""
        lanes = max(1, VECTOR_BYTES // like.element_size())
        padded = -(-self.count // lanes) * lanes
        blocks = (steps - 1) // block_steps(steps) if saves and steps else 0
        return {
            "planes": like.new_empty(steps if saves else 1, batch, self.actions + 1, padded),
            "checkpoints": like.new_empty(batch, blocks, self.rows(steps) if blocks else 0, padded),
        }

    def overflow(self, like: Tensor, batch: int, steps: int) -> Tensor | None:
        """Where the kernel notes a lost cell; None if none can be lost or all may be."""
        if not self.strict or not self.capacity or self.grown(steps + 1) > self.grown(steps):
            return None
        return like.new_zeros(batch, dtype=torch.int32)

    def check_overflow(self, noted: Tensor | None) -> None:
        """Raise MemoryOverflowError if a cell was lost."""
        if noted is not None and bool(noted.any()):
            raise MemoryOverflowError(
                f"a full {self.structure.replace('_', ' ')} of capacity {self.capacity} would lose "
                f"a cell that is not empty, in {int(noted.sum())} of {len(noted)} sequences. Give "
                "a larger capacity, capacity=None, or overflow='drop_bottom' (of a list "
                "'drop_ends') to drop it."
            )

    def set(self, call: Call, steps: int) -> None:
        """Write the sizes into a call."""
        call.count, call.depth, call.actions = self.count, self.depth, self.actions
        call.limit, call.initial_rows = self.capacity, self.cells
        call.steps = call.capacity = steps
        call.block = block_steps(steps)


def block_steps(steps: int) -> int:
    """Steps between the cells that are kept: their number and a block's length grow as sqrt(T)."""
    return max(_LEAST_BLOCK, math.isqrt(max(steps - 1, 0)) + 1)


def sizes_of(
    structure: str,
    head_weight: Tensor,
    reading0: Tensor,
    memory0: Tensor,
    capacity: int,
    strict: bool,
) -> MixtureSizes:
    """The sizes of a call, from its tensors.

    Raises:
        ChoiceError: no such structure. ShapeError: the sizes do not go together.
    """
    if structure not in SUPERPOSITIONS:
        raise ChoiceError("structure", structure, SUPERPOSITIONS)
    if memory0.dim() != 3 or memory0.shape[1] == 0:
        raise ShapeError(f"memory0: expected [B, S, N], got {list(memory0.shape)}.")
    for name, tensor in (("reading0", reading0), ("head_weight", head_weight)):
        if tensor.dim() != 2:
            raise ShapeError(f"{name}: expected 2 axes, got {list(tensor.shape)}.")
    # What the kernels are told must be what the tensors hold.
    for name, size in (("reading0", reading0.shape[1]), ("head_weight", head_weight.shape[0])):
        if size % memory0.shape[1]:
            raise ShapeError(f"{name}: expected a multiple of {memory0.shape[1]}, got {size}.")
    count = memory0.shape[1]
    depth, actions = reading0.shape[1] // count, head_weight.shape[0] // count - 1
    if depth == 0 or actions - BASIC_ACTIONS[structure] not in (0, 1):
        raise ShapeError(
            f"reading0, head_weight: {count} of {structure} cannot read {depth} cells with "
            f"{actions} actions."
        )
    return MixtureSizes(structure, count, depth, actions, memory0.shape[2], capacity, strict)


def check_call(
    sizes: MixtureSizes,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    head_weight: Tensor,
    hidden0: Tensor,
    tensors: dict[str, Tensor | None],
) -> None:
    """Raise unless the tensors of a call, by name, agree with its sizes and are contiguous."""
    if controller not in CONTROLLERS:
        raise ChoiceError("controller", controller, CONTROLLERS)
    check_dtype("x", x)
    if x.dim() != 3 or hidden0.dim() != 2:
        raise ShapeError("x, hidden0: expected 3 axes and 2.")
    steps, batch, inputs = x.shape
    kind, hidden = CONTROLLERS[controller], hidden0.shape[1]
    blocks, heads = kind.blocks * hidden, sizes.count * (sizes.actions + 1)
    reading, cell = sizes.count * sizes.depth, hidden if kind.has_cell else 0
    shapes = {
        "x": (steps, batch, inputs),
        "weight_ih": (blocks, inputs + reading),
        "weight_hh": (blocks, hidden),
        "bias_ih": (blocks,),
        "bias_hh": (blocks,),
        "head_weight": (heads, hidden),
        "head_bias": (heads,),
        "hidden0": (batch, hidden),
        "cell0": (batch, cell),
        "reading0": (batch, reading),
        "memory0": (batch, sizes.count, sizes.cells),
    }
    require({"x": x, "head_weight": head_weight, "hidden0": hidden0, **tensors}, shapes, x)
    check_lengths(lengths, steps, batch)
