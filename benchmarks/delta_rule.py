"""A training step of DeltaNet and DeltaProduct: the kernel, the reference and `nn.LSTM`.

    python benchmarks/delta_rule.py > benchmarks/delta_rule.json

Forward and backward pass of a layer on random inputs, in float32, with one and with two threads.
Every repeat runs each variant once, in turn. Medians in ms, and their ratios.
"""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime
from typing import Any

import torch
from torch import nn

import unbounded as ub
from unbounded.evaluation.provenance import provenance

REPEATS = 9
#: Name, layer, sequences, tokens, units.
CASES: list[tuple[str, dict[str, Any], int, int, int]] = [
    ("DeltaNet, study chomsky15", {"num_layers": 2}, 64, 80, 64),
    ("DeltaProduct of 2 steps, study chomsky15", {"num_layers": 2, "steps": 2}, 64, 80, 64),
    ("DeltaProduct of 4 steps, study known", {"num_layers": 2, "steps": 4}, 64, 32, 64),
    ("DeltaNet, 256 units", {"num_layers": 1}, 16, 100, 256),
    ("DeltaProduct of 2 steps, 500 tokens", {"num_layers": 2, "steps": 2}, 16, 500, 64),
]


def layer_of(units: int, backend: str, steps: int = 1, **options: Any) -> nn.Module:
    if steps == 1:
        return ub.DeltaNet(units, units, backend=backend, **options)
    return ub.DeltaProduct(units, units, steps, backend=backend, **options)


def measure(options: dict[str, Any], batch: int, tokens: int, units: int) -> dict[str, Any]:
    x = torch.randn(tokens, batch, units, requires_grad=True)
    layers: dict[str, nn.Module] = {
        "kernel": layer_of(units, "cpu", **options),
        "reference": layer_of(units, "reference", **options),
        "lstm": nn.LSTM(units, units, num_layers=options["num_layers"]),
    }
    times: dict[str, list[float]] = {name: [] for name in layers}
    for repeat in range(REPEATS + 2):
        for name, layer in layers.items():
            begin = time.perf_counter()
            layer(x)[0].sum().backward()
            if repeat >= 2:
                times[name].append(1e3 * (time.perf_counter() - begin))
    medians = {name: statistics.median(each) for name, each in times.items()}
    return {
        **{f"{name}_ms": round(each, 1) for name, each in medians.items()},
        "reference_over_kernel": round(medians["reference"] / medians["kernel"], 2),
        "kernel_over_lstm": round(medians["kernel"] / medians["lstm"], 2),
    }


def main() -> None:
    steps: dict[str, Any] = {}
    for threads, name in ((1, "1 thread"), (2, "2 threads")):
        torch.set_num_threads(threads)
        steps[name] = {name: measure(options, *sizes) for name, options, *sizes in CASES}
    head = {"date": datetime.now(UTC).date().isoformat(), **provenance(), "repeats": REPEATS}
    print(json.dumps({**head, "step": steps}, indent=2))


if __name__ == "__main__":
    main()
