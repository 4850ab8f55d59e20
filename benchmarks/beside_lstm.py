"""The newer memories, memory attention and Transformers against torch.nn.LSTM, in one run.

    python benchmarks/beside_lstm.py > benchmarks/beside_lstm.json

256 units, batches of 32 sequences of 80 steps with 8 inputs: forward and backward. The stack has
cells of 8 numbers, as in Delétang et al. 2023; the DNC has the sizes of the released program. The
bar of the stack: at most twice the time of torch.nn.LSTM with as many units. Memory attention and
Transformers have 256 inputs, and two layers where nothing else is named; so has the second LSTM.
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

STEPS, BATCH, INPUTS, HIDDEN = 80, 32, 8, 256
REPEATS = 9
NONDETERMINISTIC = "nondeterministic stack, 2 states, 3 symbols"
MEMORIES = {
    "vector stack": ub.SuperpositionStack(
        1, depth=1, noop=True, empty=0, width=8, activation="identity"
    ),
    "rolling tape, 256 cells of 8": ub.RollingTape(256, 8),
    NONDETERMINISTIC: ub.NondeterministicStack(2, 3),
    "DNC": ub.DNC(),
    "DNC without links": ub.DNC(links=False),
    "Lie access, translation": ub.LieAccessMemory(16),
    "Lie access, sphere": ub.LieAccessMemory(16, "sphere"),
    "Lie access, rotation of 3": ub.LieAccessMemory(16, "rotation", key_size=3),
    "Lie access, rotation of 8": ub.LieAccessMemory(16, "rotation", key_size=8),
    "Lie access, Poincare disk": ub.LieAccessMemory(16, "poincare_disk"),
    "RAM": ub.RandomAccessMemory(16),
    "RAM/tape": ub.RandomAccessMemory(16, tape=True, sharpening=True),
}


def passes(backends: tuple[str, ...]) -> dict[str, Pass]:
    torch.manual_seed(0)
    layers: dict[str, nn.Module] = {"nn.LSTM": nn.LSTM(INPUTS, HIDDEN)}
    for backend in backends:
        for name, memory in MEMORIES.items():
            if (name, backend) == (NONDETERMINISTIC, "reference"):
                continue  # its graph takes more than 10 GB
            layers[f"{name}, {backend}"] = ub.MemoryRNN(INPUTS, HIDDEN, memory, backend=backend)
    elman = ub.MemoryRNN(INPUTS, HIDDEN, MEMORIES["vector stack"], "elman", backend="cpu")
    layers["vector stack, Elman, cpu"] = elman
    wide: dict[str, nn.Module] = {"nn.LSTM, 2 layers, 256 inputs": nn.LSTM(HIDDEN, HIDDEN, 2)}
    for backend in backends:
        stack = ub.SuperpositionStack(8, width=8)
        attention = ub.MemoryAttention(HIDDEN, stack, backend=backend)
        wide[f"memory attention, 1 layer, 8 stacks of vectors, {backend}"] = attention
    wide["Transformer"] = ub.Transformer(HIDDEN, HIDDEN)
    wide["DeltaNet"] = ub.DeltaNet(HIDDEN, HIDDEN)
    wide["DeltaProduct"] = ub.DeltaProduct(HIDDEN, HIDDEN)
    timed = {}
    for size, some in ((INPUTS, layers), (HIDDEN, wide)):
        x = torch.randn(STEPS, BATCH, size)
        for name, module in some.items():
            timed[name] = forward_backward(module, x.clone().requires_grad_())
    return timed


def main() -> None:
    result: dict[str, object] = {"date": datetime.now(UTC).date().isoformat(), **provenance()}
    for threads, backends in ((1, ("cpu", "reference")), (2, ("cpu",))):
        torch.set_num_threads(threads)
        times = interleave(passes(backends), REPEATS)
        result[f"{threads} thread(s)"] = {
            "median_ms": {name: statistics.median(each) for name, each in times.items()},
            "of_nn_lstm": {name: ratio(each, times["nn.LSTM"]) for name, each in times.items()},
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
