"""What stands in a file is shown as text: it is no table, no HTML and no command of a terminal."""

from __future__ import annotations

from tests.experiments.made_up import tiny_tier, write_report
from unbounded.evaluation.report import aligned, table
from unbounded.experiments.tables.markdown import escaped, grid
from unbounded.experiments.tables.reproduce import write_table


def test_cells_are_text() -> None:
    """Item 15."""
    bad = "ok |\n\n# Injected\n<img onerror=x>\x1b[31m"
    shown = escaped(bad)
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert shown.startswith("ok \\|")
    assert "&lt;img" in shown
    assert len(grid(["a"], [[bad]]).splitlines()) == 3


def test_a_report_cannot_write_into_a_table(tmp_path) -> None:
    """Item 15: a report's `stopped` arrived as it was in table.md."""
    tier = tiny_tier()
    trial = tier.trials[0]
    write_report(tmp_path, trial, test=(1.0, 1.0), perplexity=1.02, batches=1000, minutes=2.0)
    path = next((tmp_path / "reports").glob("*.json"))
    text = path.read_text()
    assert '"stopped": "' in text
    bad = r"ok |\n\n# Injected\n<img onerror=x>"
    begin, _, rest = text.partition('"stopped": "')
    path.write_text(f'{begin}"stopped": "{bad}"{rest[rest.index(chr(34)) + 1 :]}')
    shown, _ = write_table(tier, tmp_path)
    assert "Injected" not in shown or "# Injected" not in shown.splitlines()
    assert "<img" not in shown


def test_a_terminal_obeys_no_report() -> None:
    """Item 15: ESC sequences of report.json reached the terminal."""
    assert "\x1b" not in "".join(aligned([("a", "b"), ("\x1b[2J", "1")]))
    report = {"scoring": "sequences", "task": "co\x1b[2Jpy", "split": "test", "seed": 1, "rows": []}
    assert table(report).startswith("co?[2Jpy, split test")
