"""The cost of vanishing gradients: layers that forget at once, and layers that forget nothing.

    python benchmarks/denormals.py > benchmarks/denormals.json

A gradient that goes back through a gate of 1e-4 is a denormal number after ten steps, and stays
one. Forward and backward of 50 steps of one sequence, 200 units, one thread: medians of interleaved
rounds, in ms; torch by default, and with `torch.set_flush_denormal(True)`.

The last part is the norm of a gradient of 250 000 numbers (an RNN of 500 units), which each
training step computes. Squares are denormal numbers if the numbers are below 1.1e-19.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch

import unbounded as ub
from unbounded.evaluation.provenance import provenance

STEPS, UNITS, INPUTS, ROUNDS = 50, 200, 4, 40
NUMBERS = 250_000


def layer(backend: str, forget: float) -> ub.DeepLSTM:
    torch.manual_seed(0)
    made = ub.DeepLSTM(INPUTS, UNITS, backend=backend)
    with torch.no_grad():
        for weight in made.layers[0].parameters():
            weight.mul_(1e-3)
        made.layers[0].bias_ih_l0[UNITS : 2 * UNITS] = forget
    return made


def timed(run: Callable[[torch.Tensor], torch.Tensor], flush: bool) -> float:
    torch.set_flush_denormal(flush)
    x = torch.randn(
        STEPS, 1, INPUTS, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    begun = time.perf_counter()
    run(x)[-1].sum().backward()
    took = time.perf_counter() - begun
    torch.set_flush_denormal(False)
    return 1000 * took


def norms() -> dict[str, dict[str, float]]:
    found = {}
    for size in (1.0, 1e-20):
        gradient = size * torch.randn(NUMBERS, generator=torch.Generator().manual_seed(1))
        rounds: dict[str, list[float]] = {"torch": [], "torch, flushed": []}
        for _ in range(ROUNDS):
            for case, times in rounds.items():
                torch.set_flush_denormal(case.endswith("flushed"))
                begun = time.perf_counter()
                torch.linalg.vector_norm(gradient)
                times.append(1000 * (time.perf_counter() - begun))
                torch.set_flush_denormal(False)
        found[f"norm, numbers of {size:g}"] = {
            case: statistics.median(times) for case, times in rounds.items()
        }
    return found


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    for name, forget in (("forgets nothing", 9.0), ("forgets at once", -9.0)):
        layers = {backend: layer(backend, forget) for backend in ("cpu", "reference")}
        cases = {
            "kernels": (layers["cpu"], False),
            "torch": (layers["reference"], False),
            "torch, flushed": (layers["reference"], True),
        }
        rounds: dict[str, list[float]] = {case: [] for case in cases}
        for _ in range(ROUNDS):
            for case, (made, flush) in cases.items():
                rounds[case].append(timed(lambda x, made=made: made(x)[0], flush))
        found[name] = {case: statistics.median(times) for case, times in rounds.items()}
    print(
        json.dumps(
            {
                "date": datetime.now(UTC).date().isoformat(),
                **provenance(),
                "ms": {**found, **norms()},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
