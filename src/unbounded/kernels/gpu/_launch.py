"""How a program is launched: once, all its programs at once; or, interpreted, phase by phase."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton.errors import TritonError

from unbounded.errors import BackendError
from unbounded.kernels.gpu import _device
from unbounded.kernels.gpu.programs import whole

#: Of a tile: rows or units times lanes, and terms of a sum that are taken at once.
TILE, CHUNK = 16, 128
#: Rows of a memory that are looked at at once, and numbers of their values that are.
SCAN, NUMBERS = 32, 8192
#: Warps of a program, and loads of a product that are under way at once.
WARPS, STAGES = 4, 3
#: The least and the most sequences of a tile.
LEAST_BATCH, MOST_BATCH = 16, 64
LEAST_CHUNK = 16


def is_interpreted() -> bool:
    """Whether programs run one after the other on the processor (TRITON_INTERPRET=1)."""
    return not isinstance(whole.forward_program, triton.JITFunction)


def tile(batch: int, itemsize: int, shared: int) -> tuple[int, int]:
    """How many sequences a tile has, and how many terms of a sum it takes at once.

    Args:
        batch: B. itemsize: bytes of a number. shared: bytes that a program may share, which hold
            what is under way.
    """
    sequences = int(min(MOST_BATCH, max(LEAST_BATCH, triton.next_power_of_2(batch))))
    terms = CHUNK
    while terms > LEAST_CHUNK and STAGES * terms * (TILE + sequences) * itemsize > shared:
        terms //= 2
    return sequences, terms


def tile_for(batch: int, like: Tensor) -> tuple[int, int]:
    """`tile` on the device of a tensor."""
    index = like.device.index
    shared = _device.LEAST_SHARED if index is None else _device.shared_bytes(index)
    return tile(batch, like.element_size(), shared)


def part(width: int) -> int:
    """How many rows of values are looked at at once."""
    return int(max(1, min(SCAN, NUMBERS // triton.next_power_of_2(width))))


def launch(program: Any, begin: int, steps: int, tiles: tuple[int, int, int], **given: Any) -> None:
    """Run `steps` steps of a program from step `begin` on.

    Args:
        tiles: of each phase. given: all other arguments by name.
    Raises:
        BackendError: Triton cannot compile it for this device, or launch it.
    """
    like: Tensor = given["outputs"]
    if not is_interpreted():
        programs = min(max(tiles), _device.multiprocessors(like.device.index))
        counter = torch.zeros(1, dtype=torch.int32, device=like.device)
        try:
            with torch.cuda.device(like.device):
                program[(programs,)](
                    begin, steps, counter, **given, RUNS=whole.ALL, num_warps=WARPS,
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
    way = 1 if program is whole.forward_program else -1
    for step in range(steps):
        for phase, count in enumerate(tiles):
            program[(count,)](begin + way * step, 1, None, **given, RUNS=phase)
