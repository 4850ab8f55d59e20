"""Launch a program: all steps at once, or phase by phase in the interpreter."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton.errors import TritonError

from unbounded.errors import BackendError
from unbounded.kernels.gpu import _device
from unbounded.kernels.gpu.programs import whole

#: Sizes of a tile: its rows or units, its columns, and how many terms a sum adds at once.
TILE, CHUNK = 16, 128
#: Rows of a memory scanned at once, and numbers of their values loaded at once.
SCAN, NUMBERS = 32, 8192
#: Warps of a program, and loads of a product in flight at once.
WARPS, STAGES = 4, 3
#: The smallest and the largest number of sequences of a tile.
LEAST_BATCH, MOST_BATCH = 16, 64
LEAST_CHUNK = 16


def is_interpreted() -> bool:
    """Whether programs run sequentially on the CPU (TRITON_INTERPRET=1)."""
    return not isinstance(whole.forward_program, triton.JITFunction)


def tile(batch: int, itemsize: int, shared: int) -> tuple[int, int]:
    """Number of sequences in a tile, and of terms that a sum adds at once.

    Args:
        batch: B. itemsize: bytes of a number. shared: bytes of shared memory for a program, which
            hold the loads in flight.
    """
    sequences = int(min(MOST_BATCH, max(LEAST_BATCH, triton.next_power_of_2(batch))))
    terms = CHUNK
    while terms > LEAST_CHUNK and STAGES * terms * (TILE + sequences) * itemsize > shared:
        terms //= 2
    return sequences, terms


def tile_for(batch: int, like: Tensor) -> tuple[int, int]:
    """Call `tile` for the device of a tensor."""
    index = like.device.index
    shared = _device.LEAST_SHARED if index is None else _device.shared_bytes(index)
    return tile(batch, like.element_size(), shared)


def part(width: int) -> int:
    """Number of rows whose values are loaded at once."""
    return int(max(1, min(SCAN, NUMBERS // triton.next_power_of_2(width))))


def launch(
    program: Any, start: int, steps: int, tiles: tuple[int, int, int], **arguments: Any
) -> None:
    """Run `steps` steps of a program from step `start` on.

    Args:
        tiles: number for each phase. arguments: all others by name.
    Raises:
        BackendError: Triton cannot compile it for this device, or launch it.
    """
    like: Tensor = arguments["outputs"]
    if not is_interpreted():
        programs = min(max(tiles), _device.multiprocessors(like.device.index))
        counter = torch.zeros(1, dtype=torch.int32, device=like.device)
        try:
            with torch.cuda.device(like.device):
                program[(programs,)](
                    start, steps, counter, **arguments, RUNS=whole.ALL, num_warps=WARPS,
                    num_stages=STAGES, launch_cooperative_grid=True,
                )  # fmt: skip
        except TritonError as error:
            reason = str(error).split("\n", 1)[0]
            name = torch.cuda.get_device_name(like.device)
            raise BackendError(
                f"{program.__name__}: Triton cannot compile or launch it for {name} ({reason}). "
                "Give backend='reference', and tell us which device that is."
            ) from error
        return
    direction = 1 if program is whole.forward_program else -1
    for step in range(steps):
        for phase, count in enumerate(tiles):
            program[(count,)](start + direction * step, 1, None, **arguments, RUNS=phase)
