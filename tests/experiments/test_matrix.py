"""The matrix of memories and tasks: its tier, its table, its picture."""

from __future__ import annotations

import json
from pathlib import Path

from unbounded.experiments.config.check import faults
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.tables.reproduce import draw_tasks, write_table
from unbounded.experiments.trials.tiers import load_tier
from unbounded.memories import MEMORIES
from unbounded.tasks import TASKS

TIER = load_tier("matrix", "laptop")
OF_DATA = {"pairs", "text", "penn_treebank"}


def test_every_memory_and_baseline_is_on_every_task_of_ours():
    models = {*MEMORIES, "lstm", "gru", "elman"}
    tasks = {trial.task for trial in TIER.trials}
    assert len(tasks) >= 16
    assert tasks <= set(TASKS) - OF_DATA
    assert set(TIER.cells) == {f"{task}/{model}" for task in tasks for model in models}
    budgets = {trial.config.training.symbols for trial in TIER.trials}
    assert len(budgets) == 1
    assert None not in budgets


def test_no_cell_has_a_fault_and_each_is_scored_at_twice_the_training_lengths():
    for trial in TIER.trials:
        assert faults(trial.config) == [], trial.cell
        trained, longer = trial.config.evaluation.lengths
        assert int(longer.split(":")[1]) == 2 * int(trained.split(":")[1])


def test_reports_of_before_are_still_those_of_its_trials():
    """What was added to the tier renamed no run."""
    folder = Path(__file__).resolve().parents[2] / "results" / "matrix" / "reports"
    names = {path.stem for path in folder.glob("*.json")}
    assert len(names) > 20
    assert names <= {trial.name for trial in TIER.trials}


def test_the_table_and_the_picture(tmp_path: Path):
    reports = tmp_path / "reports"
    reports.mkdir()
    for cell, coarse in (("copy/stack", (0.5, 0.25)), ("anbn/gru", (1.0, 0.125))):
        (trial,) = (trial for trial in TIER.trials if trial.cell == cell)
        stream = cell.startswith("anbn")
        rows = [
            {
                "lengths": lengths,
                "role": role,
                "accuracy_coarse": value,
                "accuracy_fine": value,
                "percent_of_lengths": 50.0,
            }
            for lengths, role, value in zip(
                ("2:19", "20:38"), ("test", "longer"), coarse, strict=True
            )
        ]
        report = {
            "format": "unbounded-report",
            "scoring": "lengths" if stream else "sequences",
            "config": to_dict(trial.config),
            "train_lengths": "2:19",
            "rows": rows,
            "merit": 1.0,
            "success": False,
            "batches": 3,
            "minutes": 2.0,
            "stopped": "budget",
            "curves": {"perplexity": [], "coarse": {}, "fine": {}},
        }
        (reports / f"{trial.name}.json").write_text(json.dumps(report))
    text, _ = write_table(TIER, tmp_path)
    assert "| task | Stack | Queue | DeQue |" in text
    assert "| Copy | 0.50 / 0.25 |  |" in text
    row = next(line for line in text.splitlines() if line.startswith("| a^n b^n |"))
    assert row.count("1.00 / 0.12") == 1
    assert "2 of 319 runs are finished" in text
    names = {path.name for path in draw_tasks(TIER, tmp_path)}
    assert {"matrix.png", "matrix.svg"} <= names
