"""Stacks of vectors beside torch.nn.LSTM, in one run.

    python benchmarks/vector_stack.py > benchmarks/vector_stack.json

One stack of cells of 8 numbers and 256 units, as in Delétang et al. 2023, batches of 32 sequences
of 80 steps with 8 inputs: forward and backward. The bar: at most twice the time of torch.nn.LSTM
with as many units, for each number of threads.
"""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime

import torch
from torch import nn

import unbounded as ub
from unbounded.evaluation.provenance import provenance
from unbounded.experiments.bench.measuring import Pass, forward_backward, interleave, ratio

STEPS, BATCH, INPUTS, HIDDEN, WIDTH = 80, 32, 8, 256, 8
REPEATS = 40


def layer(controller: str, backend: str) -> ub.MemoryRNN:
    memory = ub.SuperpositionStack(
        1, depth=1, noop=True, empty=0, width=WIDTH, activation="identity"
    )
    return ub.MemoryRNN(INPUTS, HIDDEN, memory, controller, backend=backend)


def passes() -> dict[str, Pass]:
    torch.manual_seed(0)
    layers: dict[str, nn.Module] = {
        "vector stack, LSTM": layer("lstm", "cpu"),
        "vector stack, Elman": layer("elman", "cpu"),
        "nn.LSTM": nn.LSTM(INPUTS, HIDDEN),
        "reference, LSTM": layer("lstm", "reference"),
    }
    x = torch.randn(STEPS, BATCH, INPUTS)
    return {
        name: forward_backward(module, x.clone().requires_grad_())
        for name, module in layers.items()
    }


def main() -> None:
    result: dict[str, object] = {"date": datetime.now(UTC).date().isoformat(), **provenance()}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        times = interleave(passes(), REPEATS)
        result[f"{threads} thread(s)"] = {
            "median_ms": {name: statistics.median(each) for name, each in times.items()},
            "of_nn_lstm": {name: ratio(each, times["nn.LSTM"]) for name, each in times.items()},
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
