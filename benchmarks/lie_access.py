"""How the time of a training step of the Lie-access memory grows with the sequence length.

Layers take turns, one thread: InvNorm (also with `output_read_vector`) and softmax on the kernels,
the same loop with a register as memory, and torch.nn.LSTM of the same hidden size; medians of the
ratios within rounds. The memory's work is the time of InvNorm minus the time of the register. It
is compared with the rates at which this core multiplies, loads and stores. The reference takes
turns with the kernels' InvNorm in rounds of its own.

    python benchmarks/lie_access.py --out benchmarks/lie_growth.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from itertools import product
from pathlib import Path

import torch

import unbounded as ub
from unbounded.experiments.bench.measuring import peak_gflops
from unbounded.memories.register import Register

BATCH, INPUT, WIDTH = 32, 14, 20


def layers(hidden: int) -> dict[str, torch.nn.Module]:
    """What is compared, by name."""
    memories = {
        "inverse_square": ub.LieAccessMemory(WIDTH),
        "softmax": ub.LieAccessMemory(WIDTH, weighting="softmax"),
        "register": Register(WIDTH),
    }
    fused = {
        name: ub.MemoryRNN(INPUT, hidden, memory, backend="cpu")
        for name, memory in memories.items()
    }
    says = ub.MemoryRNN(
        INPUT, hidden, memories["inverse_square"], backend="cpu", output_read_vector=True
    )
    return {
        **fused,
        "inverse_square, output_read_vector": says,
        "nn.LSTM": torch.nn.LSTM(INPUT, hidden),
    }


def milliseconds(layer: torch.nn.Module, x: torch.Tensor) -> float:
    """Forward and backward, once."""
    layer.zero_grad()
    begin = time.perf_counter()
    output, _ = layer(x)
    output.sum().backward()
    return (time.perf_counter() - begin) * 1e3


def cached_gbytes(floats: int, repeats: int = 200) -> float:
    """Loaded and stored a second by `a += b`, of that many floats in each; best of repeats."""
    a, b = torch.zeros(floats), torch.ones(floats)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(10):
            a.add_(b)
        times.append((time.perf_counter() - begin) / 10)
    return 3 * 4 * floats / min(times) / 1e9


def against_limits(memory_ms: float, steps: int) -> dict[str, float]:
    """How far the memory's work is from what the core can do.

    Counted for each pair of a query and a row: a product and a sum of each number of the value
    for the reading, for the gradient of the weight and for that of the value (6 operations),
    which loads the value twice and its gradient once, and stores that (16 bytes). Distances and
    weights are not counted.
    """
    numbers = BATCH * steps * (steps + 1) / 2 * WIDTH
    gflops, gbytes = 6e-6 * numbers / memory_ms, 16e-6 * numbers / memory_ms
    peak, cache = peak_gflops("float32", 1024), cached_gbytes(max(WIDTH * steps, 16384))
    return {
        "memory_ms": memory_ms,
        "gflops": gflops,
        "gbytes": gbytes,
        "peak_gflops": peak,
        "cache_gbytes": cache,
        "share_of_peak": gflops / peak,
        "share_of_cache": gbytes / cache,
    }


def reference_ratio(hidden: int, steps: int, rounds: int) -> dict[str, float]:
    """The reference path beside the kernels, as a median of the ratios within rounds."""
    memory, x = ub.LieAccessMemory(WIDTH), torch.randn(steps, BATCH, INPUT, requires_grad=True)
    fused = ub.MemoryRNN(INPUT, hidden, memory, backend="cpu")
    reference = ub.MemoryRNN(INPUT, hidden, memory, backend="reference")
    times = [(milliseconds(reference, x), milliseconds(fused, x)) for _ in range(rounds + 1)][1:]
    return {
        "reference_ms": statistics.median(slow for slow, _ in times),
        "fused_beside_it_ms": statistics.median(fast for _, fast in times),
        "reference_to_fused": statistics.median(slow / fast for slow, fast in times),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for hidden, steps in product((50, 100), (130, 260, 520, 1000)):
        compared, x = layers(hidden), torch.randn(steps, BATCH, INPUT, requires_grad=True)
        times: dict[str, list[float]] = {name: [] for name in compared}
        for _ in range(options.rounds + 1):
            for name, layer in compared.items():
                times[name].append(milliseconds(layer, x))
        lstm = times["nn.LSTM"][1:]
        beyond = [
            a - b for a, b in zip(times["inverse_square"][1:], times["register"][1:], strict=True)
        ]
        row = {
            "hidden": hidden,
            "steps": steps,
            "load": os.getloadavg()[0],
            "median_ms": {name: statistics.median(of[1:]) for name, of in times.items()},
            "ratio_to_lstm": {
                name: statistics.median(a / b for a, b in zip(of[1:], lstm, strict=True))
                for name, of in times.items()
            },
            **reference_ratio(hidden, steps, 5 if steps < 500 else 3),
            "limits": against_limits(statistics.median(beyond), steps),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"batch": BATCH, "width": WIDTH, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
