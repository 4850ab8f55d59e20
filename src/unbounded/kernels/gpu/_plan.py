"""A call as the programs take it: its sizes, and how it is cut into tiles."""

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
    """The sizes of a call as the programs take them."""

    sizes: Sizes
    op: RecurrenceCall

    @property
    def lanes(self) -> int:
        """Sums of products that a unit has in a step."""
        return CONTROLLERS[self.op.controller].lanes

    @property
    def ends(self) -> int:
        """Ends that are pushed, popped and read."""
        return self.sizes.structure.reading // self.sizes.structure.options[0]

    @property
    def base(self) -> int:
        """The place of the first row that came in."""
        return self.sizes.steps if self.op.structure == "deque" else 0

    @property
    def tile(self) -> tuple[int, int]:
        """Sequences of a tile, and terms of a sum that it takes at once."""
        return _launch.tile_for(self.sizes.batch, self.op.x)

    def lengths(self) -> Tensor:
        """Int64 [B]: T where none are told."""
        if self.op.lengths is not None:
            return self.op.lengths
        return torch.full(
            (self.sizes.batch,), self.sizes.steps, dtype=torch.int64, device=self.op.x.device
        )

    def numbers(self) -> dict[str, Any]:
        """What the programs are told beside tensors."""
        sizes, width = self.sizes, self.sizes.structure.options[0]
        reading = sizes.structure.reading
        return {
            "T": sizes.steps, "B": sizes.batch, "H": sizes.hidden, "R": reading,
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
        """Tiles of phases, from how many rows there are and how many are one tile's."""
        batches = triton.cdiv(self.sizes.batch, self.tile[0])
        return [triton.cdiv(rows, of_tile) * batches for rows, of_tile in sizes]
