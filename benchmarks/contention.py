"""Two threads against one, on idle cores and while another process keeps one core busy.

    python benchmarks/contention.py > benchmarks/contention.json

If the second thread does not arrive at a barrier, the kernels continue with one thread. The bar:
two threads take at most 1.5 times as long as one. Needs Linux, because the busy process is pinned
to a core, and no real-time priority. "fused_calls" is the kernels alone. Output layer and sum of a
forward and backward pass are torch's, whose threads wait for each other as in torch.nn.LSTM.
"train TASK" is a training by the command line, from the first batch to the last. There torch's
threads sleep soon while they wait (unbounded/__main__.py); in this process they spin. Both
conditions alternate within each round.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch

from unbounded.evaluation.provenance import provenance
from unbounded.experiments.bench.cases import Case, make_memory
from unbounded.experiments.bench.measuring import (
    Pass,
    forward_backward,
    memory_layer,
    sequence,
)
from unbounded.rnn import MemoryRNN

REPEATS = 5
#: Passes before those that count, because the kernels learn within so many whether the other core
#: is free (csrc/threads.h), and those that count, of which the mean is taken.
SETTLING, PASSES = 72, 16
#: Batches of each training, and how often it is repeated; one of them takes a second and more.
TRAININGS = {"copy": 80, "anbn": 40, "binary_addition": 300}
TRAININGS_REPEATED = 3


def keep_busy(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        pass


def fused_calls(case: Case) -> Pass:
    """Return the forward and the backward call of the kernels, without anything of torch's."""
    torch.manual_seed(0)
    layer = MemoryRNN(case.input, case.hidden, make_memory(case), backend="cpu")
    x = sequence(case, case.input)
    expected = [x, *layer.parameters()]
    gradient = torch.ones(case.steps, case.batch, case.hidden)
    return lambda: torch.autograd.grad(layer(x)[0], expected, gradient)


class Busy:
    """A process that keeps a core busy, or sleeps."""

    def __init__(self, core: int) -> None:
        self._process = multiprocessing.get_context("spawn").Process(target=keep_busy, args=(core,))
        self._process.start()
        time.sleep(2)

    def set(self, is_busy: bool) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT if is_busy else signal.SIGSTOP)
        time.sleep(0.05)

    def end(self) -> None:
        self._process.kill()


def medians(run: Callable[[int], float], repeats: int, busy: Busy) -> list[dict[str, float]]:
    """Of one and of two threads, alone and then beside a busy core; the first round is not counted.

    Args:
        run: called with the threads, gives milliseconds.
        repeats: rounds that count.
    """
    times: dict[tuple[bool, int], list[float]] = {
        (is_busy, threads): [] for is_busy in (False, True) for threads in (1, 2)
    }
    for turn in range(repeats + 1):
        for (is_busy, threads), taken in times.items():
            busy.set(is_busy)
            milliseconds = run(threads)
            if turn:
                taken.append(milliseconds)
    found = []
    for is_busy in (False, True):
        one, two = (statistics.median(times[is_busy, threads]) for threads in (1, 2))
        found.append({"one_thread_ms": one, "two_threads_ms": two, "two_over_one": two / one})
    return found


def passing(run: Pass, threads: int) -> float:
    torch.set_num_threads(threads)
    for _ in range(SETTLING):
        run()
    start = time.perf_counter()
    for _ in range(PASSES):
        run()
    return 1e3 * (time.perf_counter() - start) / PASSES


def training(task: str, threads: int) -> float:
    """Train in a process of its own, whose start is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "runs": folder,
            "training.batches": TRAININGS[task],
            "training.schedule": "constant",
            "training.report_every": 10,
            "training.validation_count": 20,
            "hardening.batches": 0,
            "evaluation.count": 4,
            "hardware.threads": threads,
        }
        given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        subprocess.run(
            [sys.executable, "-P", "-m", "unbounded", "train", task, "--quiet", *given],
            check=True,
            stdout=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
        )
        log = next(Path(folder).glob("*/metrics.jsonl")).read_text(encoding="utf-8")
    records = [json.loads(line) for line in log.splitlines()]
    return 1e3 * max(each["elapsed_s"] for each in records if "elapsed_s" in each)


def measured(passes: dict[str, Pass], busy: Busy) -> dict[str, list[dict[str, float]]]:
    calls = {name: medians(partial(passing, run), REPEATS, busy) for name, run in passes.items()}
    trained = {
        f"train {task}": medians(partial(training, task), TRAININGS_REPEATED, busy)
        for task in TRAININGS
    }
    return calls | trained


def contenders() -> dict[str, Pass]:
    case = Case()
    whole = forward_backward(memory_layer(case, "cpu"), sequence(case, case.input))
    baseline = torch.nn.LSTM(case.input + case.read_vector, case.hidden)
    return {
        "fused_calls": fused_calls(case),
        "with_output_layer_and_sum": whole,
        "torch.nn.LSTM": forward_backward(baseline, sequence(case, case.input + case.read_vector)),
    }


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    passes = contenders()
    busy = Busy(cores[1])
    try:
        found = measured(passes, busy)
    finally:
        busy.end()
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "alone": {name: alone for name, (alone, _) in found.items()},
        "one_core_busy": {name: beside for name, (_, beside) in found.items()},
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
