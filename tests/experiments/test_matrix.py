"""The matrix of memories and tasks: its study, its table, its picture."""

from __future__ import annotations

from pathlib import Path

from tests.experiments.made_up import report_of
from unbounded.experiments.tables.reproduce import draw_tasks, write_table
from unbounded.experiments.tables.results import with_ids
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file, read_runs_file
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.memories import MEMORIES
from unbounded.tasks import TASKS

STUDY = load_study("matrix", "laptop")
OF_DATA = {"pairs", "text", "penn_treebank"}


def test_the_matrix_has_each_memory_and_baseline_on_each_task_without_data():
    came_later = {"rolling_tape", "nondeterministic_stack", "dnc", "ram"}
    models = {*MEMORIES, "lstm", "gru", "elman"} - came_later
    tasks = {trial.task for trial in STUDY.trials}
    assert len(tasks) >= 16
    assert tasks <= set(TASKS) - OF_DATA
    assert set(STUDY.cells) == {f"{task}/{model}" for task in tasks for model in models}
    budgets = {trial.config.training.symbols for trial in STUDY.trials}
    assert len(budgets) == 1
    assert None not in budgets


def test_each_cell_is_scored_at_twice_the_training_lengths():
    for trial in STUDY.trials:
        trained, longer = trial.config.evaluation["lengths"]
        assert int(longer.split(":")[1]) == 2 * int(trained.split(":")[1])


def test_committed_reports_belong_to_trials_of_the_study():
    """Additions to the study renamed no run."""
    folder = Path(__file__).resolve().parents[2] / "results/matrix"
    names = set(read_runs_file(folder / RUNS))
    assert len(names) > 20
    assert names <= {trial.name for trial in with_ids(STUDY.trials, folder)}


def test_the_table_and_the_picture(tmp_path: Path):
    for cell, exact_match in (("copy/stack", (0.5, 0.25)), ("anbn/gru", (1.0, 0.125))):
        (trial,) = (trial for trial in STUDY.trials if trial.cell == cell)
        tested, longer = (
            {"exact_match": value, "prefix_accuracy": value, "percent_of_lengths": 50.0}
            for value in exact_match
        )
        rows = [
            {"lengths": "2:19", "role": "test", **tested},
            {"lengths": "20:38", "role": "longer", **longer},
        ]
        metric_set = "lengths" if cell.startswith("anbn") else "sequences"
        report = report_of(trial, metric_set, rows, train_lengths="2:19")
        add_to_runs_file(tmp_path / RUNS, {trial.name: report})
    text, _ = write_table(STUDY, tmp_path)
    assert "| task | Stack | Queue | DeQue |" in text
    assert "| Copy | 0.50 / 0.25 |  |" in text
    row = next(line for line in text.splitlines() if line.startswith("| a^n b^n |"))
    assert row.count("1.00 / 0.12") == 1
    assert "2 of 319 runs are finished" in text
    names = {path.name for path in draw_tasks(STUDY, tmp_path)}
    assert {"matrix.svg"} <= names
