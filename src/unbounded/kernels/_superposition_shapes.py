"""Sizes and buffers of superposition stacks and lists; mirrors csrc/mixture*.h."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import BackendError, ChoiceError, MemoryOverflowError, ShapeError
from unbounded.kernels._buffers import check_dtype, check_lengths, require
from unbounded.kernels._library import VECTOR_BYTES, Call
from unbounded.kernels._shapes import CONTROLLERS, SUPERPOSITIONS

#: Actions of each structure without NO-OP.
BASIC_ACTIONS: Final = {"superposition_stack": 2, "superposition_list": 3}
#: What is lost at either end of a full structure, and the policy that allows it.
_LOST: Final = {
    "superposition_stack": (("the bottom cell of a full stack", "drop_bottom"),),
    "superposition_list": (
        ("the leftmost cell of a full list", "drop_ends"),
        ("the rightmost cell of a full list", "drop_ends"),
    ),
}
_ROW_MARGIN: Final = 2
#: Blocks of steps: multiples of this, and no fewer steps than that.
_FEW_STEPS: Final = 8
_LEAST_BLOCK: Final = 64


class MixtureOptions(NamedTuple):
    """What the tensors of a superposition stack or list do not say.

    Fields:
        depth: k, cells of each structure that are read.
        capacity: most cells of a stack, or of a list on either side of its head; None for no limit.
        strict: whether it is an error that a full one loses a cell that is not empty.
    """

    depth: int = 2
    capacity: int | None = None
    strict: bool = False


class MixtureSizes(NamedTuple):
    """What tells one superposition memory from another.

    Fields:
        structure: "superposition_stack" or "superposition_list".
        number: S. depth: k. actions: of each structure. cells: N0, of the initial state.
        capacity: as of the memory; 0 for none.
        strict: whether a lost cell that is not empty is an error.
    """

    structure: str
    number: int
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
        block = block_steps(steps)
        blocks = (steps - 1) // block if saves and steps else 0
        rows = self.rows(steps) if blocks else 0
        return {
            "planes": self.planes(like, batch, steps if saves else min(steps, block)),
            "checkpoints": like.new_empty(batch, blocks, rows, self._padded(like)),
        }

    def planes(self, like: Tensor, batch: int, steps: int) -> Tensor:
        """The buffer of weights and values of so many steps."""
        return like.new_empty(steps, batch, self.actions + 1, self._padded(like))

    def _padded(self, like: Tensor) -> int:
        lanes = max(1, VECTOR_BYTES // like.element_size())
        return -(-self.number // lanes) * lanes

    def overflow(self, like: Tensor, batch: int, steps: int) -> Tensor | None:
        """Where the kernel notes a lost cell; None if none can be lost or all may be.

        Args:
            steps: how many there will have been.
        """
        if not self.strict or not self.capacity or self.grown(steps + 1) > self.grown(steps):
            return None
        return like.new_zeros(batch, dtype=torch.int32)

    def check_overflow(self, noted: Tensor | None) -> None:
        """Raise MemoryOverflowError if a cell was lost."""
        if noted is None or not bool(noted.any()):
            return
        place, policy = _LOST[self.structure][int((noted & 1).max() == 0)]
        raise MemoryOverflowError(
            f"{place} is not empty and would be lost at capacity {self.capacity}, in "
            f"{int((noted > 0).sum())} of {len(noted)} sequences. Give a larger capacity, "
            f"capacity=None, or overflow={policy!r} to drop it."
        )

    def set(self, call: Call, steps: int) -> None:
        """Write the sizes into a call of so many steps."""
        call.count, call.depth, call.actions = self.number, self.depth, self.actions
        call.limit, call.initial_rows = self.capacity, self.cells
        call.steps = call.capacity = steps
        call.block = block_steps(steps)


def block_steps(steps: int) -> int:
    """Steps between the cells that are kept: their number and a block's length grow as sqrt(T)."""
    root = math.isqrt(max(steps - 1, 0)) + 1
    return max(_LEAST_BLOCK, -(-root // _FEW_STEPS) * _FEW_STEPS)


def refuse_options(structure: str, options: MixtureOptions | None) -> None:
    """Raise BackendError if there are options for a structure that has none."""
    if options is not None:
        raise BackendError(f"options: a {structure} has none, got {options}.")


def sizes_of(
    structure: str, heads: int, reading: int, memory0: Tensor, capacity: int, strict: bool
) -> MixtureSizes:
    """The sizes of a call, from the rows of its heads, the size of its reading and its cells.

    Raises:
        ChoiceError: no such structure. ShapeError: the sizes do not go together.
    """
    if structure not in SUPERPOSITIONS:
        raise ChoiceError("structure", structure, SUPERPOSITIONS)
    if memory0.dim() != 3 or memory0.shape[1] == 0:
        raise ShapeError(f"memory0: expected [B, S, N], got {list(memory0.shape)}.")
    count = memory0.shape[1]
    depth, actions = reading // count, heads // count - 1
    fits = reading == depth * count and heads == (actions + 1) * count
    if not fits or depth == 0 or actions - BASIC_ACTIONS[structure] not in (0, 1):
        raise ShapeError(
            f"a {structure} of {count} expected multiples of that, of a depth and of its actions: "
            f"got {reading} values read and {heads} rows of heads."
        )
    if structure == "superposition_list" and memory0.shape[2] % 2 == 0:
        raise ShapeError(f"memory0: expected an odd number of cells, got {memory0.shape[2]}.")
    return MixtureSizes(structure, count, depth, actions, memory0.shape[2], capacity, strict)


def _axis(name: str, tensor: Tensor, axis: int) -> int:
    if tensor.dim() != 2:
        raise ShapeError(f"{name}: expected 2 axes, got {list(tensor.shape)}.")
    return tensor.shape[axis]


def sizes_of_call(
    structure: str,
    head_weight: Tensor,
    reading0: Tensor,
    memory0: Tensor,
    capacity: int,
    strict: bool,
) -> MixtureSizes:
    """As `sizes_of`, from the tensors of a recurrence."""
    heads, reading = _axis("head_weight", head_weight, 0), _axis("reading0", reading0, 1)
    return sizes_of(structure, heads, reading, memory0, capacity, strict)


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
    blocks, heads = kind.blocks * hidden, sizes.number * (sizes.actions + 1)
    reading, cell = sizes.number * sizes.depth, hidden if kind.has_cell else 0
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
        "memory0": (batch, sizes.number, sizes.cells),
    }
    require({"x": x, "head_weight": head_weight, "hidden0": hidden0, **tensors}, shapes, x)
    check_lengths(lengths, steps, batch)
