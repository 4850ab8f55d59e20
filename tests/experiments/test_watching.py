from __future__ import annotations

import io
import json

from rich.console import Console
from rich.progress import Progress, TextColumn

from tests.experiments.made_up import ended, tiny_study
from unbounded.experiments.trials.time_left import RunMinutes, TimeLeft, newest
from unbounded.experiments.trials.watching import Bars, Lines


def write_metrics(folder, batches, cooldown=""):
    folder.mkdir(parents=True, exist_ok=True)
    records = [{"kind": "train", "batch": batch, "perplexity": 100 / batch} for batch in batches]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(text + cooldown)
    return folder / "metrics.jsonl"


def test_the_newest_report_of_a_long_or_broken_file(tmp_path):
    assert newest(tmp_path / "metrics.jsonl") == (0, "")
    assert newest(write_metrics(tmp_path, range(1, 1001))) == (1000, "perplexity 0.1")
    half = '{"kind": "train", "batch": 9'
    assert newest(write_metrics(tmp_path, [4], cooldown=half)) == (4, "perplexity 25")
    assert newest(write_metrics(tmp_path, [], cooldown="\n")) == (0, "")


def nothing_known(runs):
    return TimeLeft([], 1, RunMinutes([], {}), runs)


def test_lines_name_each_start_and_end_once(tmp_path):
    printed: list[str] = []
    first, second, *_ = tiny_study().trials
    lines = Lines(5, 2, printed.append, nothing_known(tmp_path))
    for running in ([first], [first, second], [second]):
        lines.look(running)
    lines.ended(ended(first, 1.0, exit_code=1), "FAILED it")
    assert printed == [f"training {first.name}", f"training {second.name}", "[3/5] FAILED it"]


def test_lines_show_the_time_left_at_each_end_and_at_intervals(tmp_path):
    printed: list[str] = []
    first, second, *_ = trials = tiny_study().trials
    clock = [0.0]
    expected = RunMinutes(trials, {first.name: 90.0, second.name: 60.0})
    left = TimeLeft([first, second], 1, expected, tmp_path, now=lambda: clock[0])
    lines = Lines(2, 0, printed.append, left, now=lambda: clock[0])
    for clock[0] in (0.0, 590.0, 610.0, 620.0):
        lines.look([first])
    assert printed[1:] == [f"[0/2] training {first.name}, about 2.3 hours left"]
    lines.ended(ended(first, 90.0), "FAILED it\n    its log")
    assert printed[2:] == ["[1/2] FAILED it, about 60 minutes left\n    its log"]
    lines.ended(ended(second, 60.0), "finished it")
    assert printed[3:] == ["[2/2] finished it"]


def test_bars_follow_the_trials(tmp_path):
    first, second, *_ = tiny_study().trials
    write_metrics(tmp_path / first.name, [2])
    screen = io.StringIO()
    progress = Progress(TextColumn("{task.description}"), console=Console(file=screen))
    expected = RunMinutes([first, second], {first.name: 30.0, second.name: 20.0})
    left = TimeLeft([first, second], 1, expected, tmp_path, now=lambda: 0.0)
    bars = Bars(progress, 5, 2, tmp_path, left)
    bars.look([first])
    (every, own) = progress.tasks
    assert (every.completed, every.total) == (2, 5)
    assert (own.description, own.completed, own.total) == (first.name, 2, 4)
    assert own.fields["numbers"] == "perplexity 50"
    log = tmp_path / "logs" / f"{first.name}.log"
    log.parent.mkdir()
    for text, shown in (
        ("stopped\nscoring 4 sequences of length 5:6\n", "scoring 4 sequences of length 5:6"),
        ("scoring 4 sequences of length 5:6\nscored, 100% done in 1 s\n", "perplexity 50"),
    ):
        log.write_text(text)
        bars.look([first])
        assert own.fields["numbers"] == shown
    # Half of the first one is trained.
    assert every.fields["numbers"] == "about 35 minutes left"
    bars.look([second])
    assert [task.description for task in progress.tasks] == ["all runs", second.name]
    bars.ended(ended(second, 20.0), "finished [it]")
    assert progress.tasks[0].completed == 3
    assert "finished [it]" in screen.getvalue()
