"""Milliseconds to draw a batch of each task: python benchmarks/drawing.py [--repeats 50]."""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from unbounded.tasks import TASKS, Task, make_task

SETTINGS = (("train", 10), ("test", 10), ("train", 1000), ("test", 1000))


def drawing_ms(task: Task, split: str, size: int, repeats: int) -> tuple[float, float, float]:
    """Mean, median and worst time of successive batches, after one that fills the tables."""
    task.batch(1, split, 0, size)
    times = []
    for number in range(repeats):
        begin = time.perf_counter()
        task.batch(0, split, number * size, size)
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.mean(times), statistics.median(times), max(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print(f"{'task':<12} {'split':<6} {'size':>5} {'mean ms':>9} {'median':>9} {'worst':>9}")
    for name in TASKS:
        task = make_task(name)
        for split, size in SETTINGS:
            mean, median, worst = drawing_ms(task, split, size, repeats if size < 100 else 5)
            print(f"{name:<12} {split:<6} {size:>5} {mean:>9.2f} {median:>9.2f} {worst:>9.2f}")


if __name__ == "__main__":
    main()
