"""Two threads against one while another process keeps one of the cores busy.

    python benchmarks/contention.py > benchmarks/contention.json

A barrier that only spins waits for a thread that is not running; ours yields. The bar: two threads
are then no slower than 1.5 times one thread. Needs Linux (the busy process is pinned to a core).
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
from unbounded.experiments.bench.cases import Case
from unbounded.experiments.bench.contenders import forward_backward, memory_layer, sequence

REPEATS = 15


def keep_busy(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        pass


def measure() -> dict[str, float]:
    case = Case()
    run = forward_backward(memory_layer(case, "cpu"), sequence(case, case.input))
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


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    alone = measure()
    busy = multiprocessing.get_context("spawn").Process(target=keep_busy, args=(cores[1],))
    busy.start()
    try:
        time.sleep(1)
        beside = measure()
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
