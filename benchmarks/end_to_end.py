"""The shares of drawing and evaluating in training, and what the kernels save.

    python benchmarks/end_to_end.py > benchmarks/end_to_end.json

One thread, the Queue-LSTM of `unbounded train copy` and the one-layer LSTM. The bars: drawing takes
at most 5 % of training time; scoring 2 x 1000 sequences takes at most 10 % of 1000 batches.
"""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime

import torch
import torch.nn.functional as F
from torch import nn

import unbounded as ub
from unbounded.evaluation import score
from unbounded.evaluation.provenance import provenance
from unbounded.models import SequenceModel
from unbounded.tasks import Batch, TransductionTask, make_task

BATCHES = 40


def queue_lstm(task: TransductionTask, backend: str) -> nn.Module:
    layer = ub.MemoryRNN(
        64,
        256,
        ub.NeuralQueue(256),
        output_size=64,
        batch_first=True,
        backend=backend,
        learn_initial_state=True,
    )
    return SequenceModel(len(task.input_vocabulary), len(task.output_vocabulary), 64, layer, 64)


def main() -> None:
    torch.set_num_threads(1)
    task = make_task("copy")
    models = {name: queue_lstm(task, name) for name in ("cpu", "reference")}
    optimizers = {name: torch.optim.RMSprop(m.parameters(), lr=1e-3) for name, m in models.items()}
    times: dict[str, list[float]] = {"draw": [], "cpu": [], "reference": []}

    def step(name: str, batch: Batch) -> float:
        start = time.perf_counter()
        inputs, targets, mask, _ = batch
        logits, _ = models[name](inputs)
        loss = F.cross_entropy(logits[mask], targets[mask])
        optimizers[name].zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(models[name].parameters(), 1.0)
        optimizers[name].step()
        return 1e3 * (time.perf_counter() - start)

    for index in range(BATCHES):
        start = time.perf_counter()
        batch = task.batch(0, "train", index * 10, 10)
        times["draw"].append(1e3 * (time.perf_counter() - start))
        times["cpu"].append(step("cpu", batch))
        if index % 5 == 0:
            times["reference"].append(step("reference", batch))
    mean = {name: statistics.mean(each[1:]) for name, each in times.items()}
    start = time.perf_counter()
    for lengths in (task.train_lengths, task.test_lengths):
        score(models["cpu"], task, seed=0, split="validation", lengths=lengths, count=1000)
    metric_set = 1e3 * (time.perf_counter() - start)
    thousand = 1000 * (mean["draw"] + mean["cpu"])
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "ms_per_batch": mean,
        "draw_share_of_training": mean["draw"] / (mean["draw"] + mean["cpu"]),
        "score_2x1000_ms": metric_set,
        "score_share_of_1000_batches": metric_set / thousand,
        "reference_over_fused_step": mean["reference"] / mean["cpu"],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
