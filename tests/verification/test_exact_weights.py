"""The committed weights of results/exact load, and are correct beyond the training lengths."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import verify_run
from unbounded.verification import VerifyOptions

WEIGHTS = Path(__file__).resolve().parents[2] / "results/exact/weights"
RUNS = sorted(path.parent for path in WEIGHTS.glob("*/config.yaml"))


def test_there_are_weights_for_each_task_of_the_table() -> None:
    assert {run.name for run in RUNS} == {
        "anb2n", "anbmc_sum", "anbn", "anbncn", "anbncndn", "binary_addition", "copy",
        "memorization", "reversal",
    }  # fmt: skip


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_weights_are_exact_at_twice_the_training_length(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / run.name)
    options = VerifyOptions(most=6, times=(2,), count=4)
    report = verify_run(RunFolder(tmp_path / run.name), options, look=lambda name, share: None)
    rows = report["rows"]
    assert len(rows) >= 2
    # Counters are trained from n = 2 on; that of four letters is wrong at n = 1.
    trained = [row for row in rows if (run.name, row["length"]) != ("anbncndn", 1)]
    assert all(row["correct"] == row["count"] for row in trained), rows
