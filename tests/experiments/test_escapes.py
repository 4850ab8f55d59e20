"""Content of files is shown as text: it cannot inject tables, HTML or terminal commands."""

from __future__ import annotations

from tests.experiments.made_up import tiny_study, write_report
from unbounded.evaluation.report import aligned, table
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.reproduce import write_table
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file, read_runs_file
from unbounded.files import markdown_cell


def test_cells_are_text() -> None:
    """Cells of tables are escaped."""
    bad = "ok |\n\n# Injected\n<img onerror=x>\x1b[31m"
    shown = markdown_cell(bad)
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert shown.startswith("ok \\|")
    assert "&lt;img" in shown
    assert len(grid(["a"], [[bad]]).splitlines()) == 3


def test_a_report_cannot_write_into_a_table(tmp_path) -> None:
    """Once a report's `stopped` was not escaped in table.md."""
    study = tiny_study()
    trial = study.trials[0]
    write_report(tmp_path, trial, test=(1.0, 1.0), perplexity=1.02, batches=1000, minutes=2.0)
    report = read_runs_file(tmp_path / RUNS)[trial.name]
    bad = "ok |\n\n# Injected\n<img onerror=x>"
    add_to_runs_file(tmp_path / RUNS, {trial.name: {**report, "stopped": bad}})
    shown, _ = write_table(study, tmp_path)
    assert "Injected" not in shown or "# Injected" not in shown.splitlines()
    assert "<img" not in shown


def test_a_terminal_obeys_no_report() -> None:
    """Once ESC sequences of report.json reached the terminal."""
    assert "\x1b" not in "".join(aligned([("a", "b"), ("\x1b[2J", "1")]))
    report = {
        "metric_set": "sequences",
        "task": "co\x1b[2Jpy",
        "split": "test",
        "seed": 1,
        "rows": [],
    }
    assert table(report).startswith("co?[2Jpy, split test")
