"""Two threads against one while another process keeps one of the cores busy.

    python benchmarks/contention.py > benchmarks/contention.json

A barrier that only spins waits for a thread that is not running; ours gives it up, and the other
thread goes on alone. The bar: two threads are then no slower than 1.5 times one thread. Needs Linux
(the busy process is pinned to a core), and no real-time priority: then nothing would be shared.
"fused_calls" is the kernels alone; the output layer and the sum of a whole pass are torch's, whose
threads wait for each other as those of torch.nn.LSTM do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import time
from datetime import UTC, datetime

import torch

from unbounded.evaluation.provenance import provenance
from unbounded.experiments.bench.cases import Case, make_memory
from unbounded.experiments.bench.contenders import (
    Pass,
    forward_backward,
    memory_layer,
    sequence,
)
from unbounded.layers import MemoryRNN

REPEATS = 15


def keep_busy(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        pass


def fused_calls(case: Case) -> Pass:
    """Return the forward and the backward call of the kernels, without anything of torch's."""
    torch.manual_seed(0)
    layer = MemoryRNN(case.input, case.hidden, make_memory(case), backend="cpu")
    x = sequence(case, case.input)
    wanted = [x, *layer.parameters()]
    gradient = torch.ones(case.steps, case.batch, case.hidden)
    return lambda: torch.autograd.grad(layer(x)[0], wanted, gradient)


def measure(run: Pass) -> dict[str, float]:
    times: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(REPEATS + 1):
        for threads in times:
            torch.set_num_threads(threads)
            start = time.perf_counter()
            run()
            if turn:
                times[threads].append(1e3 * (time.perf_counter() - start))
    one, two = (statistics.median(times[threads]) for threads in (1, 2))
    return {"one_thread_ms": one, "two_threads_ms": two, "two_over_one": two / one}


def contenders() -> dict[str, Pass]:
    case = Case()
    whole = forward_backward(memory_layer(case, "cpu"), sequence(case, case.input))
    baseline = torch.nn.LSTM(case.input + case.reading, case.hidden)
    return {
        "fused_calls": fused_calls(case),
        "with_output_layer_and_sum": whole,
        "torch.nn.LSTM": forward_backward(baseline, sequence(case, case.input + case.reading)),
    }


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    passes = contenders()
    alone = {name: measure(run) for name, run in passes.items()}
    busy = multiprocessing.get_context("spawn").Process(target=keep_busy, args=(cores[1],))
    busy.start()
    try:
        time.sleep(1)
        beside = {name: measure(run) for name, run in passes.items()}
    finally:
        busy.kill()
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "alone": alone,
        "one_core_busy": beside,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
