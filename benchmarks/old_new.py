"""Two installations of this package timed against each other: A B A B, medians of ratios in rounds.

    python benchmarks/old_new.py OLD_PYTHON NEW_PYTHON [--out FILE] [--repeats 15]

Each is a process that waits while the other one runs. Every case of `unbounded bench`, one step of
generation, and the memory alone. Run it when nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORKER = "--worker"


def worker():
    import torch

    import unbounded as ub
    from unbounded.experiments.bench.cases import Case, make_memory, suite
    from unbounded.experiments.bench.measuring import forward_backward, memory_layer, sequence
    from unbounded.rnn.stream import open_stream

    def stream(memory):
        case = Case(memory=memory, batch=1, output=64)
        layer = memory_layer(case, "cpu")
        layer.batch_first = True
        x = torch.randn(1, 1, case.input)
        steps = open_stream(layer, 1, x)
        return lambda: [steps.run(x) for _ in range(20)]

    def unroll(memory):
        case = Case(memory=memory)
        structure = make_memory(case)
        random = torch.Generator().manual_seed(0)
        fields = [
            torch.rand(10, 130, *head.shape, generator=random).requires_grad_()
            for head in structure.heads
        ]

        def run():
            read_vectors, _ = structure.unroll(structure.Instruction(*fields), backend="cpu")
            torch.autograd.grad(read_vectors.sum(), fields)

        return run

    names = ("stack", "queue", "deque", "superposition_stack", "superposition_list")
    runs = {}
    for case in suite("all"):
        runs[case.name] = (
            case.threads,
            forward_backward(memory_layer(case, "cpu"), sequence(case, case.input)),
        )
    for name in names:
        runs[f"20 steps of generation, {name}"] = (1, stream(name))
        runs[f"unroll, {name}"] = (2, unroll(name))
    del ub
    print(json.dumps(list(runs)), flush=True)
    for line in sys.stdin:
        threads, run = runs[line.strip()]
        torch.set_num_threads(threads)
        run()  # what the other process has pushed out of the caches comes back
        start = time.perf_counter()
        run()
        print(1e3 * (time.perf_counter() - start), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    workers = [
        subprocess.Popen(
            [python, __file__, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for python in (arguments.old, arguments.new)
    ]
    names, _ = [json.loads(process.stdout.readline()) for process in workers]

    def ask(process, name):
        process.stdin.write(name + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    results = {}
    for name in names:
        for process in workers:
            ask(process, name)
        rounds = [[ask(process, name) for process in workers] for _ in range(arguments.repeats)]
        old, new = (statistics.median(times) for times in zip(*rounds, strict=True))
        ratio = statistics.median(after / before for before, after in rounds)
        results[name] = {"old_ms": old, "new_ms": new, "new_over_old": ratio}
        print(f"{name:70} {old:8.2f} {new:8.2f} ms  {ratio:.3f}", flush=True)
    for process in workers:
        process.stdin.close()
        process.wait()
    ratios = [result["new_over_old"] for result in results.values()]
    print(f"median of the ratios {statistics.median(ratios):.3f}, greatest {max(ratios):.3f}")
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    worker() if sys.argv[1:] == [WORKER] else main()
