"""A training step on sequences of different lengths: what the kernels save by stopping early.

    python benchmarks/ragged.py > benchmarks/ragged.json

One thread, the sizes of Grefenstette et al. 2015 (256 units, batches of 10, lengths 8 to 64) and
the batches of training. Each batch is trained in four ways, one after the other: "padded" gives the
model no lengths; "as drawn" gives them in the order of the examples; "sorted", which training uses,
puts the longest first; "bucketed" also has `training.length_bucketing` 10, with the same examples
in every ten batches. Means over batches, in ms, and the share of the padded batch that is no
padding. A step is loss, gradient and RMSProp.
"""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime
from typing import Any

import torch

from unbounded.evaluation.provenance import provenance
from unbounded.models import MemoryModel
from unbounded.tasks import Batch, LengthRange, make_task
from unbounded.training.length_bucketing import LengthBuckets
from unbounded.training.objective import masked_cross_entropy

BATCHES, WARM_UP, UNITS, DEALT = 40, 10, 256, 10
TASKS = ("copy", "svo_sov", "gender")
MODELS: dict[str, dict[str, Any]] = {
    "Stack-LSTM": {"memory": {"name": "stack", "width": UNITS}, "readout_size": 64},
    "Queue-LSTM": {"memory": {"name": "queue", "width": UNITS}, "readout_size": 64},
    "DeQue-LSTM": {"memory": {"name": "deque", "width": UNITS}, "readout_size": 64},
    "1-layer LSTM": {"memory": "none"},
}


def milliseconds(
    model: MemoryModel, optimizer: torch.optim.Optimizer, batch: Batch, lengths: Any
) -> float:
    begin = time.perf_counter()
    logits = model(batch.inputs, None, lengths)[0]
    (masked_cross_entropy(logits, batch.targets, batch.mask) / int(batch.mask.sum())).backward()
    optimizer.step()
    optimizer.zero_grad()
    return 1e3 * (time.perf_counter() - begin)


def measure(task_name: str, options: dict[str, Any]) -> dict[str, float]:
    task = make_task(task_name)
    size = LengthRange(8, 64)
    buckets, like = LengthBuckets(task, 0, 10), LengthBuckets(task, 0, 10, DEALT)
    torch.manual_seed(0)
    model = MemoryModel(
        inputs=len(task.input_vocabulary),
        outputs=len(task.output_vocabulary),
        hidden_size=UNITS,
        **options,
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    times: dict[str, list[float]] = {
        name: [] for name in ("padded", "as drawn", "sorted", "bucketed")
    }
    live = whole = 0
    for number in range(BATCHES + WARM_UP):
        drawn, dealt = task.batch(0, "train", number * 10, 10, size), buckets.batch(number, size)
        alike = like.batch(number, size)
        took = {
            "padded": milliseconds(model, optimizer, drawn, None),
            "as drawn": milliseconds(model, optimizer, drawn, drawn.lengths),
            "sorted": milliseconds(model, optimizer, dealt, dealt.lengths),
            "bucketed": milliseconds(model, optimizer, alike, alike.lengths),
        }
        if number >= WARM_UP:
            for name, each in took.items():
                times[name].append(each)
            live, whole = live + int(drawn.lengths.sum()), whole + drawn.inputs.numel()
    means = {name: statistics.mean(each) for name, each in times.items()}
    return {
        **{f"{name.replace(' ', '_')}_ms": round(mean, 1) for name, mean in means.items()},
        "sorted_over_padded": round(means["sorted"] / means["padded"], 3),
        "bucketed_over_sorted": round(means["bucketed"] / means["sorted"], 3),
        "share_that_is_no_padding": round(live / whole, 3),
    }


def main() -> None:
    torch.set_num_threads(1)
    steps = {
        f"{task}, {name}": measure(task, options)
        for task in TASKS
        for name, options in MODELS.items()
    }
    head = {"date": datetime.now(UTC).date().isoformat(), **provenance()}
    print(json.dumps({**head, "batches": BATCHES, "step": steps}, indent=2))


if __name__ == "__main__":
    main()
