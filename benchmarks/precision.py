"""Products of bfloat16 numbers: what they save, and how large their errors are.

    python benchmarks/precision.py > benchmarks/precision.json

One thread, the sizes of Grefenstette et al. 2015 (256 units, batches of 10). Layers: forward and
backward pass over 75 steps of 256 inputs, with nn.LSTM. Steps: loss, gradient and RMSProp on the
batches of copy. Each under every precision of torch.set_float32_matmul_precision, one after the
other in each round; medians in ms, and the ratio to the highest precision. Errors: of the outputs
and of the worst gradient, relative in the norm, from the same layer in float64.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import unbounded as ub
from unbounded.evaluation.provenance import provenance
from unbounded.kernels import PRECISIONS, has_tiles
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange, make_task
from unbounded.training.length_bucketing import LengthBuckets
from unbounded.training.objective import masked_cross_entropy

ROUNDS, UNITS, BATCH, STEPS = 15, 256, 10, 75
MEMORIES: dict[str, Callable[[], Any]] = {
    "stack": lambda: ub.NeuralStack(UNITS),
    "queue": lambda: ub.NeuralQueue(UNITS),
    "deque": lambda: ub.NeuralDeque(UNITS),
}
MODELS: dict[str, dict[str, Any]] = {
    "1-layer LSTM": {"memory": "none"},
    "4-layer LSTM": {"memory": "none", "controller": {"name": "lstm", "num_layers": 4}},
    "Stack-LSTM": {"memory": {"name": "stack", "width": UNITS}, "readout_size": 64},
    "DeQue-LSTM": {"memory": {"name": "deque", "width": UNITS}, "readout_size": 64},
}


def layers() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    of_memories = {
        f"{name}, LSTM controller": ub.MemoryRNN(UNITS, UNITS, make(), "lstm", backend="cpu")
        for name, make in MEMORIES.items()
    }
    return {
        "nn.LSTM": nn.LSTM(UNITS, UNITS),
        "LSTM without a memory": ub.ControllerRNN(UNITS, UNITS, "lstm"),
        **of_memories,
    }


def passes(layer: nn.Module, x: Tensor) -> list[Tensor]:
    """The outputs, and the gradients of x and of every weight."""
    layer.zero_grad(set_to_none=True)
    x.grad = None
    outputs, _ = layer(x)
    outputs.square().sum().backward()
    grads = (each.grad for each in (x, *layer.parameters()))
    return [outputs.detach(), *(each for each in grads if each is not None)]


def layer_pass(layer: nn.Module, x: Tensor, _: int) -> list[Tensor]:
    return passes(layer, x)


def steps() -> dict[str, Callable[[int], None]]:
    task = make_task("copy")
    buckets, size = LengthBuckets(task, 0, BATCH), LengthRange(8, 64)
    made: dict[str, Callable[[int], None]] = {}
    for name, options in MODELS.items():
        torch.manual_seed(0)
        model = MemoryModel(
            inputs=len(task.input_vocabulary),
            outputs=len(task.output_vocabulary),
            hidden_size=UNITS,
            **options,
        )
        optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)

        def step(
            number: int, model: MemoryModel = model, optimizer: torch.optim.Optimizer = optimizer
        ) -> None:
            batch = buckets.batch(number, size)
            logits = model(batch.inputs, None, batch.lengths)[0]
            nats = masked_cross_entropy(logits, batch.targets, batch.mask)
            (nats / int(batch.mask.sum())).backward()
            optimizer.step()
            optimizer.zero_grad()

        made[name] = step
    return made


def timed(run: Callable[[int], object], number: int) -> float:
    begin = time.perf_counter()
    run(number)
    return 1e3 * (time.perf_counter() - begin)


def medians(runs: Mapping[str, Callable[[int], object]]) -> dict[str, dict[str, float]]:
    """Of each run under each precision, in ms, and how many times as fast as at the highest."""
    times: dict[str, dict[str, list[float]]] = {
        name: {precision: [] for precision in PRECISIONS} for name in runs
    }
    for number in range(ROUNDS + 1):
        for name, run in runs.items():
            for precision in PRECISIONS:
                torch.set_float32_matmul_precision(precision)
                took = timed(run, number)
                if number:  # the first one warms up
                    times[name][precision].append(took)
    torch.set_float32_matmul_precision("highest")
    found = {}
    for name, of_run in times.items():
        ms = {precision: statistics.median(each) for precision, each in of_run.items()}
        gains = {f"{each}, times as fast": ms["highest"] / ms[each] for each in PRECISIONS[1:]}
        found[name] = {key: round(value, 2) for key, value in {**ms, **gains}.items()}
    return found


def errors(layer: nn.Module, x: Tensor) -> dict[str, dict[str, float]]:
    exact = passes(layer.double(), x.detach().double().requires_grad_())
    layer.float()
    found = {}
    for precision in PRECISIONS:
        torch.set_float32_matmul_precision(precision)
        off = [
            float((one.double() - other).norm() / other.norm())
            for one, other in zip(passes(layer, x), exact, strict=True)
        ]
        found[precision] = {
            "outputs": float(f"{off[0]:.1e}"),
            "worst gradient": float(f"{max(off[1:]):.1e}"),
        }
    torch.set_float32_matmul_precision("highest")
    return found


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(STEPS, BATCH, UNITS, generator=generator).requires_grad_()
    named = layers()
    runs = {name: partial(layer_pass, layer, x) for name, layer in named.items()}
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "bfloat16 tiles": has_tiles(),
        "units": UNITS, "batch": BATCH, "steps": STEPS, "rounds": ROUNDS,
        "layers, ms forward and backward": medians(runs),
        "training steps on copy, ms": medians(steps()),
        "relative errors": {
            name: errors(layer, x) for name, layer in named.items() if name != "nn.LSTM"
        },
    }  # fmt: skip
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
