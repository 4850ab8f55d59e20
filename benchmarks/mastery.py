"""Seconds until a Stack RNN counts, against the authors' program.

    python benchmarks/mastery.py

It runs `unbounded train TASK --seed 1` with one thread, then the test of the authors' program: 199
sequences for each n of 2 to 59 on one stream, with a state that is carried from one n to the next.
The seconds include validation, where n goes up to 40. There is one sequence for each n, so only the
lengths above 40 are new to the run. Writes benchmarks/mastery.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from unbounded.evaluation.provenance import provenance

OUT = Path(__file__).with_name("mastery.json")
#: Seconds and mastered lengths, of 58, of the authors' program with its first seed on one core.
AUTHORS = {"anbn": (210, 58), "anbncn": (330, 58), "anb2n": (450, 34)}
TEST = {"count": "199", "streams": "1", "carry": "true", "lengths": '["2:59"]'}


def measure(task: str, seed: int) -> dict[str, object]:
    """Train and test one task; seconds, batches, and the lengths that are correct."""
    test = [f"--evaluation.{name}={value}" for name, value in TEST.items()]
    with TemporaryDirectory() as runs:
        command = [sys.executable, "-P", "-m", "unbounded", "train", task, "--seed", str(seed)]
        command += ["--hardware.threads", "1", "--runs", runs, *test]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (path,) = Path(runs).glob("*/report.json")
        report = json.loads(path.read_text(encoding="utf-8"))
    (row,) = report["rows"]
    seconds, lengths = AUTHORS[task]
    return {
        "task": task,
        "seed": seed,
        "seconds": report["minutes"] * 60,
        "batches": report["batches"],
        "stopped": report["stopped"],
        "lengths_mastered": row["lengths_mastered"],
        "lengths": row["lengths"],
        "authors_seconds": seconds,
        "authors_lengths_mastered": lengths,
        "times_as_fast": seconds / (report["minutes"] * 60),
    }


def main() -> int:
    """Measure all three tasks with the first seed."""
    rows = [measure(task, seed=1) for task in AUTHORS]
    date = datetime.now(UTC).date().isoformat()
    data = {"benchmark": "mastery", "date": date, **provenance(), "threads": 1, "rows": rows}
    OUT.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
