"""Training a Stack RNN with an update after every symbol: symbols per second on one core.

    python benchmarks/symbol_update.py > benchmarks/symbol_update.json

The component of `--training.update per_symbol` on one stream of a^n b^n, n up to 20: 40 hidden
units and 10 stacks of at most 200 cells, k = 2, without NO-OP, R = 0, gradients through 50 steps,
as in `--protocol paper`. Its products are numpy's: set OMP_NUM_THREADS=1. Seconds are processor
time of the process, so other programs have little effect.
"""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime

import torch

from unbounded.evaluation.provenance import provenance
from unbounded.models.memory_model import STACK_RNN, MemoryModel
from unbounded.tasks import LengthRange, make_task
from unbounded.training.carried_state import CarriedState
from unbounded.training.per_symbol_update import DEFAULT_REACH, PerSymbolUpdate

ROUNDS = 12


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    memory = {"name": "superposition_stack", "capacity": 200, "overflow": "drop_bottom"}
    model = MemoryModel(inputs=2, outputs=2, **{**STACK_RNN, "memory": memory})
    trainer = PerSymbolUpdate(
        model.sequence,
        torch.optim.SGD(model.parameters(), lr=0.1),
        reach=DEFAULT_REACH,
        clip=15.0,
        carry=CarriedState(),
        stop=lambda: 0,
    )
    stream = make_task("anbn", sequences=2000).batch(1, "train", 0, 1, LengthRange(2, 20))
    results = trainer.train(stream, 0)
    next(results)  # the first steps reach less far back
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        symbols = next(results).symbols
        rates.append(symbols / (time.process_time() - began))
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "symbols_per_second": {
            "median": statistics.median(rates),
            "least": min(rates),
            "greatest": max(rates),
        },
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
