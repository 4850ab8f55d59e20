"""Times of the layers on a GPU, and the limits of the device (needs CUDA and nvcc).

    python benchmarks/gpu.py benchmarks/gpu.json

The first part is parity: each memory's layer in float32 on the GPU, in the reference implementation
and on the kernels, against float64 on the CPU. Times are taken only if all agree: microseconds a
step, medians of interleaved rounds, by events of the device. `gpu_limits.cu` measures barriers,
kernel boundaries, reading of weights, and two designs of a step. The file is written after each
part, so that an interruption loses only the current part.
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
from unbounded.memories import MEMORIES
from unbounded.rnn.parity import relative_error

STEPS, INPUT, UNITS, ROUNDS = 130, 64, 256, 9
PARITY = 1e-4
#: Of weights by inverse distances, which make more of rounding; as `unbounded bench` has it.
PARITY_OF_INVERSES = 1e-3
#: By name: what a memory is made with at 256 units.
WIDTHS = {"superposition_stack": 10, "superposition_list": 5, "turing_tape": 20, "lie_access": 64}
#: Those with kernels for CUDA, with the memory's default options.
KERNELS = ("stack", "queue", "deque", "quiet_deque")
Run = Callable[[], Any]


def memory(name: str) -> ub.memories.Memory[Any, Any]:
    return MEMORIES[name](WIDTHS.get(name, UNITS))


def both_ways(layer: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    output = layer(x)[0]
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=output.device)
    loss = (output * weights.view_as(output)).sum()
    return [output.detach(), *torch.autograd.grad(loss, [x, *layer.parameters()])]


def parity() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name in MEMORIES:
        torch.manual_seed(0)
        there = ub.MemoryRNN(INPUT, UNITS, memory(name), dtype=torch.float64, backend="reference")
        x = torch.randn(40, 10, INPUT, dtype=torch.float64)
        expected = both_ways(there, x)
        for backend in ("reference", "cuda") if name in KERNELS else ("reference",):
            here = copy.deepcopy(there).float().cuda()
            here.backend = backend
            pairs = zip(both_ways(here, x.float().cuda()), expected, strict=True)
            error = max(relative_error(ours.cpu().double(), want) for ours, want in pairs)
            found.setdefault(name, {})[backend] = error
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
    """The same, captured in a CUDA graph; on a stream that is no default one."""
    for _ in range(2):
        run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
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


def lstm(
    steps: int, batch: int, units: int, dtype: torch.dtype, with_tf32: bool
) -> dict[str, float]:
    layer = nn.LSTM(INPUT, units, device="cuda", dtype=dtype)
    x = torch.randn(steps, batch, INPUT, device="cuda", dtype=dtype, requires_grad=True)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=with_tf32):
        took = timed(passes(layer, x))
    return {name: 1e3 * each / steps for name, each in took.items()}


def all_lstms() -> list[dict[str, Any]]:
    sizes = [(STEPS, batch, units) for units in (UNITS, 128, 512) for batch in (10, 128)]
    sizes += [(1000, 10, UNITS), (STEPS, 16, 768), (STEPS, 32, 192)]
    types = {
        "float32": (torch.float32, False),
        "float32, products in TF32 (torch's default)": (torch.float32, True),
        "float16": (torch.float16, True),
        "bfloat16": (torch.bfloat16, True),
    }
    found = []
    for steps, batch, units in sizes:
        for name, (dtype, with_tf32) in types.items():
            us = lstm(steps, batch, units, dtype, with_tf32)
            named = {"steps": steps, "batch": batch, "units": units, "dtype": name}
            found.append(named | {"us_a_step": us})
    return found


def kernels(name: str, batch: int, controller: str = "lstm", steps: int = STEPS) -> dict[str, Any]:
    """The kernels, and beside them in the same rounds nn.LSTM, both in float32 throughout."""
    torch.manual_seed(0)
    layer = ub.MemoryRNN(INPUT, UNITS, memory(name), controller, device="cuda", backend="cuda")
    plain = nn.LSTM(INPUT, UNITS, device="cuda")
    x = torch.randn(steps, batch, INPUT, device="cuda", requires_grad=True)
    runs = {f"kernels, {key}": run for key, run in passes(layer, x).items()}
    runs |= {f"nn.LSTM, {key}": run for key, run in passes(plain, x).items()}
    torch.cuda.reset_peak_memory_stats()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        took = timed(runs)
    sizes = {"memory": name, "controller": controller, "batch": batch, "steps": steps}
    return {
        **sizes,
        "us_a_step": {key: 1e3 * each / steps for key, each in took.items()},
        "of_nn_lstm": {
            key: took[f"kernels, {key}"] / took[f"nn.LSTM, {key}"]
            for key in ("forward", "training")
        },
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
    }


def all_kernels() -> list[dict[str, Any]]:
    found = [kernels(name, 10) for name in ("stack", "queue", "deque")]
    found += [kernels("stack", batch) for batch in (1, 64, 128)]
    found += [kernels("stack", 10, controller) for controller in ("gru", "elman")]
    return [*found, kernels("stack", 10, steps=1000)]


def kernels_a_step(run: Run) -> float:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages()) / STEPS


def loop(name: str, batch: int) -> dict[str, Any]:
    """The reference implementation: as it is called, and captured whole."""
    torch.manual_seed(0)
    layer = ub.MemoryRNN(INPUT, UNITS, memory(name), device="cuda", backend="reference")
    x = torch.randn(STEPS, batch, INPUT, device="cuda", requires_grad=True)
    runs = passes(layer, x)
    torch.cuda.reset_peak_memory_stats()
    took = timed(runs, 3)
    found: dict[str, Any] = {"memory": name, "batch": batch, "steps": STEPS}
    found["us_a_step"] = {key: 1e3 * each / STEPS for key, each in took.items()}
    found["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    found["kernels_a_step"] = {key: kernels_a_step(run) for key, run in runs.items()}
    torch.cuda.set_sync_debug_mode("error")
    try:
        runs["training"]()
    except RuntimeError:  # and cannot be captured
        return found | {"waits_for_the_device": True}
    finally:
        torch.cuda.set_sync_debug_mode("default")
    took = timed({key: in_graph(run) for key, run in runs.items()})
    found["us_a_step_in_graph"] = {key: 1e3 * each / STEPS for key, each in took.items()}
    return found


def growth(backend: str) -> dict[str, float]:
    """Peak memory of a training pass of the stack, MiB by steps."""
    found = {}
    layer = ub.MemoryRNN(INPUT, UNITS, memory("stack"), device="cuda", backend=backend)
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

    for name, errors in keep("parity_error", parity).items():
        for backend, error in errors.items():
            if not error < (PARITY_OF_INVERSES if name == "lie_access" else PARITY):
                sys.exit(f"{name} ({backend}) is {error:g} from the CPU in float64; no times")
    # On a stream of its own: what is captured must not meet the default one.
    with torch.cuda.stream(torch.cuda.Stream()):
        keep("kernels", all_kernels)
        keep("ceilings", ceilings)
        keep("lstm", all_lstms)
        keep("limits_us", limits)
        peaks = {"kernels": "cuda", "loop": "reference"}
        by_steps = {name: growth(backend) for name, backend in peaks.items()}
        keep("peak_mib_of_a_stack_by_steps", lambda: by_steps)
        # The graphs last: one that cannot be captured ends this.
        keep("loop", lambda: [loop(name, 10) for name in MEMORIES] + [loop("stack", 128)])


if __name__ == "__main__":
    main()
