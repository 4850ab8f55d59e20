"""How a training step of the Lie-access memory grows with the length of a sequence.

Layers take turns, one thread: InvNorm (with `output_reading` too) and softmax on the kernels, the
same loop with a register as memory, and torch.nn.LSTM of the same hidden size; medians of the
ratios within rounds.

    python benchmarks/lie_access.py --out benchmarks/lie_growth.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch

import unbounded as ub
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
        INPUT, hidden, memories["inverse_square"], backend="cpu", output_reading=True
    )
    return {
        **fused,
        "inverse_square, output_reading": says,
        "nn.LSTM": torch.nn.LSTM(INPUT, hidden),
    }


def milliseconds(layer: torch.nn.Module, x: torch.Tensor) -> float:
    """Forward and backward, once."""
    layer.zero_grad()
    begin = time.perf_counter()
    output, _ = layer(x)
    output.sum().backward()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for hidden, steps in ((50, 130), (100, 130), (50, 260), (50, 520), (50, 1000)):
        compared, x = layers(hidden), torch.randn(steps, BATCH, INPUT, requires_grad=True)
        times: dict[str, list[float]] = {name: [] for name in compared}
        for _ in range(options.rounds + 1):
            for name, layer in compared.items():
                times[name].append(milliseconds(layer, x))
        lstm = times["nn.LSTM"][1:]
        row = {
            "hidden": hidden,
            "steps": steps,
            "load": os.getloadavg()[0],
            "median_ms": {name: statistics.median(of[1:]) for name, of in times.items()},
            "ratio_to_lstm": {
                name: statistics.median(a / b for a, b in zip(of[1:], lstm, strict=True))
                for name, of in times.items()
            },
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.out:
        options.out.write_text(json.dumps({"batch": BATCH, "width": WIDTH, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
