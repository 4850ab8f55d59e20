"""What a GPU does with these layers today, and what it would let them be (needs CUDA and nvcc).

    python benchmarks/gpu.py benchmarks/gpu.json

First parity: each memory's layer in float32 on the GPU against the same in float64 on the CPU. Only
if all agree are times taken, in microseconds a step: medians of interleaved rounds, by events of
the device. Then `gpu_limits.cu`: barriers, kernel boundaries, weights, two designs of a step. What
is there is written after each part, so that a cut loses the rest alone.
"""

from __future__ import annotations

import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

import unbounded as ub
from unbounded.evaluation.provenance import provenance
from unbounded.layers.parity import relative_error
from unbounded.memories import MEMORIES

STEPS, INPUT, UNITS, ROUNDS = 130, 64, 256, 9
PARITY = 1e-4
#: Of weights by inverse distances, which make more of rounding; as `unbounded bench` has it.
PARITY_OF_INVERSES = 1e-3
#: By name: what a memory is made with at 256 units.
WIDTHS = {"superposition_stack": 10, "superposition_list": 5, "turing_tape": 20, "lie_access": 64}
Run = Callable[[], Any]


def memory(name: str) -> ub.memories.Memory[Any, Any]:
    return MEMORIES[name](WIDTHS.get(name, UNITS))


def both_ways(layer: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    output = layer(x)[0]
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=output.device)
    loss = (output * weights.view_as(output)).sum()
    return [output.detach(), *torch.autograd.grad(loss, [x, *layer.parameters()])]


def parity() -> dict[str, float]:
    found = {}
    for name in MEMORIES:
        torch.manual_seed(0)
        there = ub.MemoryRNN(INPUT, UNITS, memory(name), dtype=torch.float64, backend="reference")
        x = torch.randn(40, 10, INPUT, dtype=torch.float64)
        here = copy.deepcopy(there).float().cuda()
        pairs = zip(both_ways(here, x.float().cuda()), both_ways(there, x), strict=True)
        found[name] = max(relative_error(ours.cpu().double(), want) for ours, want in pairs)
    return found


def timed(runs: dict[str, Run], rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds by name, medians of interleaved rounds after one that warms up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            if turn:
                times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(each) for name, each in times.items()}


def passes(layer: nn.Module, x: torch.Tensor) -> dict[str, Run]:
    def forward() -> None:
        with torch.no_grad():
            layer(x)

    def training() -> None:
        layer(x)[0].sum().backward()

    return {"forward": forward, "training": training}


def in_graph(run: Run) -> Run:
    """The same, captured in a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def ceilings() -> dict[str, float]:
    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    runs: dict[str, Run] = {"float32": lambda: a @ b, "copy": lambda: a.copy_(b)}
    c, d = a.bfloat16(), b.bfloat16()
    runs["bfloat16"] = lambda: c @ d
    took = timed(runs)
    work = 2 * 8192**3 / 1e9
    return {
        "copy_tb_per_s": 2 * a.numel() * 4 / took["copy"] / 1e9,
        "float32_tflops": work / took["float32"],
        "bfloat16_tflops": work / took["bfloat16"],
    }


def lstm(steps: int, batch: int, units: int, dtype: torch.dtype) -> dict[str, float]:
    layer = nn.LSTM(INPUT, units, device="cuda", dtype=dtype)
    x = torch.randn(steps, batch, INPUT, device="cuda", dtype=dtype, requires_grad=True)
    took = timed(passes(layer, x))
    return {name: 1e3 * each / steps for name, each in took.items()}


def all_lstms() -> list[dict[str, Any]]:
    sizes = [(STEPS, batch, units) for units in (UNITS, 128, 512) for batch in (10, 128)]
    sizes += [(1000, 10, UNITS), (STEPS, 16, 768), (STEPS, 32, 192)]
    found = []
    for steps, batch, units in sizes:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            us = lstm(steps, batch, units, dtype)
            named = {"steps": steps, "batch": batch, "units": units, "dtype": str(dtype)[6:]}
            found.append(named | {"us_a_step": us})
    return found


def kernels_a_step(run: Run) -> float:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages()) / STEPS


def loop(name: str, batch: int) -> dict[str, Any]:
    """The readable loop: as it is called, and captured whole."""
    torch.manual_seed(0)
    layer = ub.MemoryRNN(INPUT, UNITS, memory(name), device="cuda")
    x = torch.randn(STEPS, batch, INPUT, device="cuda", requires_grad=True)
    runs = passes(layer, x)
    torch.cuda.reset_peak_memory_stats()
    took = timed(runs, 3)
    found: dict[str, Any] = {"memory": name, "batch": batch, "steps": STEPS}
    found["us_a_step"] = {key: 1e3 * each / STEPS for key, each in took.items()}
    found["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    found["kernels_a_step"] = {key: kernels_a_step(run) for key, run in runs.items()}
    try:
        took = timed({key: in_graph(run) for key, run in runs.items()})
        found["us_a_step_in_graph"] = {key: 1e3 * each / STEPS for key, each in took.items()}
    except RuntimeError as error:
        found["not_captured"] = str(error).splitlines()[0]
        torch.cuda.synchronize()
    return found


def growth() -> dict[str, float]:
    """Peak memory of a training pass of the stack in the loop, MiB by steps."""
    found = {}
    layer = ub.MemoryRNN(INPUT, UNITS, memory("stack"), device="cuda")
    for steps in (65, 130, 260, 520):
        x = torch.randn(steps, 10, INPUT, device="cuda")
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        layer(x)[0].sum().backward()
        found[str(steps)] = torch.cuda.max_memory_allocated() / 2**20
    return found


def limits() -> dict[str, Any]:
    source = Path(__file__).with_name("gpu_limits.cu")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "gpu_limits")
        subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-o", program, str(source)], check=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py: torch finds no CUDA device")
    target = Path(sys.argv[1])
    found: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "device": torch.cuda.get_device_name(),
        "cudnn": torch.backends.cudnn.version(),
        "torch": torch.__version__,
    }

    def keep(name: str, part: Run) -> Any:
        begun = time.perf_counter()
        found[name] = part()
        target.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
        return found[name]

    for name, error in keep("parity_error", parity).items():
        if not error < (PARITY_OF_INVERSES if name == "lie_access" else PARITY):
            sys.exit(f"benchmarks/gpu.py: {name} is {error:g} from the CPU in float64; no times")
    keep("ceilings", ceilings)
    keep("lstm", all_lstms)
    keep("limits_us", limits)
    names = [*MEMORIES]
    keep("loop", lambda: [loop(name, 10) for name in names] + [loop("stack", 128)])
    keep("peak_mib_of_a_stack_by_steps", growth)


if __name__ == "__main__":
    main()
