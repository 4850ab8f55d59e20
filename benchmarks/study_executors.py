"""A study of many tiny runs on each executor: is each run trained once, and what is the overhead?

    python benchmarks/study_executors.py --runs 1000 --write

The executors run one after the other: the process pool; eight shards that start at random moments,
two of which are killed with -9 and one of which has a clock that is an hour wrong (Debian's
faketime); submitit's local and debug executors; and a Ray cluster of two nodes on this computer,
one of which is killed. `--only pool,shards` selects executors. The numbers are written to
benchmarks/study_executors.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMMAND = (sys.executable, "-P", "-m", "unbounded", "study")
STUDY = """\
about: tiny runs
preset: anbn
base:
  task: {{sequences: 2, train_lengths: "2:3", test_lengths: "2:3"}}
  model: {{memory: none, controller: elman}}
  training: {{batch_size: 1, validation_count: 1, accuracy_every: 0, report_every: 1,
              checkpoint_every: 100, stop: budget}}
  hardening: none
  evaluation: {{count: 1, lengths: ["2:2"]}}
  hardware: {{device: cpu}}
budget: {{batches: {batches}}}
axes:
  model.hidden_size: [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
seeds: "0:{seeds}"
"""
SHARDS = 8


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **more}


def run(*arguments: str, folder: Path) -> None:
    subprocess.run([*COMMAND, "study.yaml", *arguments], cwd=folder, env=environment(),
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip


def pool(folder: Path) -> dict[str, Any]:
    run("--jobs", "2", folder=folder)
    return {}


def shards(folder: Path) -> dict[str, Any]:
    """Eight shards; the first to be killed are chosen when a quarter of the runs is done."""
    generator = random.Random(0)
    processes: list[subprocess.Popen[bytes]] = []
    faketime = shutil.which("faketime")
    wrong = generator.randrange(SHARDS)
    for number in range(SHARDS):
        before = ["faketime", "-f", "-1h"] if faketime and number == wrong else []
        command = [*before, *COMMAND, "study.yaml", "--shard", f"{number + 1}/{SHARDS}"]
        # The clock of the day is wrong; that which only measures times is a machine's own.
        own = environment(DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
        processes.append(subprocess.Popen(command, cwd=folder, env=own, start_new_session=True,
                                          stdout=subprocess.DEVNULL))  # fmt: skip
        time.sleep(generator.uniform(0, 6))
    total = len((folder / "studies/study/plan.jsonl").read_text().splitlines())
    killed = generator.sample([n for n in range(SHARDS) if n != wrong], 2)
    for share, number in zip((0.25, 0.5), killed, strict=True):
        while finished(folder) < share * total:
            time.sleep(0.2)
        os.killpg(processes[number].pid, signal.SIGKILL)
    codes = [process.wait() for process in processes]
    return {
        "killed": [number + 1 for number in killed],
        "clock_an_hour_wrong": wrong + 1 if faketime else None,
        "exit_codes": codes,
    }


def local(folder: Path) -> dict[str, Any]:
    run("--executor", "local", "--jobs", "2", folder=folder)
    return {}


def debug(folder: Path) -> dict[str, Any]:
    run("--executor", "debug", folder=folder)
    return {}


def ray(folder: Path) -> dict[str, Any]:
    """Two nodes of a cluster; one is killed when a third of the runs is done."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **_SMALL})
    nodes = [cluster.add_node(num_cpus=1, **_SMALL) for _ in range(2)]
    total_runs = None
    try:
        command = [*COMMAND, "study.yaml", "--executor", "ray", "--ray_address", cluster.address,
                   "--jobs", "2"]  # fmt: skip
        with subprocess.Popen(command, cwd=folder, env=environment(),
                              stdout=subprocess.DEVNULL) as process:  # fmt: skip
            plan = folder / "studies/study/plan.jsonl"
            while not plan.exists():
                time.sleep(0.2)
            total_runs = len(plan.read_text().splitlines())
            while finished(folder) < total_runs / 3:
                time.sleep(0.2)
            cluster.remove_node(nodes[1], allow_graceful=False)
            code = process.wait()
    finally:
        cluster.shutdown()
    return {"nodes_killed": 1, "exit_code": code}


_SMALL = {"object_store_memory": 100_000_000, "include_dashboard": False}
EXECUTORS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "pool": pool, "shards": shards, "local": local, "debug": debug, "ray": ray,
}  # fmt: skip


def finished(folder: Path) -> int:
    return sum(1 for _ in folder.glob("studies/study/runs/*/report.json"))


def counted(folder: Path, wall_s: float) -> dict[str, Any]:
    """What the claims and the workers' notes say."""
    runs = folder / "studies/study/runs"
    planned = [
        json.loads(line)["run"]
        for line in (folder / "studies/study/plan.jsonl").read_text().splitlines()
    ]
    ends: dict[str, list[str]] = {name: [] for name in planned}
    fresh = dict.fromkeys(planned, 0)
    for path in (runs / ".claims").iterdir():
        name, _, number = path.name.rpartition(".")
        if number.isdigit():
            record = json.loads(path.read_text())
            ends[name].append(record["state"])
            fresh[name] += bool(record["is_fresh"])
    notes = [json.loads(path.read_text()) for path in (runs / "logs/workers").glob("*.json")]
    total, in_runs, waited = (
        sum(note[name] for note in notes) for name in ("total_s", "run_s", "wait_s")
    )
    working = total - waited
    return {
        "planned": len(planned),
        "reports": sum((runs / name / "report.json").is_file() for name in planned),
        "trained_once": sum(count == 1 for count in fresh.values()),
        "trained_twice": sum(count > 1 for count in fresh.values()),
        "claims_of_dead_workers": sum(states.count("running") for states in ends.values()),
        "wall_s": round(wall_s, 1),
        "worker_s": round(total, 1),
        "waited_s": round(waited, 1),
        "bookkeeping_percent": round(100 * (working - in_runs) / working, 2),
    }


def numbers(folder: Path) -> dict[str, Any]:
    """What each report says, without what a clock measured."""
    result = {}
    for path in folder.glob("studies/study/runs/*/report.json"):
        report = json.loads(path.read_text())
        result[path.parent.name] = [
            report[name] for name in ("rows", "selection_metric", "perplexity_train", "batches")
        ]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--only", default=",".join(EXECUTORS))
    parser.add_argument("--write", action="store_true", help="write the JSON file")
    given = parser.parse_args()
    path = HERE / "study_executors.json"
    results = json.loads(path.read_text()) if path.is_file() and given.write else {}
    reference: dict[str, Any] | None = None
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            text = STUDY.format(batches=given.batches, seeds=given.runs // 10)
            (folder / "study.yaml").write_text(text)
            began = time.monotonic()
            more = EXECUTORS[name](folder)
            result = {**counted(folder, time.monotonic() - began), **more}
            own = numbers(folder)
            reference = own if reference is None else reference
            result["same_reports_as_first"] = own == reference
        print(name, json.dumps(result), flush=True)
        results[name] = result
        if given.write:
            path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
