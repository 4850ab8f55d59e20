"""Compiles both programs for an absent device; run as a program, not interpreted.

python tests/kernels/_compiling.py CONTROLLER MEMORY DTYPE BATCH CAPABILITY
"""

from __future__ import annotations

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unbounded.kernels._controllers import CONTROLLERS
from unbounded.kernels.gpu import _device, _launch
from unbounded.kernels.gpu.programs import whole
from unbounded.kernels.gpu.programs.cells import CELLS
from unbounded.kernels.gpu.programs.rows import KINDS

NUMBERS = ("begin", "steps", "T", "B", "H", "R", "K", "N", "N0", "M")
TYPES = dict.fromkeys(NUMBERS, "i32") | {"lengths": "*i64"}
TYPES |= dict.fromkeys(("counter", "changes", "grave_codes", "has_nan"), "*i32")
SIZES = {"float32": (4, "*fp32", "tf32x3"), "float64": (8, "*fp64", "ieee")}


def main(controller: str, memory: str, dtype: str, batch: str, capability: str) -> None:
    itemsize, pointer, precision = SIZES[dtype]
    lanes = CONTROLLERS[controller].lanes
    sequences, terms = _launch.tile(int(batch), itemsize, _device.LEAST_SHARED)
    fixed = {
        "CELL": CELLS[controller], "LANES": lanes, "KIND": KINDS[memory],
        "ENDS": 2 if memory == "deque" else 1, "ROWS": _launch.TILE, "BATCH": sequences,
        "CHUNK": terms, "SCAN": _launch.SCAN, "PART": _launch.part(256), "WIDTH": 256,
        "PRECISION": precision, "RUNS": whole.ALL,
    }  # fmt: skip
    options = {"num_warps": _launch.WARPS, "num_stages": _launch.STAGES}
    options["launch_cooperative_grid"] = True
    for program, own in (
        (whole.forward_program, {"UNITS": _launch.TILE // lanes, "SAVES": True}),
        (whole.backward_program, {"UNITS": _launch.TILE}),
    ):
        constants = fixed | own
        names = program.arg_names
        types = {n: "constexpr" if n in constants else TYPES.get(n, pointer) for n in names}
        places = {(names.index(name),): value for name, value in constants.items()}
        source = ASTSource(fn=program, signature=types, constexprs=places)
        binary = triton.compile(source, GPUTarget("cuda", int(capability), 32), options=options)
        assert binary.asm["cubin"]
        assert binary.metadata.shared <= _device.LEAST_SHARED, binary.metadata.shared
        print(program.__name__, binary.metadata.shared)


if __name__ == "__main__":
    main(*sys.argv[1:])
