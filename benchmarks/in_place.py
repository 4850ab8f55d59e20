"""A training step of a small network on one stream: static buffers, and torch's graph.

    python benchmarks/in_place.py > benchmarks/in_place.json

One thread, chunks of 50 symbols of a^n b^n, plain SGD, gradients clipped by element: the paper's
protocol of Joulin & Mikolov 2015. A step is all that `ChunkUpdate` does: loss, gradient, clipping,
SGD. Medians of interleaved rounds, in ms. "kernels" is the time of a static-buffer step within the
compiled kernels.
"""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import torch
from accelerate import Accelerator

from unbounded.evaluation.provenance import provenance
from unbounded.kernels import _static
from unbounded.models import MemoryModel
from unbounded.models.memory_model import STACK_RNN
from unbounded.tasks import Batch, LengthRange
from unbounded.training import PhaseOptions
from unbounded.training.chunk_update import ChunkUpdate

ROUNDS, CHUNKS, STEPS, SYMBOLS = 15, 40, 50, 2

STACKS = {"name": "superposition_stack", "capacity": 200, "overflow": "drop_bottom"}
LISTS = {"name": "superposition_list", "capacity": 200, "overflow": "drop_ends"}
ELMAN = {"name": "elman", "activation": "sigmoid", "bias": False}
LSTM = {"name": "lstm", "skip_input": False}
CASES: dict[str, dict[str, Any]] = {
    "Stack RNN 40+10": {**STACK_RNN, "memory": STACKS},
    "List RNN 40+10": {**STACK_RNN, "memory": LISTS},
    "RNN 40": {"memory": "none", "controller": ELMAN, "hidden_size": 40},
    "RNN 500": {"memory": "none", "controller": ELMAN, "hidden_size": 500},
    "LSTM 50": {"memory": "none", "controller": LSTM, "hidden_size": 50},
    "LSTM 100": {"memory": "none", "controller": LSTM, "hidden_size": 100},
    "LSTM 200": {"memory": "none", "controller": LSTM, "hidden_size": 200},
    "LSTM 2 x 100": {
        "memory": "none",
        "controller": {**LSTM, "num_layers": 2},
        "hidden_size": 100,
    },
}


def trainer_of(options: dict[str, Any], streams: int, *, in_place: bool) -> ChunkUpdate:
    torch.manual_seed(0)
    keywords = {**options, "embedding_size": None, "output_bias": False}
    model = MemoryModel(inputs=SYMBOLS, outputs=SYMBOLS, **keywords)
    made = ChunkUpdate(
        model,
        torch.optim.SGD(model.parameters(), lr=1e-4),
        Accelerator(cpu=True),
        lambda nats: (float(nats.detach()), 0),
        PhaseOptions(
            seed=0,
            lengths=LengthRange(1, 2),
            batch_size=streams,
            batches=1,
            clip=15.0,
            clip_by="value",
            chunk_steps=STEPS,
        ),
    )
    if not in_place:
        made._bound = None
    elif made._bound is None:
        raise SystemExit(f"not in place: {options}")
    return made


def milliseconds(trainer: ChunkUpdate, whole: Batch) -> float:
    begin = time.perf_counter()
    for _ in trainer.train(whole, 0):
        pass
    return 1e3 * (time.perf_counter() - begin) / CHUNKS


class Watched:
    """Time within the kernels."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, function: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - begin

        return timed


def kernel_milliseconds(trainer: ChunkUpdate, whole: Batch) -> float:
    watched = Watched()
    with (
        mock.patch.object(_static.Handle, "run", watched.watch(_static.Handle.run)),
        mock.patch.object(_static, "run_backward", watched.watch(_static.run_backward)),
    ):
        milliseconds(trainer, whole)
    return 1e3 * watched.seconds / CHUNKS


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name, options in CASES.items():
        for streams in (1, 32) if name == "Stack RNN 40+10" else (1,):
            tokens = torch.randint(SYMBOLS, (streams, CHUNKS * STEPS + 1))
            inputs, targets = tokens[:, :-1], tokens[:, 1:]
            mask = torch.ones_like(inputs, dtype=torch.bool)
            whole = Batch(inputs, targets, mask, torch.full((streams,), CHUNKS * STEPS))
            both = [trainer_of(options, streams, in_place=where) for where in (True, False)]
            times: list[list[float]] = [[], []]
            for number in range(ROUNDS + 2):
                for trainer, of_one in zip(both, times, strict=True):
                    took = milliseconds(trainer, whole)
                    if number > 1:
                        of_one.append(took)
            place, graph = map(statistics.median, times)
            kernels = statistics.median(kernel_milliseconds(both[0], whole) for _ in range(5))
            found[f"{name}, {streams} stream{'s'[: streams > 1]}"] = {
                "in_place_ms": round(place, 3),
                "graph_ms": round(graph, 3),
                "graph_over_in_place": round(
                    statistics.median(g / p for p, g in zip(*times, strict=True)), 2
                ),
                "kernels_ms": round(kernels, 3),
            }
    head = {"date": datetime.now(UTC).date().isoformat(), **provenance()}
    print(json.dumps({**head, "rounds": ROUNDS, "step": found}, indent=2))


if __name__ == "__main__":
    main()
