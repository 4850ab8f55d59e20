"""Two installations of this package timed against each other: A B A B, medians of ratios in rounds.

    python benchmarks/old_new.py OLD_PYTHON NEW_PYTHON [--out FILE] [--repeats 15]
    python benchmarks/old_new.py OLD_PYTHON NEW_PYTHON --train [--out FILE] [--repeats 6]

Each is a process that waits while the other one runs. Every case of `unbounded bench`, one step of
generation, and the memory alone. With `--train`, `unbounded train` of four tasks, with drawing and
validation: both at once, each on a core of its own, which they exchange after each round. Run it
when nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKER = "--worker"
# Batches of a training, fewer than it takes to solve the task.
TRAININGS = {"copy": 300, "anbn": 80, "dyck": 2500, "answer_copy": 500}
# Options with which the newer version trains what the presets of commit 9c0769f4 are.
SAME_WORK = {
    "copy": ["--model.output_initialization", "normal"],
    "dyck": [
        *("--training.curriculum", "none", "--training.lengths", "null"),
        *("--training.validation_lengths", "null", "--training.batch_size", "16"),
        *("--training.report_every", "500", "--model.memory.shift_bias", "0"),
    ],
}


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


def train(python, preset, options, core):
    """Milliseconds a batch between the first and the last record, seconds to the last, losses.

    The seconds include the start of Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = subprocess.Popen(
            [python, "-m", "unbounded.cli", "train", preset, *options, "--runs", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=lambda: os.sched_setaffinity(0, [core]),
        )
        try:
            while True:
                time.sleep(0.05)
                ended = process.poll() is not None
                records = training_records(folder)
                if records and records[-1]["batch"] >= TRAININGS[preset]:
                    break
                if ended:
                    raise SystemExit(f"{preset} ended before {TRAININGS[preset]} batches: {python}")
            seconds = time.perf_counter() - start
        finally:
            process.kill()
            process.wait()
    records = [record for record in records if record["batch"] <= TRAININGS[preset]]
    first, last = records[0], records[-1]
    each = (last["elapsed_s"] - first["elapsed_s"]) / (last["batch"] - first["batch"])
    return (
        1e3 * each,
        seconds,
        {record["batch"]: record["loss_nats_per_token"] for record in records},
    )


def training_records(folder):
    """The training records of the only run in `folder`. The last line may be half written."""
    text = "".join(path.read_text() for path in Path(folder).glob("*/metrics.jsonl"))
    records = [json.loads(line) for line in text.split("\n")[:-1]]
    return [record for record in records if record["kind"] == "train"]


def compare_trainings(pythons, repeats):
    results = {}
    for preset in TRAININGS:
        options = ((), SAME_WORK.get(preset, ()))
        cores = sorted(os.sched_getaffinity(0))[:2]
        rounds = []
        for _ in range(repeats):
            with ThreadPoolExecutor(2) as pool:
                runs = pool.map(train, pythons, (preset, preset), options, cores)
            rounds.append(list(runs))
            cores.reverse()
        olds, news = zip(*rounds, strict=True)
        results[preset] = {"batches": TRAININGS[preset]}
        for place, name in enumerate(("ms_a_batch", "seconds")):
            pairs = [(old[place], new[place]) for old, new in rounds]
            before, after = (statistics.median(values) for values in zip(*pairs, strict=True))
            ratio = statistics.median(new / old for old, new in pairs)
            results[preset][name] = {"old": before, "new": after, "new_over_old": ratio}
            print(f"{preset:12} {name:10} {before:9.3f} {after:9.3f}  {ratio:.3f}", flush=True)
        results[preset]["same_losses"] = [old[2] for old in olds] == [new[2] for new in news]
    return results


def compare_cases(pythons, repeats):
    workers = [
        subprocess.Popen(
            [python, __file__, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for python in pythons
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
        rounds = [[ask(process, name) for process in workers] for _ in range(repeats)]
        old, new = (statistics.median(times) for times in zip(*rounds, strict=True))
        ratio = statistics.median(after / before for before, after in rounds)
        results[name] = {"old_ms": old, "new_ms": new, "new_over_old": ratio}
        print(f"{name:70} {old:8.2f} {new:8.2f} ms  {ratio:.3f}", flush=True)
    for process in workers:
        process.stdin.close()
        process.wait()
    ratios = [result["new_over_old"] for result in results.values()]
    print(f"median of the ratios {statistics.median(ratios):.3f}, greatest {max(ratios):.3f}")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int)
    arguments = parser.parse_args()
    pythons = (arguments.old, arguments.new)
    if arguments.train:
        results = compare_trainings(pythons, arguments.repeats or 6)
    else:
        results = compare_cases(pythons, arguments.repeats or 15)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    worker() if sys.argv[1:] == [WORKER] else main()
