"""A step of SGD on one stream of many different symbols, with and without row-sparse gradients.

    python benchmarks/row_sparse.py > benchmarks/row_sparse.json

One thread, the sizes of Joulin & Mikolov 2015, Table 4 (10 000 words, 100 units, chunks of 50).
Words are drawn by Zipf's law. Each chunk is trained in three ways, one after the other: "turned"
computes the gradient of the input matrix as the gradient of an embedding, and transposes it (used
until November 2026); "whole" computes the dense gradient in the layout of the matrix; "in use"
computes and updates only the columns of the words in the chunk. Medians in ms.
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
from torch import Tensor
from torch.nn import functional as F

from unbounded.evaluation.provenance import provenance
from unbounded.models import MemoryModel
from unbounded.rnn import symbols
from unbounded.tasks import Batch, LengthRange
from unbounded.training.chunk_update import ChunkUpdate
from unbounded.training.options import PhaseOptions

WORDS, UNITS, STEPS, CHUNKS, WARM_UP = 10_000, 100, 50, 60, 5
STACK = {"name": "superposition_stack", "count": 60, "capacity": 200, "overflow": "drop_bottom"}
ELMAN = {"name": "elman", "activation": "sigmoid", "recurrent": True, "bias": False}
MODELS: dict[str, dict[str, Any]] = {
    "RNN": {"memory": "none", "controller": ELMAN},
    "LSTM": {"memory": "none", "controller": {"name": "lstm", "skip_input": False}},
    "Stack RNN": {"memory": STACK, "controller": ELMAN},
}
OPTIONS = PhaseOptions(
    seed=0, lengths=LengthRange(1, 2), batch_size=1, batches=1, clip=15.0, clip_by="value",
    chunk_steps=STEPS, reduction="sum",
)  # fmt: skip


def turned(weight: Tensor, size: int, words: Tensor) -> tuple[Tensor, Tensor]:
    """What `layers.symbols._columns` gave before: of the same value, and gradient."""
    columns, others = weight.split([size, weight.shape[1] - size], dim=1)
    return F.embedding(words, columns.t()), others


def stream() -> Batch:
    draw = torch.Generator().manual_seed(1)
    chances = 1 / torch.arange(1, WORDS + 1, dtype=torch.float64)
    words = torch.multinomial(chances, STEPS * (CHUNKS + WARM_UP) + 1, True, generator=draw)
    inputs, targets = words[:-1].unsqueeze(0), words[1:].unsqueeze(0)
    whole = torch.tensor([inputs.shape[1]])
    return Batch(inputs, targets, torch.ones_like(inputs, dtype=torch.bool), whole)


def total_of(nats: Tensor) -> tuple[float, int]:
    return float(nats.detach()), 0


def measure(options: dict[str, Any]) -> dict[str, float]:
    ways = {}
    for name in ("turned", "whole", "in use"):
        torch.manual_seed(0)
        model = MemoryModel(
            inputs=WORDS, outputs=WORDS, hidden_size=UNITS, embedding_size=None,
            output_bias=False, initialization="sums", output_initialization="sums", **options,
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        trainer = ChunkUpdate(model, optimizer, Accelerator(cpu=True), total_of, OPTIONS)
        if name != "in use":
            trainer._row_sparse = None
        ways[name] = trainer.train(stream(), 0)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(CHUNKS + WARM_UP):
        for name, steps in ways.items():
            before = turned if name == "turned" else symbols._columns
            with mock.patch.object(symbols, "_columns", before):
                begin = time.perf_counter()
                next(steps)
                if number >= WARM_UP:
                    times[name].append(1e3 * (time.perf_counter() - begin))
    middle = {name: statistics.median(each) for name, each in times.items()}
    return {
        **{f"{name.replace(' ', '_')}_ms": round(each, 2) for name, each in middle.items()},
        "whole_over_turned": round(middle["whole"] / middle["turned"], 3),
        "in_use_over_turned": round(middle["in use"] / middle["turned"], 3),
    }


def main() -> None:
    torch.set_num_threads(1)
    steps = {name: measure(options) for name, options in MODELS.items()}
    head = {"date": datetime.now(UTC).date().isoformat(), **provenance()}
    print(json.dumps({**head, "chunks": CHUNKS, "step": steps}, indent=2))


if __name__ == "__main__":
    main()
