"""How cost grows with the length: time per step of inference, and peak memory of training.

    python benchmarks/scaling.py > benchmarks/scaling.json

Inference: a memory with push and pop gates saturated at 0 or 1. "per_call": calls of T 200 and
T 20 000 in turns, time per step, medians. Every call packs the weights once, which matters more for
short calls. "one_session": steps 19 400 to 20 000 against steps 200 to 800 within one session,
where nothing is packed; this is the stricter comparison. Memory: the peak resident size that a
forward and backward pass adds, each in its own process. One thread.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

import unbounded as ub
from unbounded.evaluation.provenance import provenance
from unbounded.memories import MEMORIES
from unbounded.rnn.fused import flatten_state, fused_layer

REPEATS = 3
STRUCTURES = ("stack", "queue", "deque")


def decisive_layer(name: str) -> ub.MemoryRNN:
    """A Stack-, Queue- or DeQue-LSTM whose heads saturate: pushes and pops follow the input."""
    torch.manual_seed(0)
    layer = ub.MemoryRNN(64, 256, MEMORIES[name](256), output_size=64, backend="cpu")
    with torch.no_grad():
        for head in layer.memory.heads:
            if head.shape == ():
                rows = layer.layers[0].heads.rows(head.name)
                layer.layers[0].heads.weight[rows] *= 1e4
                layer.layers[0].heads.bias[rows] = 0
    return layer


def per_call(name: str) -> dict[str, float]:
    layer = decisive_layer(name).eval()
    inputs = {steps: torch.randn(steps, 10, 64) for steps in (200, 20_000)}
    times: dict[int, list[float]] = {steps: [] for steps in inputs}
    with torch.no_grad():
        for turn in range(REPEATS + 1):
            for steps, x in inputs.items():
                rounds = max(1, 4_000 // steps)
                start = time.perf_counter()
                for _ in range(rounds):
                    layer(x)
                if turn:
                    times[steps].append(1e3 * (time.perf_counter() - start) / (rounds * steps))
    short, long = (statistics.median(times[steps]) for steps in (200, 20_000))
    return {"T_200_ms": short, "T_20000_ms": long, "ratio": long / short}


def one_session(name: str) -> dict[str, float]:
    layer = decisive_layer(name).eval()
    x = torch.randn(20_000, 10, 64)
    first, last = [], []
    with torch.no_grad():
        for turn in range(REPEATS + 1):
            part = layer.only_layer()
            loop = fused_layer(part.controller, part.heads, part.memory)
            initial = flatten_state(part.initial_state(10))
            session = loop.open_session(initial, room=len(x))
            times = []
            for begin in range(0, len(x), 200):
                start = time.perf_counter()
                session.run(x[begin : begin + 200])
                times.append(1e3 * (time.perf_counter() - start) / 200)
            if turn:
                first += times[1:4]  # the very first chunk touches fresh memory
                last += times[-3:]
    short, long = statistics.median(first), statistics.median(last)
    return {"steps_to_800_ms": short, "last_600_steps_ms": long, "ratio": long / short}


def peak_kib() -> int:
    # Not getrusage: a child's peak there begins with that of its parent.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def peak_memory_mib(name: str, steps: int) -> float:
    """Run one training pass in this process; return what it added to the peak resident size."""
    layer = ub.MemoryRNN(64, 256, MEMORIES[name](256), output_size=64, backend="cpu")
    layer(torch.randn(8, 10, 64))[0].sum().backward()
    before = peak_kib()
    layer(torch.randn(steps, 10, 64))[0].sum().backward()
    return (peak_kib() - before) / 1024


def peak_memory_ratio(name: str) -> dict[str, float]:
    peaks = {}
    for steps in (2000, 4000):
        command = [sys.executable, __file__, "memory", name, str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks[steps] = float(done.stdout)
    return {"T_2000": peaks[2000], "T_4000": peaks[4000], "ratio": peaks[4000] / peaks[2000]}


def main() -> None:
    if sys.argv[1:2] == ["memory"]:
        print(peak_memory_mib(sys.argv[2], int(sys.argv[3])))
        return
    torch.set_num_threads(1)
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "inference_per_call": {name: per_call(name) for name in STRUCTURES},
        "inference_one_session": {name: one_session(name) for name in STRUCTURES},
        "training_peak_mib": {name: peak_memory_ratio(name) for name in STRUCTURES},
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
