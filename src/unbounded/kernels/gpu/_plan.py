"""The sizes and tiles of a call for the Triton programs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from unbounded.kernels._controllers import CONTROLLERS
from unbounded.kernels._recurrence import RecurrenceCall
from unbounded.kernels._sizes import Sizes
from unbounded.kernels.gpu import _launch
from unbounded.kernels.gpu.programs.cells import CELLS
from unbounded.kernels.gpu.programs.rows import KINDS


class Plan(NamedTuple):
    """The sizes of a call for the programs."""

    sizes: Sizes
    op: RecurrenceCall

    @property
    def lanes(self) -> int:
        """Number of sums of products for a unit in a step."""
        return CONTROLLERS[self.op.controller].lanes

    @property
    def ends(self) -> int:
        """Number of ends that are pushed, popped and read."""
        return self.sizes.structure.read_vector // self.sizes.structure.options[0]

    @property
    def base(self) -> int:
        """Index of the first initial row."""
        return self.sizes.steps if self.op.structure == "deque" else 0

    @property
    def tile(self) -> tuple[int, int]:
        """Sequences in a tile, and the number of terms that a sum takes at once."""
        return _launch.tile_for(self.sizes.batch, self.op.x)

    def lengths(self) -> Tensor:
        """Int64 [B]; T without lengths."""
        if self.op.lengths is not None:
            return self.op.lengths
        return torch.full(
            (self.sizes.batch,), self.sizes.steps, dtype=torch.int64, device=self.op.x.device
        )

    def numbers(self) -> dict[str, Any]:
        """The programs' arguments other than tensors."""
        sizes, width = self.sizes, self.sizes.structure.options[0]
        read_vector = sizes.structure.read_vector
        return {
            "T": sizes.steps, "B": sizes.batch, "H": sizes.hidden, "R": read_vector,
            "K": sizes.structure.head_rows,
            "N": sizes.structure.rows_after(sizes.rows, sizes.steps), "N0": sizes.rows, "M": width,
            "CELL": CELLS[self.op.controller], "LANES": self.lanes,
            "KIND": KINDS[self.op.structure], "ENDS": self.ends,
            "UNITS": _launch.TILE // self.lanes, "ROWS": _launch.TILE,
            "BATCH": self.tile[0], "CHUNK": self.tile[1],
            "SCAN": _launch.SCAN, "PART": _launch.part(width),
            "WIDTH": triton.next_power_of_2(width),
            "PRECISION": "ieee" if self.op.x.dtype == torch.float64 else "tf32x3",
        }  # fmt: skip

    def tiles(self, *sizes: tuple[int, int]) -> list[int]:
        """Numbers of tiles of phases, from pairs (rows, rows per tile)."""
        batches = triton.cdiv(self.sizes.batch, self.tile[0])
        return [triton.cdiv(rows, of_tile) * batches for rows, of_tile in sizes]
